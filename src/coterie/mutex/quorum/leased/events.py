"""What a participant tells its user."""

from __future__ import annotations

from coterie.process import Entered, Event


class Acquired(Entered, frozen=True):
    """The lock is ours. Resources that compare tokens accept no smaller one after this."""

    lock: str
    token: int


class Lost(Event, frozen=True):
    """The hold has lapsed, for good: stop, then release. Somebody else may hold the lock now."""

    lock: str
    token: int


class Unwanted(Event, frozen=True):
    """Nobody else waits any more for the lock that we share: others here may join the hold."""

    lock: str
