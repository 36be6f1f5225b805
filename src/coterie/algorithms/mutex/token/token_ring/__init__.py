"""A token that goes round a ring: as the lectures tell it, and replaced when it is lost."""

from coterie.algorithms.mutex.token.token_ring.catalogue_entry import ALGORITHM
from coterie.algorithms.mutex.token.token_ring.parameters import parse_pause, parse_ring
from coterie.algorithms.mutex.token.token_ring.regenerating import Epoch, Regenerating
from coterie.algorithms.mutex.token.token_ring.rotating import PAUSE, Token, TokenRing

__all__ = [
    "ALGORITHM",
    "PAUSE",
    "Epoch",
    "Regenerating",
    "Token",
    "TokenRing",
    "parse_pause",
    "parse_ring",
]
