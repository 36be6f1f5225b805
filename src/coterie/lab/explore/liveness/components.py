"""Strongly connected components, by whole arrays.

States that lie on no cycle are peeled off first, from both ends. Then each state takes the lowest
number of those that lead to it: the state that has its own number and those of its colour that lead
back to it are one component, found for all colours at once. What is left is peeled and coloured
again, as often as components lie behind each other (Orzan, 2004).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from coterie.lab.explore.reachability import Backward, Grouped
from coterie.lab.explore.tables.arrays import distinct

if TYPE_CHECKING:
    from coterie.lab.explore.tables.arrays import Flags, Numbers, Positions

NONE = -1  # the component of a state on no cycle


def components(states: int, sources: Numbers, targets: Numbers) -> Numbers:
    """Return for each state the lowest state of its component, or `NONE` if it lies on no cycle."""
    found: Numbers = np.full(states, NONE, np.int32)
    loops = sources == targets
    found[sources[loops]] = sources[loops]  # alone, unless it turns out to be in a larger one
    edges = _on_cycles(states, sources, targets, np.flatnonzero(~loops))
    while edges.size:
        colours = _colours(states, sources[edges], targets[edges])
        alike = edges[colours[sources[edges]] == colours[targets[edges]]]
        roots = np.zeros(states, np.bool_)
        ends = distinct(np.concatenate((sources[edges], targets[edges])))
        roots[ends[colours[ends] == ends]] = True
        done = Backward(states, sources[alike], targets[alike]).can_reach(roots)
        inner = alike[done[sources[alike]] & done[targets[alike]]]
        found[sources[inner]] = colours[sources[inner]]
        rest = alike[~(done[sources[alike]] | done[targets[alike]])]  # no cycle has two colours
        sources, targets = targets, sources  # components are the same, and peeled from both ends
        edges = _on_cycles(states, sources, targets, rest)
    return found


def _on_cycles(states: int, sources: Numbers, targets: Numbers, edges: Positions) -> Positions:
    """Leave out, again and again, the edges of states that nothing leads to or away from."""
    origins, ends = sources[edges], targets[edges]
    leaving, entering = Grouped(states, origins), Grouped(states, ends)
    outgoing = np.bincount(origins, minlength=states)
    incoming = np.bincount(ends, minlength=states)
    kept: Flags = np.ones(len(edges), np.bool_)
    border = np.flatnonzero((outgoing == 0) != (incoming == 0))
    while border.size:
        away, into = leaving.at(border), entering.at(border)
        gone = distinct(np.concatenate((away[kept[away]], into[kept[into]])))
        kept[gone] = False
        np.subtract.at(outgoing, origins[gone], 1)
        np.subtract.at(incoming, ends[gone], 1)
        touched = distinct(np.concatenate((origins[gone], ends[gone])))
        border = touched[(outgoing[touched] == 0) != (incoming[touched] == 0)]
    return edges[kept]


def _colours(states: int, sources: Numbers, targets: Numbers) -> Numbers:
    """Return for each state the lowest number among itself and those that lead to it."""
    leaving = Grouped(states, sources)
    colours: Numbers = np.arange(states, dtype=np.int32)
    border = distinct(sources)
    while border.size:
        edges = leaving.at(border)
        ends, offered = targets[edges], colours[sources[edges]]
        better = offered < colours[ends]
        np.minimum.at(colours, ends[better], offered[better])
        border = distinct(ends[better])
    return colours
