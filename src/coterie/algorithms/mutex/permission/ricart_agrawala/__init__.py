"""Ricart and Agrawala's algorithm: as published, with permissions that are kept, and with denials."""

from coterie.algorithms.mutex.permission.ricart_agrawala.catalogue_entry import ALGORITHM
from coterie.algorithms.mutex.permission.ricart_agrawala.denied import Denied, Denying
from coterie.algorithms.mutex.permission.ricart_agrawala.plain import Reply, Request, RicartAgrawala
from coterie.algorithms.mutex.permission.ricart_agrawala.roucairol_carvalho import RoucairolCarvalho

__all__ = [
    "ALGORITHM",
    "Denied",
    "Denying",
    "Reply",
    "Request",
    "RicartAgrawala",
    "RoucairolCarvalho",
]
