"""Trees over the processes 1 to N, as values: what connects them, how far apart two of them are."""

from __future__ import annotations

import functools
import heapq
from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, TypeAlias

from coterie.catalogue import unknown
from coterie.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from coterie.process import ProcessId

Edge: TypeAlias = tuple[int, int]


@dataclass(frozen=True)
class SpanningTree:
    """Links between processes 1 to `size` such that one way leads from any of them to any other."""

    size: int
    edges: tuple[Edge, ...]

    def __post_init__(self) -> None:
        """Refuse what is no tree, and name the link or the process that spoils it."""
        _check(self.size, self.edges)

    @functools.cached_property
    def neighbours(self) -> Mapping[ProcessId, Sequence[ProcessId]]:
        """For each process those it is linked with, in the order of their ids."""
        linked: dict[ProcessId, list[ProcessId]] = {me: [] for me in range(1, self.size + 1)}
        for one, other in self.edges:
            linked[one].append(other)
            linked[other].append(one)
        return {me: sorted(peers) for me, peers in linked.items()}

    def towards(self, root: ProcessId) -> dict[ProcessId, ProcessId]:
        """For each process its neighbour on the way to `root`, nearest first; the root's is itself."""
        step = {root: root}
        reached = [root]
        for process in reached:  # grows as it is read
            for neighbour in self.neighbours[process]:
                if neighbour not in step:
                    step[neighbour] = process
                    reached.append(neighbour)
        return step

    def distance(self, one: ProcessId, other: ProcessId) -> int:
        """Count the links on the way from one process to another."""
        links = 0
        while one != other:
            if self._depths[one] < self._depths[other]:
                one, other = other, one
            one = self._parents[one]
            links += 1
        return links

    @functools.cached_property
    def diameter(self) -> int:
        """The longest distance. It begins at a process that is farthest from any one, here from 1."""
        farthest = list(self._parents)[-1]
        return self.distance(farthest, list(self.towards(farthest))[-1])

    @functools.cached_property
    def mean_distance(self) -> float:
        """The mean over all pairs of different processes; 0 for a single one.

        A link is on the way of each pair that it separates: those below it, and all others.
        """
        below = dict.fromkeys(self._parents, 1)
        links = 0
        for process in list(self._parents)[:0:-1]:  # from the farthest, without the root
            links += below[process] * (self.size - below[process])
            below[self._parents[process]] += below[process]
        return 2 * links / (self.size * (self.size - 1)) if self.size > 1 else 0.0

    @functools.cached_property
    def _parents(self) -> dict[ProcessId, ProcessId]:
        return self.towards(1)

    @functools.cached_property
    def _depths(self) -> dict[ProcessId, int]:
        depths = {1: 0}
        for process, parent in self._parents.items():
            depths.setdefault(process, depths[parent] + 1)
        return depths


def _check(size: int, edges: Iterable[Edge]) -> None:
    """Join parts link by link: in a tree each link joins two of them, and one is left."""
    parts = list(range(size + 1))  # the way to the process that stands for the part

    def part(process: ProcessId) -> ProcessId:
        while parts[process] != process:
            parts[process] = process = parts[parts[process]]
        return process

    seen: set[Edge] = set()
    for one, other in edges:
        for process in (one, other):
            if not 1 <= process <= size:
                raise ConfigError(
                    f"the tree links process {process}; there are only 1 to {size} of them"
                )
        if (one, other) in seen or (other, one) in seen:
            raise ConfigError(f"the tree has the link {one}-{other} twice")
        if part(one) == part(other):
            raise ConfigError(f"not a tree: the link {one}-{other} closes a cycle")
        seen.add((one, other))
        parts[part(one)] = part(other)
    for process in range(1, size + 1):
        if part(process) != part(1):
            raise ConfigError(f"not a tree: no way leads from process 1 to process {process}")


def star(size: int) -> SpanningTree:
    """Link everyone with process 1."""
    return SpanningTree(size, tuple((1, me) for me in range(2, size + 1)))


def chain(size: int) -> SpanningTree:
    """Link everyone with the next."""
    return SpanningTree(size, tuple((me - 1, me) for me in range(2, size + 1)))


def binary(size: int) -> SpanningTree:
    """Link process i with 2i and 2i + 1."""
    return SpanningTree(size, tuple((me // 2, me) for me in range(2, size + 1)))


def random_tree(size: int, seed: int) -> SpanningTree:
    """Draw one of the N^(N - 2) trees, each equally likely: the one with a random Prüfer code."""
    draw = Random(seed).random  # the same numbers in every version of Python
    if size == 1:
        return SpanningTree(1, ())
    code = [1 + int(draw() * size) for _ in range(size - 2)]
    still_named = Counter(code)
    leaves = [me for me in range(1, size + 1) if not still_named[me]]
    edges = []
    for process in code:
        edges.append((heapq.heappop(leaves), process))
        still_named[process] -= 1
        if not still_named[process]:
            heapq.heappush(leaves, process)
    return SpanningTree(size, (*edges, (heapq.heappop(leaves), heapq.heappop(leaves))))


SHAPES = {"star": star, "chain": chain, "binary": binary}
CHOICES = [*SHAPES, "random:SEED", "links such as 1-2,2-3"]


def parse_tree(text: str, size: int) -> SpanningTree:
    """Read a tree of that size: `star`, `chain`, `binary`, `random:7` or links such as `1-2,2-3`."""
    name, colon, seed = text.strip().partition(":")
    if name in SHAPES and not colon:
        return SHAPES[name](size)
    if name == "random":
        if not seed.isdecimal():
            raise UsageError(f"a random tree takes a number as its seed: random:7, got {text!r}")
        return random_tree(size, int(seed))
    if name[:1].isdecimal() and not colon:
        return SpanningTree(size, tuple(_edge(link, text) for link in text.split(",")))
    raise UsageError(unknown("tree", text, CHOICES))


def _edge(link: str, text: str) -> Edge:
    one, _, other = (end.strip() for end in link.partition("-"))
    if not (one.isdecimal() and other.isdecimal()):
        raise UsageError(f"expected the links of a tree, such as 1-2,2-3, got {text!r}")
    return int(one), int(other)
