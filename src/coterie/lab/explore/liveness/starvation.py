"""Fair cycles in which something that is owed never comes.

Weak fairness asks of a cycle, for each step, that it is taken on it or impossible somewhere on it.
A larger cycle only helps with both. So a whole strongly connected component, gone round on all its
edges, is fair if any cycle in it is, and one look at each component decides.

Where states are taken for one that differ by a shift of logical time, a message with a time in it
has another name after a shift. Within a component that has a shift on some edge no such message can
be left out: with each round all times become lower, and none is below 0. In one without, names stay.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from coterie.lab.explore.liveness.components import NONE, components
from coterie.lab.explore.liveness.transitions import UNBOUND
from coterie.lab.explore.tables.arrays import distinct

if TYPE_CHECKING:
    from coterie.lab.explore.liveness.transitions import Transitions
    from coterie.lab.explore.tables.arrays import Flags, Numbers, Positions


@dataclass(frozen=True)
class FairComponent:
    """States that a fair run can go round in without end."""

    first: int  # the lowest state of it, a nearest one to the initial state
    edges: Positions  # within it
    leaving: Positions  # all edges from its states, and so what is possible in each of them
    shifts: bool  # on some edge within it


def fair_component(transitions: Transitions, owed: Flags, edges: Positions) -> FairComponent | None:
    """Find the nearest component of states that are owed something, in which a fair run can stay.

    `edges` are the moves that it may go round on, as far as some cycle needs them.
    """
    sources, targets, steps, shifts = transitions.arrays()
    inside = edges[owed[sources[edges]] & owed[targets[edges]]]
    if not inside.size:
        return None
    numbers = components(len(owed), sources[inside], targets[inside])
    inside = inside[numbers[sources[inside]] != NONE]
    inside = inside[numbers[sources[inside]] == numbers[targets[inside]]]
    if not inside.size:
        return None
    leaving = np.flatnonzero((numbers[sources] != NONE) & (steps != UNBOUND))
    moving = np.zeros(len(owed), np.bool_)
    moving[numbers[sources[inside[shifts[inside]]]]] = True
    unfair = _unfair(transitions, numbers, inside, leaving, moving)
    fair = numbers[sources[inside]]
    fair = fair[~unfair[fair]]
    if not fair.size:
        return None
    first = int(fair.min())
    return FairComponent(
        first=first,
        edges=inside[numbers[sources[inside]] == first],
        leaving=leaving[numbers[sources[leaving]] == first],
        shifts=bool(moving[first]),
    )


def _unfair(
    transitions: Transitions,
    numbers: Numbers,
    inside: Positions,
    leaving: Positions,
    moving: Flags,
) -> Flags:
    """Return for each component whether it leaves out a step that is possible in all its states."""
    sources, _, steps, _ = transitions.arrays()
    timed = transitions.fair_steps.timed()
    width = len(timed)

    def pairs(edges: Positions) -> Positions:
        joined: Positions = numbers[sources[edges]].astype(np.intp) * width + steps[edges]
        return joined

    sizes = np.bincount(numbers[numbers != NONE], minlength=len(numbers))
    possible = np.sort(pairs(leaving))
    each = distinct(possible)
    counts = np.searchsorted(possible, each, "right") - np.searchsorted(possible, each, "left")
    everywhere = each[counts == sizes[each // width]]
    taken = distinct(pairs(inside))
    place = np.minimum(np.searchsorted(taken, everywhere), len(taken) - 1)
    left_out = everywhere[taken[place] != everywhere]
    component, step = np.divmod(left_out, width)
    unfair = np.zeros(len(numbers), np.bool_)
    unfair[component[~(timed[step] & moving[component])]] = True
    return unfair
