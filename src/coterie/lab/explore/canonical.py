"""One state for all that differ by a shift of logical time.

Logical times are compared with each other, raised by one and passed on, never compared with a
constant. So a state and the same state with all its times later by the same amount do the same for
ever, and the search keeps the one whose earliest time is 0. Ranks instead of times would merge more,
and wrongly: a new stamp is one above the highest, and so it matters whether the next stamp in use is
one or two above.

What a field means is declared by its type, `LogicalTime`. Forgetting to declare one would make two
different states one. So each step is computed twice, the second time one later: it must come out
the same, one later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from coterie.errors import ConfigError
from coterie.lab.explore.tables.arrays import Growing, namespace
from coterie.lab.explore.tables.inputs import Receive
from coterie.lab.explore.tables.memo import PairMemo
from coterie.lab.explore.tables.step import run
from coterie.lab.explore.tables.times import change_times, earliest
from coterie.process import Seat, encode

if TYPE_CHECKING:
    from coterie.lab.explore.tables.arrays import Rows
    from coterie.lab.explore.tables.inputs import Input
    from coterie.lab.explore.tables.moves import Moves
    from coterie.lab.explore.tables.step import Outcome

_NEVER = np.iinfo(np.int32).max  # the earliest time of what holds none


class Canonical:
    """Brings states to canonical form."""

    def __init__(self, moves: Moves) -> None:
        """Work on the states of `moves`."""
        self._moves = moves
        self._seat_earliest = Growing(np.int32)
        self._link_earliest = Growing(np.int32)
        self._earlier_seat = PairMemo(self._shift_seat)
        self._earlier_link = PairMemo(self._shift_link)
        moves.steps.witness = self._require_indifference

    def __call__(self, rows: Rows) -> Rows:
        """Shift each state so that its earliest time is 0."""
        self._extend()
        xp = namespace(rows)
        size, budget_row = self._moves.size, self._moves.budget_row
        first = xp.full(rows.shape[1], _NEVER, np.int32)
        for row in range(budget_row):
            times = self._seat_earliest if row < size else self._link_earliest
            xp.minimum(first, times.take(rows[row]), out=first)
        late = xp.flatnonzero((first > 0) & (first < _NEVER))
        if not late.size:
            return rows
        by = first.take(late)
        seats, links = self._moves.seats, self._moves.links
        shifted = rows.take(late, axis=1).astype(np.int32)
        for row in range(size):
            bounds = (int(by.max()) + 1, len(seats))
            shifted[row] = self._earlier_seat(by, shifted[row], bounds) - 1
        for row in range(size, budget_row):
            bounds = (int(by.max()) + 1, len(links))
            shifted[row] = self._earlier_link(by, shifted[row], bounds)
        rows = rows.astype(self._moves.dtype)
        rows[:, late] = shifted
        return rows

    def _extend(self) -> None:
        """Find the earliest times in what was numbered since the last time."""
        for number in range(len(self._seat_earliest), len(self._moves.seats)):
            seat = self._moves.seats.restore(number)
            time = None if seat is None else earliest(seat.process)
            self._seat_earliest.append(_NEVER if time is None else time)
        for number in range(len(self._link_earliest), len(self._moves.links)):
            inputs = map(self._moves.inputs.__getitem__, self._moves.links.content(number) or ())
            times = [earliest(given.message) for given in inputs if isinstance(given, Receive)]
            known = [time for time in times if time is not None]
            self._link_earliest.append(min(known, default=_NEVER))

    def _shift_seat(self, by: int, number: int) -> int:
        """Return the number of a local state as it was so much earlier, plus 1, which makes it positive."""
        seats = self._moves.seats
        place, _, pending = seats.locals[number]
        seat = seats.restore(number)
        if seat is None:
            return number + 1
        process = _later(seat.process, -by)
        return seats.save(place, Seat(process, seat.user), pending) + 1

    def _shift_link(self, by: int, number: int) -> int:
        def earlier(message: int) -> int:
            given = _later_input(self._moves.inputs[message], -by)
            assert isinstance(given, Receive)
            return self._moves.inputs.receive(given.sender, given.message)

        return self._moves.links.replace(number, earlier)

    def _require_indifference(self, state: int, given: Input, outcome: Outcome) -> None:
        """Run the step once more, one later, and compare."""
        seat = self._moves.seats.restore(state)
        if seat is None:
            return  # it begins again, whatever the time
        pending = self._moves.seats.locals[state].pending
        later_seat = Seat(_later(seat.process, 1), seat.user)
        later = run(later_seat, pending, _later_input(given, 1), self._moves.size)
        if _effects(outcome, by=1) != _effects(later, by=0):
            raise ConfigError(
                f"{type(seat.process).__name__} has no canonical form: {given} does not do the same"
                " one unit of logical time later (is each such field declared LogicalTime?)"
            )


def _effects(outcome: Outcome, by: int) -> tuple[object, ...]:
    """Return what came of a step, so much later, in a form that can be compared."""
    seat, pending, sends, error = outcome
    if error is not None:
        return ("raised",)
    sent = [(to, encode(_later(message, by))) for to, message in sends]
    return encode(_later(seat.process, by)), encode(seat.user), pending, sent


def _later(value: Any, by: int) -> Any:
    return change_times(value, lambda time: time + by)


def _later_input(given: Input, by: int) -> Input:
    if isinstance(given, Receive):
        return Receive(given.sender, _later(given.message, by))
    return given
