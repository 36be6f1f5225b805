"""The local states of the processes, each a small number.

A local state is a process, its user, the timers it has armed and the processes it watches, or the
fact that it has crashed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from coterie.lab.explore.tables.arrays import Growing, Slots
from coterie.lab.explore.tables.hashing import scatter
from coterie.lab.explore.tables.step import Pending, must_call
from coterie.process import SeatCodec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from coterie.lab.explore.tables.inputs import Inputs
    from coterie.process import Seat


class Local(NamedTuple):
    """A local state, saved."""

    place: int  # process id - 1
    saved: tuple[bytes, bytes] | None  # None: crashed
    pending: Pending


class Seats:
    """Numbers each local state; those of two processes never share one."""

    def __init__(self, seats: Sequence[Seat], inputs: Inputs) -> None:
        """Start with no states; the seats tell the types."""
        self._codecs = [SeatCodec(seat) for seat in seats]
        self._fresh = [codec.save(seat) for codec, seat in zip(self._codecs, seats, strict=True)]
        self._inputs = inputs
        self._numbers: dict[Local, int] = {}
        self.locals: list[Local] = []
        self.asks = Slots()  # calls that the user may make, or never make
        self.own = Slots()  # what is sure to come in the end: timers, and leaving when inside
        self.watched = Growing(np.uint64)  # a bit for each place that is watched
        self.zobrist = Growing(np.uint64)
        self._markers: list[tuple[Callable[[Seat], bool], Growing]] = []

    def __len__(self) -> int:
        """Count the states."""
        return len(self.locals)

    def save(self, place: int, seat: Seat, pending: Pending) -> int:
        """Number the state of a live process."""
        return self._number(Local(place, self._codecs[place].save(seat), pending))

    def crash(self, place: int) -> int:
        """Number the state of a crashed process."""
        return self._number(Local(place, None, Pending()))

    def restore(self, number: int) -> Seat | None:
        """Make the seat again; None for a crashed one."""
        place, saved, _ = self.locals[number]
        return None if saved is None else self._codecs[place].restore(saved)

    def fresh(self, place: int) -> Seat:
        """Make a seat as it is before its start."""
        return self._codecs[place].restore(self._fresh[place])

    def mark(self, predicate: Callable[[Seat], bool]) -> Growing:
        """Keep an array that tells for each state whether the predicate holds; crashed: never."""
        marks = Growing(np.int8)
        self._markers.append((predicate, marks))
        for number in range(len(self)):
            seat = self.restore(number)
            marks.append(seat is not None and bool(predicate(seat)))
        return marks

    def _number(self, local: Local) -> int:
        known = self._numbers.get(local)
        if known is not None:
            return known
        number = self._numbers[local] = len(self.locals)
        self.locals.append(local)
        self.zobrist.append(scatter(2 * number + 1))
        seat = self.restore(number)
        calls = [] if seat is None else [self._inputs.call(name) for name in seat.user.calls()]
        rings = [self._inputs.ring(timer) for timer in local.pending.armed]
        leaves = seat is not None and must_call(seat)
        self.asks.append([] if leaves else calls)
        self.own.append(calls + rings if leaves else rings)
        self.watched.append(sum(1 << (peer - 1) for peer in local.pending.watched))
        for predicate, marks in self._markers:
            marks.append(seat is not None and bool(predicate(seat)))
        return number
