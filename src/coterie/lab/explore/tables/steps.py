"""What each input does to each local state: handlers are pure, so each step is looked up once it was made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from coterie.lab.explore.tables.arrays import Growing
from coterie.lab.explore.tables.memo import PairMemo
from coterie.lab.explore.tables.purity import PuritySample, require_purity
from coterie.lab.explore.tables.step import run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from coterie.lab.explore.tables.arrays import Ids, Numbers
    from coterie.lab.explore.tables.inputs import Input, Inputs
    from coterie.lab.explore.tables.links import Links
    from coterie.lab.explore.tables.seats import Seats
    from coterie.lab.explore.tables.step import Outcome
    from coterie.process import ProcessId, Seat


class Steps:
    """Numbers the results of steps, from 1 on: the next state, and what is sent to which process."""

    def __init__(self, seats: Seats, links: Links, inputs: Inputs, size: int) -> None:
        """Start with no steps computed."""
        self._seats = seats
        self._links = links
        self._inputs = inputs
        self._memo = PairMemo(self._compute)
        self._sample = PuritySample()
        self.after = Growing(np.int32)  # by result
        self.receivers = Growing(np.uint64)  # a bit for each place that something is sent to
        self.sent = [Growing(np.int32) for _ in range(size)]  # to each place, as a suffix
        self.errors: dict[int, str] = {}  # results of handlers that raised
        self.witness: Callable[[int, Input, Outcome], None] | None = None  # sees each step
        self._append(0, [()] * size)  # so that no result has number 0

    def __call__(self, states: Ids, inputs: Numbers) -> Numbers:
        """Results of these steps."""
        return self._memo(states, inputs, (len(self._seats), len(self._inputs)))

    def dispatch(
        self, sender: ProcessId, sends: Sequence[tuple[ProcessId, Any]]
    ) -> list[tuple[int, ...]]:
        """Sort what was sent by the place of the receiver, as inputs."""
        sent: list[tuple[int, ...]] = [()] * len(self.sent)
        for to, message in sends:
            sent[to - 1] += (self._inputs.receive(sender, message),)
        return sent

    def _compute(self, state: int, number: int) -> int:
        place, _, pending = self._seats.locals[state]
        given = self._inputs[number]
        seat = self._seat(state, place)
        outcome = run(seat, pending, given, len(self.sent))
        if self._sample.includes(seat.process, given):
            again = run(self._seat(state, place), pending, given, len(self.sent))
            require_purity(outcome, again, given)
        if self.witness is not None:
            self.witness(state, given, outcome)
        if outcome.error is None:
            after = self._seats.save(place, seat, outcome.pending)
            return self._append(after, self.dispatch(place + 1, outcome.sends))
        self.errors[len(self.after)] = outcome.error
        return self._append(state, [()] * len(self.sent))

    def _seat(self, state: int, place: int) -> Seat:
        """Make the seat again; a crashed one as it is before its start."""
        return self._seats.restore(state) or self._seats.fresh(place)

    def _append(self, after: int, sent: list[tuple[int, ...]]) -> int:
        self.after.append(after)
        self.receivers.append(sum(1 << place for place, content in enumerate(sent) if content))
        for place, content in enumerate(sent):
            self.sent[place].append(self._links.suffix(content) if content else 0)
        return len(self.after) - 1
