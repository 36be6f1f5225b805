"""Lamport's logical clock and its stamps."""

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
