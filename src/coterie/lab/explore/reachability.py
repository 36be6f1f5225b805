"""Reachability in the state graph: which states can come to a goal, and in how many steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from coterie.lab.explore.tables.arrays import distinct

if TYPE_CHECKING:
    from coterie.lab.explore.tables.arrays import Flags, Numbers, Positions

UNREACHABLE = -1


class Grouped:
    """Edges in the order of the states at one of their ends."""

    def __init__(self, states: int, ends: Numbers) -> None:
        """Group edges by the state that each has at this end."""
        self.order: Positions = np.argsort(ends, kind="stable")
        self._past = np.cumsum(np.bincount(ends, minlength=states))

    def places(self, states: Positions) -> Positions:
        """Return where in `order` the edges at these states stand, of one state after the other."""
        ends = self._past[states]
        counts = ends - np.where(states > 0, self._past[states - 1], 0)
        past = np.cumsum(counts)
        total = int(past[-1]) if past.size else 0
        places: Positions = np.arange(total) + np.repeat(ends - past, counts)
        return places

    def at(self, states: Positions) -> Positions:
        """Return the edges at these states."""
        return self.order[self.places(states)]


class Backward:
    """The state graph with its edges turned round."""

    def __init__(self, states: int, sources: Numbers, targets: Numbers) -> None:
        """Sort the edges by the state they lead to."""
        self._into = Grouped(states, targets)
        self._sources = sources[self._into.order]

    def can_reach(self, goals: Flags) -> Flags:
        """Return for each state whether some path from it leads to a goal."""
        reached: Flags = self.distances(goals) != UNREACHABLE
        return reached

    def distances(self, goals: Flags) -> Numbers:
        """Return for each state how many steps it is to the nearest goal, or `UNREACHABLE`."""
        steps: Numbers = np.where(goals, 0, UNREACHABLE).astype(np.int32)
        border = np.flatnonzero(goals)
        distance = 0
        while border.size:
            distance += 1
            before = self._sources[self._into.places(border)]
            border = distinct(before[steps[before] == UNREACHABLE])
            steps[border] = distance
        return steps
