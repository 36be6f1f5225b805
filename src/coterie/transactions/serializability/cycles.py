"""Cycles of dependencies, and what they are called.

Adya's classes count the anti-dependencies (rw) of a cycle: G0 has writes alone, G1c writes and reads,
G-single one anti-dependency, G2-item several. Each weaker level of isolation forbids fewer of them.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from coterie.deadlock.components import cyclic_components
from coterie.transactions.serializability.report import Anomaly, Dependency, Edge, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from coterie.transactions.serializability.observation import Observation

PIVOTS = 300  # edges through which a shortest cycle is sought, at most


class _Class(NamedTuple):
    """Cycles through an edge of one kind that goes back over edges of some kinds."""

    pivot: Kind
    others: tuple[Kind, ...]


SEVERE = (_Class("ww", ("ww",)), _Class("wr", ("ww", "wr")), _Class("rw", ("ww", "wr")))
ANY = _Class("rw", ("ww", "wr", "rw"))


def anomalies(observation: Observation, edges: Iterable[Edge], tangled: list[int]) -> list[Anomaly]:
    """Name a shortest cycle of each class in each tangle; the edges reach all cycles from `tangled`.

    A tangle is a set of transactions that all stand before each other. G2-item is named only where
    there is none of the others, which is to say: where every cycle has several anti-dependencies.
    """
    inside = dict.fromkeys(tangled)
    relevant = [edge for edge in edges if edge.source in inside and edge.target in inside]
    targets: dict[int, list[int]] = {node: [] for node in tangled}
    for edge in relevant:
        targets[edge.source].append(edge.target)
    found = []
    for component in sorted(map(sorted, cyclic_components(targets))):
        members = set(component)
        own = [edge for edge in relevant if edge.source in members and edge.target in members]
        cycles = [_shortest(own, which) for which in SEVERE]
        if not any(cycles):
            cycles = [_shortest(own, ANY)]
        found += [_anomaly(observation, cycle) for cycle in cycles if cycle]
    return found


def _shortest(edges: Sequence[Edge], which: _Class) -> list[Edge]:
    """Find a shortest cycle of a class, none if there is none."""
    leaving: dict[int, list[Edge]] = {}
    for edge in edges:
        if edge.kind in which.others:
            leaving.setdefault(edge.source, []).append(edge)
    best: list[Edge] = []
    for pivot in [edge for edge in edges if edge.kind == which.pivot][:PIVOTS]:
        back = _path(leaving, pivot.target, pivot.source)
        if back and (not best or len(back) + 1 < len(best)):
            best = [pivot, *back]
    return best


def _path(leaving: dict[int, list[Edge]], start: int, end: int) -> list[Edge]:
    """Find a shortest path between two different nodes, none if there is none."""
    arrived: dict[int, Edge | None] = {start: None}
    queue = deque([start])
    while queue and end not in arrived:
        for edge in leaving.get(queue.popleft(), ()):
            if edge.target not in arrived:
                arrived[edge.target] = edge
                queue.append(edge.target)
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
                _sentence(observation, edge),
            )
            for edge in cycle
        ),
    )


def named(cycle: Sequence[Edge]) -> tuple[str, str]:
    """Give the class of a cycle and what else it is called."""
    kinds = [edge.kind for edge in cycle]
    name = _class_name(kinds)
    shape = min(" ".join(kinds[start:] + kinds[:start]) for start in range(len(kinds)))
    one_key = len({edge.key for edge in cycle}) == 1
    return name, SHAPES.get((shape, one_key), CLASSES[name])


def _class_name(kinds: Sequence[Kind]) -> str:
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


def _sentence(observation: Observation, edge: Edge) -> str:
    source = observation.transactions[edge.source].name
    target = observation.transactions[edge.target].name
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
