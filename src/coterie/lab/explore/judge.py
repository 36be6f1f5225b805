"""Evaluating conditions on whole matrices of states.

A predicate is evaluated once per local state, or once per combination of local states, and looked
up for each global state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from coterie.lab.explore.properties import Count, Together
from coterie.lab.explore.tables.arrays import namespace, on_host

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from coterie.lab.explore.properties import Condition, RowPredicate, SeatPredicate
    from coterie.lab.explore.tables.arrays import Flags, Growing, Rows
    from coterie.process import Seat


class LocalStates(Protocol):
    """Local states, each a number."""

    def mark(self, predicate: SeatPredicate) -> Growing:
        """Keep an array that tells for each number whether the predicate holds; crashed: never."""

    def restore(self, number: int) -> Seat | None:
        """Make the seat again; None for a crashed one."""


class Judge:
    """Evaluates conditions on matrices of states."""

    def __init__(self, seats: LocalStates, size: int) -> None:
        """Judge states of this many processes."""
        self._seats = seats
        self._size = size
        self._marks: dict[SeatPredicate, Growing] = {}
        self._combinations: dict[RowPredicate, dict[bytes, bool]] = {}

    def holds(self, conditions: Sequence[Condition], rows: Rows) -> Flags:
        """Return for each state whether all conditions hold."""
        verdict: Flags = namespace(rows).ones(rows.shape[1], np.bool_)
        for condition in conditions:
            match condition:
                case Count(predicate, low, high):
                    count = self.count(predicate, rows)
                    verdict &= (count >= low) & (count <= (self._size if high is None else high))
                case Together(row_predicate):
                    verdict &= self._together(row_predicate, rows)
        return verdict

    def count(self, predicate: SeatPredicate, rows: Rows) -> npt.NDArray[np.int8]:
        """Count for each state the seats that fulfil the predicate."""
        marks = self.marks(predicate)
        count: npt.NDArray[np.int8] = namespace(rows).zeros(rows.shape[1], np.int8)
        for place in range(self._size):
            count += marks.take(rows[place])
        return count

    def places(self, predicate: SeatPredicate, state: Rows) -> list[int]:
        """Places of the seats that fulfil the predicate in one state."""
        return np.flatnonzero(self.marks(predicate).take(on_host(state[: self._size]))).tolist()

    def marks(self, predicate: SeatPredicate) -> Growing:
        """Return for each local state whether it fulfils the predicate."""
        if predicate not in self._marks:
            self._marks[predicate] = self._seats.mark(predicate)
        return self._marks[predicate]

    def each(self, predicate: SeatPredicate, rows: Rows) -> Flags:
        """Return for each process and state whether the seat fulfils the predicate."""
        fulfilled: Flags = self.marks(predicate).take(rows[: self._size]) != 0
        return fulfilled

    def owed(self, predicate: SeatPredicate, rows: Rows) -> Flags:
        """Return for each process and state whether it lives and does not fulfil the predicate."""
        happy, alive = self.marks(predicate), self.marks(_alive)
        seats = rows[: self._size]
        owed: Flags = alive.take(seats) > happy.take(seats)
        return owed

    def live(self, state: Rows) -> list[int]:
        """Places of the processes that live in one state."""
        return self.places(_alive, state)

    def _together(self, predicate: RowPredicate, rows: Rows) -> Flags:
        known = self._combinations.setdefault(predicate, {})
        combinations, which = np.unique(
            on_host(rows[: self._size]).astype(np.uint32), axis=1, return_inverse=True
        )
        verdicts = []
        for combination in np.ascontiguousarray(combinations.T):
            key = combination.tobytes()
            if key not in known:
                seats = [self._seats.restore(number) for number in combination.tolist()]
                known[key] = bool(predicate(seats))
            verdicts.append(known[key])
        held: Flags = namespace(rows).asarray(np.array(verdicts, np.bool_)[which.reshape(-1)])
        return held


def _alive(_: object) -> bool:
    return True
