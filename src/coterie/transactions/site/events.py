"""What sites tell their users."""

from __future__ import annotations

from typing import TypeAlias

from coterie.process import Event
from coterie.transactions.schemes.scheduler import (
    Accepted,
    Committed,
    Found,
    Listed,
    Name,
    Number,
    Refused,
    Value,
)

UserAnswer: TypeAlias = Found | Listed | Accepted | Committed | Refused


class Installed(Event, frozen=True):
    """The writes of a transaction have taken effect at this site, by this number."""

    transaction: Name
    number: Number
    writes: tuple[tuple[str, Value], ...]


class Answered(Event, frozen=True):
    """The answer to the last request of a transaction; a refusal may come at any time."""

    answer: UserAnswer


class Doubted(Event, frozen=True):
    """The only site that took part decides, and does not answer: the outcome is not known yet."""

    transaction: Name
