"""Chord's ring (Stoica and others, 2001): what is kept where, found in O(log N) hops without a directory.

Nodes and keys are hashed to points of one circle, and a key is kept by its successor, the first
node at its point or after it. Every node knows its fingers, the successors of the points at
distance 1, 2, 4, 8, ... from itself. It passes a query on to the finger nearest before the key,
which is at least half of the way.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from typing import TYPE_CHECKING

from coterie.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

BITS = 64  # 100,000 nodes share a point with probability 3e-10
CIRCLE = 1 << BITS


def point(text: str) -> int:
    """Hash a text to a point of the circle, the same one in every run and on every machine."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=BITS // 8).digest(), "big")


class Ring:
    """Some nodes on the circle, as an immutable value; all of them are up."""

    def __init__(self, nodes: Iterable[int]) -> None:
        """Place the nodes, at least one, where the hashes of their ids say."""
        self._at = {node: point(f"node|{node}") for node in sorted(set(nodes))}
        if not self._at:
            raise ConfigError("a ring needs at least one node")
        self._nodes = sorted(self._at, key=self._at.__getitem__)
        self._points = [self._at[node] for node in self._nodes]

    def successor(self, at: int) -> int:
        """Return the node that keeps what is hashed to the point `at`."""
        return self._nodes[self._index(at)]

    def fingers(self, node: int) -> tuple[int, ...]:
        """Return the finger table of a node: each finger once, nearest first, without the node itself."""
        jumps = (self.successor(self._at[node] + (1 << bit)) for bit in range(BITS))
        return tuple(finger for finger in dict.fromkeys(jumps) if finger != node)

    def route(self, start: int, at: int) -> list[int]:
        """Follow a query for a point from node to node; the first is `start`, the last its keeper."""
        keeper = self.successor(at)
        path = [start]
        while path[-1] != keeper:
            path.append(self._pass_on(path[-1], at))
        return path

    def replicas(self, name: str, count: int) -> tuple[int, ...]:
        """Place `count` replicas of a resource on as many nodes: the keepers of `name|0`, `name|1`, ...

        Where one of them has a replica already, the next node that has none takes its place.
        """
        if not 1 <= count <= len(self._nodes):
            raise ConfigError(
                f"{count} replicas cannot be placed on {len(self._nodes)} nodes, one each"
            )
        chosen: list[int] = []
        for number in range(count):
            index = self._index(point(f"{name}|{number}"))
            while self._nodes[index] in chosen:
                index = (index + 1) % len(self._nodes)
            chosen.append(self._nodes[index])
        return tuple(chosen)

    def _index(self, at: int) -> int:
        return bisect_left(self._points, at % CIRCLE) % len(self._points)

    def _pass_on(self, node: int, at: int) -> int:
        """Choose the finger nearest before the point, or the first, which keeps it, if there is none."""
        fingers = self.fingers(node)
        here = self._at[node]
        left = (at - here) % CIRCLE
        before = [finger for finger in fingers if (self._at[finger] - here) % CIRCLE < left]
        return before[-1] if before else fingers[0]
