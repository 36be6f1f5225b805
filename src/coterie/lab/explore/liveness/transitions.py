"""The moves of a search that faults have no part in, each with the step of fairness that it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from coterie.lab.explore.liveness.components import edges_on_cycles
from coterie.lab.explore.tables.arrays import namespace, on_host
from coterie.lab.explore.tables.inputs import Receive
from coterie.lab.explore.tables.memo import PairMemo
from coterie.lab.explore.tables.times import earliest
from coterie.process import Channel

if TYPE_CHECKING:
    from coterie.lab.explore.tables.arrays import Flags, Numbers, Positions, Rows
    from coterie.lab.explore.tables.inputs import Input
    from coterie.lab.explore.tables.moves import Action, Batch, Moves

UNBOUND = 0  # in place of a step: a call that need never be made
EDGES_MAX = 1 << 26  # on more of them runs are not judged: it takes some 50 bytes each


class FairSteps:
    """Numbers the steps that must be taken if they stay possible, from 1 on."""

    def __init__(self, moves: Moves, channel: Channel) -> None:
        """Number the steps of these moves."""
        self._moves = moves
        self._fifo = channel is Channel.FIFO
        size = moves.size
        self._families = 2 * size * size + size
        self._known: list[tuple[int, int]] = [(0, 0)]  # family and input, by number
        self._number = PairMemo(self._number_one)

    def of(self, batch: Batch, rows: Rows) -> Numbers:
        """Return the step that each move of a batch takes; `rows` are the states it was made from."""
        action = batch.action
        if not action.is_certain:
            unbound: Numbers = namespace(rows).full(len(batch.sources), UNBOUND, np.int32)
            return unbound
        inputs = self._inputs(action, rows).take(batch.sources)
        bounds = (self._families, max(len(self._moves.inputs), 1))
        return self._number(np.intp(self._family(action)), inputs, bounds)

    def timed(self) -> Flags:
        """Return for each step whether it delivers a message with a logical time in it."""
        return np.array([self._holds_time(given) for _, given in self._known], np.bool_)

    def alike(self, first: int, second: int) -> bool:
        """Return whether two steps are one but for a shift of logical time."""
        (family, given), (other_family, other) = self._known[first], self._known[second]
        if family != other_family:
            return False
        return given == other or (self._holds_time(given) and self._holds_time(other))

    def _family(self, action: Action) -> int:
        size = self._moves.size
        pair = action.place * size + action.peer
        match action.kind:
            case "deliver":
                return pair
            case "notice":
                return size * size + pair
            case _:
                return 2 * size * size + action.place

    def _inputs(self, action: Action, rows: Rows) -> Numbers:
        """Return what tells steps of one family apart: timers, calls, and messages in a bag."""
        moves = self._moves
        if action.kind == "own":
            return moves.seats.own.slots[action.slot].take(rows[action.place])
        if action.kind == "deliver" and not self._fifo:
            link = moves.link_rows[action.peer, action.place]
            return moves.links.heads.slots[action.slot].take(rows[link])
        nothing: Numbers = namespace(rows).zeros(rows.shape[1], np.int32)
        return nothing

    def _number_one(self, family: int, given: int) -> int:
        self._known.append((family, given))
        return len(self._known) - 1

    def _holds_time(self, number: int) -> bool:
        if not number:
            return False
        given: Input = self._moves.inputs[number]
        return isinstance(given, Receive) and earliest(given.message) is not None


class Transitions:
    """The moves between states, in arrays that grow with the search."""

    def __init__(self, moves: Moves, channel: Channel) -> None:
        """Start with none."""
        self.fair_steps = FairSteps(moves, channel)
        self._kept: list[tuple[Numbers, Numbers, Numbers, Flags]] = []
        self._count = 0

    @property
    def complete(self) -> bool:
        """Whether all moves are here: else nothing is said about fair runs."""
        return self._count <= EDGES_MAX

    def add(
        self, batch: Batch, rows: Rows, ends: tuple[Numbers, Numbers], shifted: Flags | None
    ) -> None:
        """Keep the moves of a batch: the numbers of the states from which and to which they lead.

        `shifted` says where the state at the end was brought to an earlier logical time.
        """
        sources, targets = ends
        self._count += len(sources)
        if not self.complete and not batch.action.is_certain:
            return
        if shifted is None:
            shifted = np.zeros(len(sources), np.bool_)
        steps = self.fair_steps.of(batch, rows)
        kept = (on_host(sources), on_host(targets), on_host(steps), on_host(shifted))
        self._kept.append(kept)

    def on_cycles(self, states: int, *, asks: bool) -> Positions:
        """Return the moves that lie on cycles or lead from cycle to cycle; a run without end needs no others.

        With `asks` users may call again and again.
        """
        sources, targets, steps, _ = self.arrays()
        moves = np.arange(len(steps)) if asks else np.flatnonzero(steps != UNBOUND)
        found: Positions = moves[edges_on_cycles(states, sources[moves], targets[moves])]
        return found

    def arrays(self) -> tuple[Numbers, Numbers, Numbers, Flags]:
        """Return sources, targets, steps and shifts of all moves."""
        if len(self._kept) != 1:
            nothing = np.zeros(0, np.int32)
            parts = [(nothing, nothing, nothing, np.zeros(0, np.bool_)), *self._kept]
            sources, targets, steps, shifts = (
                np.concatenate(part) for part in zip(*parts, strict=True)
            )
            self._kept = [(sources, targets, steps, shifts)]
        return self._kept[0]
