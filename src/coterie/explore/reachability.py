"""Backward reachability in the state graph: which states can come to a goal, and in how many steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from coterie.explore.tables.arrays import distinct

if TYPE_CHECKING:
    from coterie.explore.tables.arrays import Flags, Numbers, Positions

UNREACHABLE = -1


class Backward:
    """The state graph with its edges turned round."""

    def __init__(self, states: int, sources: Numbers, targets: Numbers) -> None:
        """Sort the edges by the state they lead to."""
        self._sources = sources[np.argsort(targets, kind="stable")]
        self._ends = np.cumsum(np.bincount(targets, minlength=states))

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
            before = self._sources[self._edges_into(border)]
            border = distinct(before[steps[before] == UNREACHABLE])
            steps[border] = distance
        return steps

    def _edges_into(self, states: Positions) -> Positions:
        """Return the positions of all edges that lead to one of these states."""
        ends = self._ends[states]
        counts = ends - np.where(states > 0, self._ends[states - 1], 0)
        past = np.cumsum(counts)
        total = int(past[-1])
        edges: Positions = np.arange(total) + np.repeat(ends - past, counts)
        return edges
