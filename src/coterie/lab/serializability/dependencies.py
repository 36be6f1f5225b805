"""Which transaction must stand before which, once the order of the versions of each key is known.

These are Adya's direct dependencies. A history in which they form no cycle is serializable, and any
order that respects them is an equivalent serial order; one in which they form a cycle is not, with
this order of versions.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from coterie.lab.serializability.report import Edge

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from coterie.lab.serializability.observation import Reading
    from coterie.transactions.history import Key


def dependencies(
    readings: Iterable[Reading],
    versions: Mapping[Key, Sequence[int]],
    tails: Mapping[Key, Sequence[int]] | None = None,
) -> Iterator[Edge]:
    """Yield the edges; a reader of a key must find the writer in its versions, oldest first.

    Those of the tail of a key have written behind all versions that were seen.
    """
    tails = tails or {}
    successors: dict[tuple[Key, int | None], int] = {}  # which one replaced what a writer wrote
    behind: dict[tuple[Key, int | None], list[int]] = {}  # the tail, behind the last that was seen
    for key, writers in versions.items():
        previous: int | None = None
        for successor in writers:
            if previous is not None:
                yield Edge(previous, successor, "ww", key)
            successors[key, previous] = successor
            previous = successor
        for last in tails.get(key, ()):
            if previous is not None:
                yield Edge(previous, last, "ww", key)
            behind.setdefault((key, previous), []).append(last)
    for reader, key, writer in readings:
        if writer is not None:
            yield Edge(writer, reader, "wr", key)
        replacing = successors.get((key, writer))
        if replacing is not None and replacing != reader:
            yield Edge(reader, replacing, "rw", key)
        for last in behind.get((key, writer), ()):
            if last != reader:
                yield Edge(reader, last, "rw", key)


def serial_order(
    ranks: Sequence[int], pairs: Iterable[tuple[int, int]]
) -> tuple[list[int], list[int]]:
    """Order the nodes 0, 1, ... by the pairs and, where these leave a choice, by rank.

    Also returns the nodes that cannot be ordered: those in cycles and behind them.
    """
    followers: list[list[int]] = [[] for _ in ranks]
    waiting = [0] * len(ranks)
    for source, target in pairs:
        followers[source].append(target)
        waiting[target] += 1
    ready = [(ranks[node], node) for node, count in enumerate(waiting) if not count]
    heapify(ready)
    order = []
    while ready:
        _, node = heappop(ready)
        order.append(node)
        for follower in followers[node]:
            waiting[follower] -= 1
            if not waiting[follower]:
                heappush(ready, (ranks[follower], follower))
    return order, [node for node, count in enumerate(waiting) if count]
