"""The hybrid logical clock, which stays close to physical time."""

from __future__ import annotations

from typing import NamedTuple

import msgspec


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
