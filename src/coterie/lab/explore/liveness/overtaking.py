"""How often other processes may enter while one waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from coterie.lab.explore.reachability import Grouped
from coterie.lab.explore.tables.arrays import distinct

if TYPE_CHECKING:
    from coterie.lab.explore.liveness.transitions import Transitions
    from coterie.lab.explore.tables.arrays import Flags, Numbers, Positions


def overtaking(transitions: Transitions, waiting: Flags, inside: Flags) -> int | None:
    """Return the largest number of entries of others during one wait; None if there is no such number.

    `waiting` and `inside` say so for each process and state.
    """
    sources, targets, _, _ = transitions.arrays()
    worst = 0
    for place, waits in enumerate(waiting):
        edges = np.flatnonzero(waits[sources] & waits[targets])
        entries = np.zeros(len(edges), np.bool_)
        for other, holds in enumerate(inside):
            if other != place:
                entries |= holds[targets[edges]] & ~holds[sources[edges]]
        most = _most(waits, sources[edges], targets[edges], entries)
        if most is None:
            return None
        worst = max(worst, most)
    return worst


def _most(states: Flags, sources: Numbers, targets: Numbers, entries: Flags) -> int | None:
    """Return how many entries lie on a path at most.

    Of the states that can come after k entries those after k + 1 are a part. If that part is the
    whole, there is no end.
    """
    leaving = Grouped(len(states), sources)
    after, count = states, 0
    while True:
        begun = np.zeros(len(states), np.bool_)
        begun[targets[entries & after[sources]]] = True
        then = _closure(leaving, targets, begun)
        if not then.any():
            return count
        if (then == after).all():
            return None
        after, count = then, count + 1


def _closure(leaving: Grouped, targets: Numbers, begun: Flags) -> Flags:
    reached = begun.copy()
    border: Positions = np.flatnonzero(begun)
    while border.size:
        after = targets[leaving.at(border)]
        border = distinct(after[~reached[after]])
        reached[border] = True
    return reached
