"""Orders that a serial order may have to respect besides: real time, and the order within sessions.

A transaction that ended before another began has to stand before it (strict serializability). These
edges would be many; so the moments at which transactions end stand in a line, each transaction before its
own, and every transaction behind the last moment before its beginning. Within a session each
transaction stands behind the one before.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

from coterie.algorithms.deadlock.components import cyclic_components
from coterie.lab.serializability.cycles import class_name, sentence
from coterie.lab.serializability.dependencies import serial_order
from coterie.lab.serializability.report import Anomaly, Dependency, Edge
from coterie.transactions.history import TransactionOutcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from coterie.lab.serializability.observation import Observation
    from coterie.lab.serializability.report import Kind
    from coterie.transactions.history import Name

STARTS = 300  # transactions from which a shortest cycle is sought, at most


class Required(NamedTuple):
    """Pairs of nodes in their order; nodes behind those of the transactions are moments."""

    moments: int
    pairs: list[tuple[int, int]]


NOTHING = Required(0, [])


def required(observation: Observation, *, real_time: bool, sessions: bool) -> Required:
    """Return what has to be respected where real time or sessions count."""
    pairs = [*moments(observation)] if real_time else []
    if sessions:
        pairs += successions(observation)
    return Required(len(observation.transactions) if real_time else 0, pairs)


def moments(observation: Observation) -> Iterator[tuple[int, int]]:
    """Return pairs that put all transactions in real time; nodes behind them are moments.

    The moment of a transaction has its number, counted from the number of transactions on. One of
    unknown outcome may take effect at any later time, so nothing stands behind its moment.
    """
    transactions = observation.transactions
    size = len(transactions)
    ends = [transaction.last for transaction in transactions]
    for number, transaction in enumerate(transactions):
        if transaction.outcome is not TransactionOutcome.UNKNOWN:
            yield number, size + number
        if number:
            yield size + number - 1, size + number
        earlier = bisect_left(ends, transaction.first)
        if earlier:
            yield size + earlier - 1, number


def successions(observation: Observation) -> Iterator[tuple[int, int]]:
    """Return pairs of transactions that follow each other in a session, in the order of beginnings.

    One of unknown outcome may take effect at any later time, so nothing stands behind it.
    """
    transactions = observation.transactions
    latest: dict[Name, int] = {}
    for number in sorted(range(len(transactions)), key=lambda number: transactions[number].first):
        session = transactions[number].session
        if session is None:
            continue
        if session in latest:
            yield latest[session], number
        if transactions[number].outcome is not TransactionOutcome.UNKNOWN:
            latest[session] = number


def late(observation: Observation, edges: Sequence[Edge], demanded: Required) -> list[Anomaly]:
    """Show a cycle of dependencies and what is required beside them, of which there must be one."""
    size = len(observation.transactions)
    pairs = [*((edge.source, edge.target) for edge in edges), *demanded.pairs]
    _, tangled = serial_order([*range(size), *range(demanded.moments)], pairs)
    followers: dict[int, list[int]] = {node: [] for node in tangled}
    for source, target in pairs:
        if source in followers:
            followers[source].append(target)
    # Also tangled are any number that stand behind a cycle, on which none of them is.
    cyclic = sorted(itertools.chain(*cyclic_components(followers)))
    starts = [node for node in cyclic if node < size][:STARTS]
    cycles = [_cycle(start, followers) for start in starts]
    shortest = min(cycles, key=lambda cycle: sum(node < size for node in cycle))
    return [_anomaly(observation, edges, [node for node in shortest if node < size])]


def _cycle(start: int, followers: dict[int, list[int]]) -> list[int]:
    """Find a shortest way from a node back to it, of which there must be one."""
    came_from: dict[int, int] = {}
    ring = [start]
    while start not in came_from:
        following = []
        for node in ring:
            for follower in followers.get(node, ()):
                if follower not in came_from:
                    came_from[follower] = node
                    following.append(follower)
        ring = following
    path = [came_from[start]]
    while path[-1] != start:
        path.append(came_from[path[-1]])
    return path[::-1]


def _anomaly(observation: Observation, edges: Sequence[Edge], cycle: Sequence[int]) -> Anomaly:
    by_ends = {(edge.source, edge.target): edge for edge in edges}
    names = [transaction.name for transaction in observation.transactions]
    found: list[Dependency] = []
    kinds: list[Kind] = []
    lists = observation.sources.lists
    for place, source in enumerate(cycle):
        target = cycle[(place + 1) % len(cycle)]
        edge = by_ends.get((source, target)) or _required_edge(observation, source, target)
        kinds.append(edge.kind)
        text = sentence(observation, edge)
        found.append(Dependency(names[source], names[target], edge.kind, edge.key, text))
    order = "real time" if "rt" in kinds else "sessions"
    name = f"{class_name(kinds)}-{'realtime' if 'rt' in kinds else 'session'}"
    meaning = f"serializable, but not in the order of {order}"
    if sorted(kinds) in (["rt", "rw"], ["rw", "so"]) and found[kinds.index("rw")].key in lists:
        name, meaning = "lost append", "an element that is missing from a later list"
    return Anomaly(name, meaning, tuple(names[node] for node in cycle), tuple(found))


def _required_edge(observation: Observation, source: int, target: int) -> Edge:
    one, other = observation.transactions[source], observation.transactions[target]
    in_session = one.session is not None and one.session == other.session
    return Edge(source, target, "so" if in_session else "rt", "")
