"""A short cycle in a fair component that leaves out no step that stays possible."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from coterie.lab.explore.liveness.transitions import UNBOUND
from coterie.lab.explore.reachability import Grouped
from coterie.lab.explore.tables.arrays import distinct

if TYPE_CHECKING:
    from coterie.lab.explore.liveness.starvation import FairComponent
    from coterie.lab.explore.liveness.transitions import Transitions
    from coterie.lab.explore.tables.arrays import Flags, Positions

SHIFT = -1  # a step that stands for all messages with times: see `starvation`


class Turn(NamedTuple):
    """A move on the cycle."""

    state: int  # that it leads to
    step: int  # of fairness


def fair_cycle(transitions: Transitions, component: FairComponent) -> tuple[Turn, ...]:
    """Go from the first state of the component round to it again, by way of all that fairness asks."""
    walk = _Walk(transitions, component)
    while walk.due:
        walk.go_to_due()
    walk.go_home()
    return tuple(walk.turns)


class _Walk:
    """A walk through a component, by the shortest way to what is due next."""

    def __init__(self, transitions: Transitions, component: FairComponent) -> None:
        sources, targets, steps, shifts = transitions.arrays()
        self._sources, self._targets = sources[component.edges], targets[component.edges]
        self._steps, self._shifts = steps[component.edges], shifts[component.edges]
        self._possible = sources[component.leaving], steps[component.leaving]
        self._size = int(max(self._sources.max(), self._targets.max())) + 1
        self._leaving = Grouped(self._size, self._sources)
        self._home = self._here = component.first
        self.turns: list[Turn] = []
        timed = transitions.fair_steps.timed()
        self.due = set(self._possible_at(self._home))
        if component.shifts:
            self.due = {step for step in self.due if not timed[step]} | {SHIFT}

    def go_to_due(self) -> None:
        """Go to the nearest move that takes a step that is due, or state where one is impossible."""
        due = np.array(sorted(self.due), np.int32)
        takes = np.isin(self._steps, due)
        if SHIFT in self.due:
            takes |= self._shifts
        rests = np.zeros(self._size, np.bool_)
        for step in self.due - {SHIFT}:
            able = np.zeros(self._size, np.bool_)
            able[self._possible[0][self._possible[1] == step]] = True
            rests |= ~able
        self._go(takes | rests[self._targets])

    def go_home(self) -> None:
        """Close the cycle."""
        if self._here != self._home or not self.turns:
            self._go(self._targets == self._home)

    def _go(self, goals: Flags) -> None:
        """Go by the fewest moves to one of these, and make it."""
        came = np.full(self._size, -1, np.intp)  # by which edge
        seen = np.zeros(self._size, np.bool_)
        seen[self._here] = True
        border: Positions = np.array([self._here])
        while True:
            edges = self._leaving.at(border)
            there = edges[goals[edges]]
            if there.size:
                self._make(self._way_to(int(there[0]), came))
                return
            fresh = edges[~seen[self._targets[edges]]]
            came[self._targets[fresh]] = fresh
            border = distinct(self._targets[fresh])
            assert border.size, "a component is strongly connected"
            seen[border] = True

    def _way_to(self, edge: int, came: Positions) -> list[int]:
        way = [edge]
        while int(self._sources[way[-1]]) != self._here:
            way.append(int(came[self._sources[way[-1]]]))
        return way[::-1]

    def _make(self, way: list[int]) -> None:
        for edge in way:
            self._here = int(self._targets[edge])
            step = int(self._steps[edge])
            self.turns.append(Turn(self._here, step))
            self.due.discard(step)
            if self._shifts[edge]:
                self.due.discard(SHIFT)
            self.due &= {*self._possible_at(self._here), SHIFT}

    def _possible_at(self, state: int) -> list[int]:
        sources, steps = self._possible
        return [step for step in steps[sources == state].tolist() if step != UNBOUND]
