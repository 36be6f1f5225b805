"""Cycles of dependencies, and what they are called.

Adya's classes count the anti-dependencies (rw) of a cycle: G0 has writes alone, G1c writes and
reads, G-single one anti-dependency, G2-item several. Weaker levels of isolation forbid fewer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from coterie.algorithms.deadlock.components import cyclic_components
from coterie.lab.serializability.dependencies import serial_order
from coterie.lab.serializability.report import Anomaly, Dependency, Edge, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from coterie.lab.serializability.observation import Observation

PIVOTS = 300  # edges through which a shortest cycle is sought, at most


class _Class(NamedTuple):
    """Cycles through an edge of one kind that goes back over edges of some kinds."""

    pivot: Kind
    others: tuple[Kind, ...]


SEVERE = (_Class("ww", ("ww",)), _Class("wr", ("ww", "wr")), _Class("rw", ("ww", "wr")))
ANY = _Class("rw", ("ww", "wr", "rw"))


def anomalies(observation: Observation, edges: Iterable[Edge], tangled: list[int]) -> list[Anomaly]:
    """Name a shortest cycle of each class in each tangle; all cycles are among the `tangled`.

    A tangle is a set of transactions that all stand before each other. G2-item is named only where
    there is none of the others, which is to say: where every cycle has several anti-dependencies.
    """
    inside = set(tangled)
    found = []
    for own in tangles([edge for edge in edges if edge.source in inside and edge.target in inside]):
        cycles = [_shortest(own, which) for which in SEVERE]
        if not any(cycles):
            cycles = [_shortest(own, ANY)]
        found += [_anomaly(observation, cycle) for cycle in cycles if cycle]
    return found


def tangles(edges: Sequence[Edge]) -> list[list[Edge]]:
    """Group the edges that lie on cycles by what they connect."""
    targets: dict[int, list[int]] = {}
    for edge in edges:
        targets.setdefault(edge.source, []).append(edge.target)
    components = sorted(map(sorted, cyclic_components(targets)))
    home = {node: index for index, nodes in enumerate(components) for node in nodes}
    groups: list[list[Edge]] = [[] for _ in components]
    for edge in edges:
        if edge.source in home and home[edge.source] == home.get(edge.target):
            groups[home[edge.source]].append(edge)
    return groups


def _shortest(edges: Sequence[Edge], which: _Class) -> list[Edge]:
    """Find a shortest cycle of a class, none if there is none; in a huge tangle, a short one."""
    back = [edge for edge in edges if edge.kind in which.others]
    if which.pivot == "rw":
        pivots = _against_the_rest(edges)
    else:
        back = [edge for tangle in tangles(back) for edge in tangle]
        pivots = [edge for edge in back if edge.kind == which.pivot]
    leaving: dict[int, list[Edge]] = {}
    for edge in back:
        leaving.setdefault(edge.source, []).append(edge)
    best: list[Edge] = []
    for pivot in pivots[:PIVOTS]:
        path = _path(leaving, pivot.target, pivot.source, shorter_than=len(best) - 1)
        if path:
            best = [pivot, *path]
    return best


def _against_the_rest(edges: Sequence[Edge]) -> list[Edge]:
    """Return the anti-dependencies that go back in an order that respects all other dependencies.

    Each cycle has one, for somewhere it must go back. They are few where little is wrong.
    """
    nodes = sorted({node for edge in edges for node in edge[:2]})
    numbers = {node: number for number, node in enumerate(nodes)}
    rest = ((numbers[e.source], numbers[e.target]) for e in edges if e.kind != "rw")
    order, _ = serial_order(range(len(nodes)), rest)
    places = {nodes[number]: place for place, number in enumerate(order)}
    return [
        edge
        for edge in edges
        if edge.kind == "rw"
        and (
            edge.source not in places  # behind a cycle of the others
            or edge.target not in places
            or places[edge.target] < places[edge.source]
        )
    ]


def _path(leaving: dict[int, list[Edge]], start: int, end: int, *, shorter_than: int) -> list[Edge]:
    """Find a shortest path between two nodes, of fewer steps than that if it is positive."""
    arrived: dict[int, Edge | None] = {start: None}
    ring = [start]
    steps = 0
    while ring and end not in arrived and (shorter_than < 0 or steps + 1 < shorter_than):
        steps += 1
        following = []
        for node in ring:
            for edge in leaving.get(node, ()):
                if edge.target not in arrived:
                    arrived[edge.target] = edge
                    following.append(edge.target)
        ring = following
    path: list[Edge] = []
    last = arrived.get(end)
    while last is not None:
        path.append(last)
        last = arrived[last.source]
    return path[::-1]


def _anomaly(observation: Observation, cycle: list[Edge]) -> Anomaly:
    first = min(range(len(cycle)), key=lambda place: cycle[place].source)
    cycle = cycle[first:] + cycle[:first]
    name, meaning = named(cycle)
    if meaning == "lost update" and cycle[0].key in observation.sources.lists:
        meaning = "lost append"
    names = [transaction.name for transaction in observation.transactions]
    return Anomaly(
        name=name,
        meaning=meaning,
        cycle=tuple(names[edge.source] for edge in cycle),
        dependencies=tuple(
            Dependency(
                names[edge.source],
                names[edge.target],
                edge.kind,
                edge.key,
                sentence(observation, edge),
            )
            for edge in cycle
        ),
    )


def named(cycle: Sequence[Edge]) -> tuple[str, str]:
    """Return the class of a cycle and what else it is called."""
    kinds = [edge.kind for edge in cycle]
    name = class_name(kinds)
    shape = min(" ".join(kinds[start:] + kinds[:start]) for start in range(len(kinds)))
    one_key = len({edge.key for edge in cycle}) == 1
    return name, SHAPES.get((shape, one_key), CLASSES[name])


def class_name(kinds: Sequence[Kind]) -> str:
    """Return the class of a cycle by the kinds of its edges."""
    match kinds.count("rw"):
        case 0:
            return "G1c" if "wr" in kinds else "G0"
        case 1:
            return "G-single"
        case _:
            return "G2-item"


CLASSES = {
    "G0": "dirty write",
    "G1c": "circular information flow",
    "G-single": "single anti-dependency cycle",
    "G2-item": "anti-dependency cycle",
}
SHAPES = {  # of some short cycles, of one key or not
    ("rw ww", True): "lost update",
    ("rw wr", True): "non-repeatable read",
    ("rw wr", False): "read skew",
    ("rw rw", False): "write skew",
    ("rw wr rw wr", False): "long fork",
}


def sentence(observation: Observation, edge: Edge) -> str:
    """Say why the source of an edge stands before its target."""
    source = observation.transactions[edge.source].name
    target = observation.transactions[edge.target].name
    if edge.key in observation.sources.lists and edge.kind in ("ww", "wr", "rw"):
        return _sentence_of_list(observation, edge)
    match edge.kind:
        case "ww":
            old = observation.written(edge.source, edge.key)
            new = observation.written(edge.target, edge.key)
            return f"{source} wrote {edge.key} = {old}, which {target} replaced by {new}"
        case "wr":
            value = observation.written(edge.source, edge.key)
            return f"{source} wrote {edge.key} = {value}, which {target} read"
        case "rw":
            new = observation.written(edge.target, edge.key)
            return f"{source} read {edge.key} before {target} replaced it by {new}"
        case "rt":
            return f"{source} had ended before {target} began"
        case "so":
            return f"{source} came before {target} in one session"


def _sentence_of_list(observation: Observation, edge: Edge) -> str:
    source = observation.transactions[edge.source].name
    target = observation.transactions[edge.target].name
    key = edge.key
    if edge.kind == "rw":
        new = observation.written(edge.target, key)
        return f"{source} read {key} before {target} appended {new}"
    old = observation.written(edge.source, key)
    if edge.kind == "wr":
        return f"{source} appended {old} to {key}, which {target} read"
    return f"{source} appended {old} to {key} before {target} appended {observation.written(edge.target, key)}"
