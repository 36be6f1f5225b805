"""What sites tell their users, and what their clients tell a recorder."""

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


class Began(Event, frozen=True):
    """A client has begun an attempt."""

    transaction: Name
    failures: int


class Wrote(Event, frozen=True):
    """A client has asked to write this."""

    transaction: Name
    key: str
    value: Value


class Finished(Event, frozen=True):
    """A transaction of a client has committed, after that many failures and seconds."""

    transaction: Name
    failures: int
    seconds: float  # since its first attempt
    waited: float  # of them for answers to its last attempt
