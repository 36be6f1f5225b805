"""Strict serializability: is there a serial order that also agrees with real time?

A transaction that ended before another began has to stand before it. These edges would be many; so the moments
at which transactions end stand in a line, each transaction before its own, and every transaction
behind the last moment before its beginning.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from coterie.transactions.history import Outcome
from coterie.transactions.serializability.cycles import class_name, sentence
from coterie.transactions.serializability.dependencies import serial_order
from coterie.transactions.serializability.report import Anomaly, Dependency

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from coterie.transactions.serializability.observation import Observation
    from coterie.transactions.serializability.report import Edge, Kind

STARTS = 300  # transactions from which a shortest cycle is sought, at most


def moments(observation: Observation) -> Iterator[tuple[int, int]]:
    """Return pairs that put all transactions in real time; nodes behind them are moments.

    The moment of a transaction has its number, counted from the number of transactions on. One of
    unknown outcome may take effect at any later time, so nothing stands behind its moment.
    """
    transactions = observation.transactions
    size = len(transactions)
    ends = [transaction.last for transaction in transactions]
    for number, transaction in enumerate(transactions):
        if transaction.outcome is not Outcome.UNKNOWN:
            yield number, size + number
        if number:
            yield size + number - 1, size + number
        earlier = bisect_left(ends, transaction.first)
        if earlier:
            yield size + earlier - 1, number


def strict_order(
    observation: Observation, edges: Sequence[Edge]
) -> tuple[list[int] | None, list[Anomaly]]:
    """Order the transactions by dependencies and real time; if that cannot be, show a cycle."""
    size = len(observation.transactions)
    pairs = [*((edge.source, edge.target) for edge in edges), *moments(observation)]
    order, tangled = serial_order([*range(size), *range(size)], pairs)
    if not tangled:
        return [node for node in order if node < size], []
    followers: dict[int, list[int]] = {}
    for source, target in pairs:
        followers.setdefault(source, []).append(target)
    starts = [node for node in tangled if node < size][:STARTS]
    cycles = [cycle for start in starts if (cycle := _cycle(start, followers))]
    shortest = min(cycles, key=lambda cycle: sum(node < size for node in cycle))
    return None, [_anomaly(observation, edges, [node for node in shortest if node < size])]


def _cycle(start: int, followers: dict[int, list[int]]) -> list[int]:
    """Find a shortest way from a node back to it; none if it only stands behind a cycle."""
    came_from: dict[int, int] = {}
    ring = [start]
    while ring and start not in came_from:
        following = []
        for node in ring:
            for follower in followers.get(node, ()):
                if follower not in came_from:
                    came_from[follower] = node
                    following.append(follower)
        ring = following
    if start not in came_from:
        return []
    path = [came_from[start]]
    while path[-1] != start:
        path.append(came_from[path[-1]])
    return path[::-1]


def _anomaly(observation: Observation, edges: Sequence[Edge], cycle: Sequence[int]) -> Anomaly:
    by_ends = {(edge.source, edge.target): edge for edge in edges}
    names = [transaction.name for transaction in observation.transactions]
    found: list[Dependency] = []
    kinds: list[Kind] = []
    for place, source in enumerate(cycle):
        target = cycle[(place + 1) % len(cycle)]
        edge = by_ends.get((source, target))
        if edge is not None:
            kinds.append(edge.kind)
            text, key = sentence(observation, edge), edge.key
            found.append(Dependency(names[source], names[target], edge.kind, key, text))
        else:
            text = f"{names[source]} had ended before {names[target]} began"
            found.append(Dependency(names[source], names[target], "rt", "", text))
    return Anomaly(
        name=f"{class_name(kinds)}-realtime",
        meaning="serializable, but not in the order of real time",
        cycle=tuple(names[node] for node in cycle),
        dependencies=tuple(found),
    )
