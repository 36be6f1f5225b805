"""A serial order that explains every read, found or proven impossible by exhaustion.

To find one is NP-complete (Papadimitriou, 1979): whoever else writes the key stands before the
writer or behind the reader, and there is such a choice for each read and each other writer. What a
choice implies is followed up at once, and most choices are implied; where one is left, both ways are tried.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from coterie.transactions.history import Key
    from coterie.transactions.serializability.observation import Reading

LARGEST = 20_000  # transactions whose pairs fit in memory, at one bit each
EFFORT = 5_000_000  # steps after which a search is given up: some seconds


class GivenUpError(Exception):
    """The search has taken as many steps as it may."""


class _ContradictionError(Exception):
    """Two transactions would each have to stand before the other."""


class _Order:
    """A partial order of transactions, each with the sets of those before and behind it, as bits."""

    def __init__(self, before: list[int], behind: list[int]) -> None:
        self.before = before
        self.behind = behind

    @classmethod
    def of(cls, topological: Sequence[int], pairs: Iterable[tuple[int, int]]) -> _Order:
        """Close pairs under transitivity; `topological` respects them."""
        before, behind = [0] * len(topological), [0] * len(topological)
        sources: list[list[int]] = [[] for _ in topological]
        targets: list[list[int]] = [[] for _ in topological]
        for source, target in pairs:
            sources[target].append(source)
            targets[source].append(target)
        for node in topological:
            for source in sources[node]:
                before[node] |= before[source] | 1 << source
        for node in reversed(topological):
            for target in targets[node]:
                behind[node] |= behind[target] | 1 << target
        return cls(before, behind)

    def copy(self) -> _Order:
        return _Order(self.before.copy(), self.behind.copy())

    def put(self, first: int, second: int) -> int:
        """Put one before another; returns how many others that has moved."""
        if first == second or self.behind[second] >> first & 1:
            raise _ContradictionError
        if self.behind[first] >> second & 1:
            return 0
        earlier = self.before[first] | 1 << first
        later = self.behind[second] | 1 << second
        for node in members(earlier):
            self.behind[node] |= later
        for node in members(later):
            self.before[node] |= earlier
        return earlier.bit_count() + later.bit_count()

    def serial(self) -> list[int]:
        """Give a total order that respects this one."""
        return sorted(range(len(self.before)), key=lambda node: self.before[node].bit_count())


def members(bits: int) -> Iterator[int]:
    """List the elements of a set."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


class _Pair(NamedTuple):
    """One transaction before another."""

    first: int
    second: int


class Search:
    """Looks for an order in which each reader finds the writer's version."""

    def __init__(
        self,
        readings: Sequence[Reading],
        writers: Mapping[Key, Sequence[int]],
        effort: int = EFFORT,
    ) -> None:
        """Take the reads to explain; their writers stand before them in the order to start from."""
        sets = {key: sum(1 << number for number in numbers) for key, numbers in writers.items()}
        self.readings = [
            (reader, writer, sets.get(key, 0) & ~(1 << reader)) for reader, key, writer in readings
        ]
        self.effort = effort

    def run(self, topological: Sequence[int], pairs: Iterable[tuple[int, int]]) -> list[int] | None:
        """Find a serial order that respects the pairs, or None if there is none.

        Raises:
            GivenUpError: the effort was not enough to tell.
        """
        untried: list[tuple[_Order, _Pair | None]] = [(_Order.of(topological, pairs), None)]
        while untried:
            order, pair = untried.pop()
            try:
                if pair:
                    self._spend(order.put(*pair))
                self._follow_up(order)
            except _ContradictionError:
                continue
            choice = self._choice(order)
            if choice is None:
                return order.serial()
            likely, other = choice
            untried += [(order.copy(), other), (order, likely)]
        return None

    def _follow_up(self, order: _Order) -> None:
        """Put in order whatever has no choice any more, until nothing changes."""
        moved = 1
        while moved:
            moved = sum(self._explain(order, *reading) for reading in self.readings)
            self._spend(len(self.readings) + moved)

    def _explain(self, order: _Order, reader: int, writer: int | None, rivals: int) -> int:
        """Put rivals behind the reader if they stand behind the writer, and the other way round."""
        moved = 0
        replacing = rivals if writer is None else rivals & order.behind[writer]
        for rival in members(replacing & ~order.behind[reader]):
            moved += order.put(reader, rival)
        if writer is not None:
            replaced = rivals & order.before[reader] & ~(1 << writer)
            for rival in members(replaced & ~order.before[writer]):
                moved += order.put(rival, writer)
        return moved

    def _choice(self, order: _Order) -> tuple[_Pair, _Pair] | None:
        """Find a rival that may stand on either side, with the likelier side first."""
        self._spend(len(self.readings))
        for reader, writer, rivals in self.readings:
            if writer is None:
                continue
            free = rivals & ~(order.before[writer] | order.behind[reader] | 1 << writer)
            if free:
                rival = next(members(free))
                replaced, replacing = _Pair(rival, writer), _Pair(reader, rival)
                return (replaced, replacing) if rival < writer else (replacing, replaced)
        return None

    def _spend(self, steps: int) -> None:
        self.effort -= steps
        if self.effort < 0:
            raise GivenUpError
