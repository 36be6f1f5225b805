"""Clocks that order events: Lamport's logical clock and its stamps, and the hybrid logical clock.

If an event can have influenced another, both clocks give it the smaller time; the converse does not
hold. That takes every message that can carry influence: each is stamped when sent and merged when
received. Physical clocks are kept together by `coterie.clocks.synchronisation`.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple, TypeAlias

import msgspec

# A reading of a logical clock. Only compared, raised and passed on, so its origin means nothing:
# a field declared so lets the explorer take states for one that differ by a shift of time.
LogicalTime: TypeAlias = Annotated[int, msgspec.Meta(description="logical time")]


class Stamp(NamedTuple):
    """A logical time, made unique by the process that read it; stamps order totally."""

    time: LogicalTime
    process: int

    def __str__(self) -> str:
        """Write `time.process`, as the literature does."""
        return f"{self.time}.{self.process}"


class LamportClock(msgspec.Struct, array_like=True):
    """A counter of events (Lamport, 1978), to be kept among the state of a process."""

    time: int = 0  # of the last event

    def tick(self) -> int:
        """Take the time of an event of one's own, such as sending: later than all before it."""
        self.time += 1
        return self.time

    def merge(self, received: int) -> int:
        """Take the time of receiving a message: later than its sending and than all events here."""
        self.time = max(self.time, received) + 1
        return self.time


class HybridTime(NamedTuple):
    """A time of a hybrid clock: close to physical time, with a counter for what is closer still."""

    wall: float  # the highest physical time heard of
    ticks: int = 0  # events since that time was first heard of


class HybridClock(msgspec.Struct, array_like=True):
    """A logical clock that stays close to physical time (Kulkarni and others, 2014).

    Orders events as Lamport's clock does. The wall part is never behind one's own physical clock,
    and ahead of it by no more than physical clocks differ among each other.
    """

    wall: float = 0.0  # as in the time of the last event
    ticks: int = 0

    @property
    def time(self) -> HybridTime:
        """The time of the last event."""
        return HybridTime(self.wall, self.ticks)

    def tick(self, now: float) -> HybridTime:
        """Take the time of an event of one's own, `now` being one's physical clock."""
        return self._advance(now, self.time)

    def merge(self, received: HybridTime, now: float) -> HybridTime:
        """Take the time of receiving a message, `now` being one's physical clock."""
        return self._advance(now, max(self.time, received))

    def _advance(self, now: float, latest: HybridTime) -> HybridTime:
        """Move past `latest`: by physical time if that has gone on, else by counting."""
        self.wall, self.ticks = (now, 0) if now > latest.wall else (latest.wall, latest.ticks + 1)
        return self.time
