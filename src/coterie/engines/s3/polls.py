"""When a program looks at objects for which nothing tells it that they have changed. A value: it sends nothing.

Each look is paid for, so the pauses grow: a look after a quarter of the time that was waited delays a hand-off by a quarter
of that at most. A program that stands behind several others cannot be next, and looks less often.
"""

from __future__ import annotations

import math

import msgspec

PAUSE_SECONDS_MIN = 0.05
PAUSE_SECONDS_MAX = 2.0  # where the lease is long
PAUSES_PER_LEASE = 15  # of the longest pause
PATIENCE = 0.25  # of the time that was waited
RANKS_MAX = 3  # by which a pause is multiplied


class Poll(msgspec.Struct):
    """The looks at one object."""

    since: float
    due: float
    rank: int = 1


class Polls:
    """The objects that are looked at, by name."""

    def __init__(self, lease: float) -> None:
        """Begin with none; no pause is longer than a part of the lease."""
        self.pause_max = min(max(lease / PAUSES_PER_LEASE, PAUSE_SECONDS_MIN), PAUSE_SECONDS_MAX)
        self._polls: dict[str, Poll] = {}

    def watch(self, name: str, rank: int, now: float) -> None:
        """Look at an object from now on; of those who wait for it we are the one of this rank."""
        poll = self._polls.get(name)
        if poll is None:
            poll = self._polls[name] = Poll(now, now)
        poll.rank = min(rank, RANKS_MAX)
        poll.due = now + self._pause(poll, now)

    def rest(self, name: str, now: float) -> None:
        """Look at an object from now on, with the longest pauses."""
        self._polls[name] = Poll(-math.inf, now)

    def forget(self, name: str) -> None:
        """Look at it no more."""
        self._polls.pop(name, None)

    def hurry(self, name: str, now: float) -> None:
        """Look at it often again, as if the wait had just begun."""
        self._polls[name] = Poll(now, now + PAUSE_SECONDS_MIN)

    def __contains__(self, name: str) -> bool:
        """Return True if an object is looked at."""
        return name in self._polls

    def due(self, now: float) -> list[str]:
        """Return what is to be looked at now, and take these looks as made."""
        found = [name for name, poll in self._polls.items() if now >= poll.due]
        for name in found:
            poll = self._polls[name]
            poll.due = now + self._pause(poll, now)
        return found

    def next_at(self) -> float:
        """Return when the next look is due; infinity if nothing is looked at."""
        return min((poll.due for poll in self._polls.values()), default=math.inf)

    def _pause(self, poll: Poll, now: float) -> float:
        waited = now - poll.since
        return poll.rank * min(max(PATIENCE * waited, PAUSE_SECONDS_MIN), self.pause_max)
