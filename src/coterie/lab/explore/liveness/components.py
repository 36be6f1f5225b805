"""Strongly connected components, by whole arrays.

States that lie on no cycle are peeled off first, from one end and then from the other. Then each state takes the lowest
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
        sources, targets = targets, sources  # components are the same, and coloured from both ends
        edges = _on_cycles(states, sources, targets, rest)
    return found


def edges_on_cycles(states: int, sources: Numbers, targets: Numbers) -> Positions:
    """Return the edges that lie on a cycle, or on a path from a cycle to a cycle."""
    return _on_cycles(states, sources, targets, np.arange(len(sources)))


def _on_cycles(states: int, sources: Numbers, targets: Numbers, edges: Positions) -> Positions:
    """Leave out the edges of states that no cycle leads to, then of those that lead to no cycle.

    Once round is enough: the second leaves out states that lead nowhere, so that the first would find
    no more of them than before.
    """
    edges = _peeled(states, sources, targets, edges)
    return _peeled(states, targets, sources, edges)


def _peeled(states: int, sources: Numbers, targets: Numbers, edges: Positions) -> Positions:
    """Leave out, again and again, the edges of states that nothing leads to."""
    ends = targets[edges]
    leaving = Grouped(states, sources[edges])
    incoming = np.bincount(ends, minlength=states)
    kept: Flags = np.ones(len(edges), np.bool_)
    border = np.flatnonzero(incoming == 0)
    while border.size:
        gone = leaving.at(border)
        kept[gone] = False
        reached = ends[gone]
        np.subtract.at(incoming, reached, 1)
        border = distinct(reached[incoming[reached] == 0])
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
