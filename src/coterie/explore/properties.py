"""What should hold in all reachable states, what should be seen in some, what should stay possible.

Conditions look at the seats of all processes; a crashed process fulfils no predicate. Each
predicate is evaluated once per local state (or once per combination of local states), not once per
global state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from coterie.process import MutexUser, Phase, Seat

if TYPE_CHECKING:
    from coterie.explore.arrays import Flags, Growing, Rows
    from coterie.explore.seats import Seats

SeatPredicate: TypeAlias = Callable[[Seat], bool]
RowPredicate: TypeAlias = Callable[[Sequence[Seat | None]], bool]  # None: crashed


@dataclass(frozen=True)
class Count:
    """Holds when the number of seats that fulfil the predicate is within bounds."""

    predicate: SeatPredicate
    low: int = 0
    high: int | None = None


@dataclass(frozen=True)
class Together:
    """Holds when the predicate does, which sees all seats at once."""

    predicate: RowPredicate


Condition: TypeAlias = Count | Together


@dataclass(frozen=True)
class Always:
    """All conditions hold in every reachable state. The text says what is wrong when not."""

    name: str
    conditions: tuple[Condition, ...]
    text: str


@dataclass(frozen=True)
class Sometimes:
    """In some reachable state all conditions hold: proof that the interesting thing happens."""

    name: str
    conditions: tuple[Condition, ...]


@dataclass(frozen=True)
class CanAlwaysStill:
    """From every reachable state, each live seat can get to fulfil the predicate without faults.

    The text says what is wrong with a seat that cannot.
    """

    name: str
    predicate: SeatPredicate
    text: str


Property: TypeAlias = Always | Sometimes | CanAlwaysStill


def at_most(limit: int, predicate: SeatPredicate) -> Count:
    """At most so many seats fulfil the predicate."""
    return Count(predicate, high=limit)


def at_least(limit: int, predicate: SeatPredicate) -> Count:
    """At least so many seats fulfil the predicate."""
    return Count(predicate, low=limit)


def inside(seat: Seat) -> bool:
    """Tell whether the user is in the critical section."""
    return isinstance(seat.user, MutexUser) and seat.user.phase is Phase.INSIDE


def waiting(seat: Seat) -> bool:
    """Tell whether the user waits for the critical section."""
    return isinstance(seat.user, MutexUser) and seat.user.phase is Phase.WAITING


def not_waiting(seat: Seat) -> bool:
    """Tell whether the user has what it asked for."""
    return not waiting(seat)


MUTUAL_EXCLUSION = Always("mutual exclusion", (at_most(1, inside),), "more than one is inside")
CONTENTION = Sometimes("contention", (at_least(1, waiting), at_least(1, inside)))
ENTRY = CanAlwaysStill("entry stays possible", not_waiting, "can never enter")
MUTEX: tuple[Property, ...] = (MUTUAL_EXCLUSION, CONTENTION, ENTRY)


class Judge:
    """Evaluates conditions on matrices of states."""

    def __init__(self, seats: Seats, size: int) -> None:
        """Judge states of so many processes."""
        self._seats = seats
        self._size = size
        self._marks: dict[SeatPredicate, Growing] = {}
        self._combinations: dict[RowPredicate, dict[bytes, bool]] = {}

    def holds(self, conditions: Sequence[Condition], rows: Rows) -> Flags:
        """Tell for each state whether all conditions hold."""
        verdict = np.ones(rows.shape[1], np.bool_)
        for condition in conditions:
            match condition:
                case Count(predicate, low, high):
                    count = self.count(predicate, rows)
                    verdict &= (count >= low) & (count <= (self._size if high is None else high))
                case Together(row_predicate):
                    verdict &= self._together(row_predicate, rows)
        return verdict

    def count(
        self, predicate: SeatPredicate, rows: Rows
    ) -> np.ndarray[tuple[int], np.dtype[np.int8]]:
        """Count for each state the seats that fulfil the predicate."""
        marks = self.marks(predicate)
        count = np.zeros(rows.shape[1], np.int8)
        for place in range(self._size):
            count += marks.take(rows[place])
        return count

    def places(self, predicate: SeatPredicate, rows: Rows, state: int) -> list[int]:
        """Ids of the processes whose seats fulfil the predicate in one state."""
        marks = self.marks(predicate).take(rows[: self._size, state])
        return [int(place) + 1 for place in np.flatnonzero(marks)]

    def marks(self, predicate: SeatPredicate) -> Growing:
        """Tell for each local state whether it fulfils the predicate."""
        if predicate not in self._marks:
            self._marks[predicate] = self._seats.mark(predicate)
        return self._marks[predicate]

    def _together(self, predicate: RowPredicate, rows: Rows) -> Flags:
        known = self._combinations.setdefault(predicate, {})
        combinations, which = np.unique(
            rows[: self._size].astype(np.uint32), axis=1, return_inverse=True
        )
        verdicts = []
        for combination in np.ascontiguousarray(combinations.T):
            key = combination.tobytes()
            if key not in known:
                seats = [self._seats.restore(number) for number in combination.tolist()]
                known[key] = bool(predicate(seats))
            verdicts.append(known[key])
        return np.array(verdicts, np.bool_)[which.reshape(-1)]
