"""A serial order that explains every read, found or proven impossible by exhaustion.

To find one is NP-complete (Papadimitriou, 1979): each other writer of the key stands before the
writer or behind the reader, and there is such a choice for each read and each other writer. What a
choice implies is followed up at once, and most choices are implied; where one is left, both ways
are tried.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from coterie.transactions.history import Key
    from coterie.transactions.serializability.observation import Reading

LARGEST = 20_000  # transactions whose pairs fit in memory, at one bit each
EFFORT = 20_000_000  # steps after which a search is given up: some ten seconds


class GivenUpError(Exception):
    """The search has taken as many steps as it may."""


class _ContradictionError(Exception):
    """Two transactions would each have to stand before the other."""


class Order:
    """A partial order of transactions: the sets of those before and behind each, as bits."""

    def __init__(self, before: list[int], behind: list[int]) -> None:
        """Take over the sets of those before and behind each."""
        self.before = before
        self.behind = behind

    @classmethod
    def of(cls, topological: Sequence[int], pairs: Iterable[tuple[int, int]]) -> Order:
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

    def copy(self) -> Order:
        """Return another order that goes its own way from here."""
        return Order(self.before.copy(), self.behind.copy())

    def put(self, first: int, second: int) -> int:
        """Put one before another; return how many others that has moved."""
        if first == second or self.behind[second] >> first & 1:
            raise _ContradictionError
        if self.behind[first] >> second & 1:
            return 0
        earlier = self.before[first] | 1 << first
        later = self.behind[second] | 1 << second
        # What stands before the second already stands before all that follow, and so on.
        moved_earlier = earlier & ~self.before[second]
        moved_later = later & ~self.behind[first]
        for node in members(moved_earlier):
            self.behind[node] |= later
        for node in members(moved_later):
            self.before[node] |= earlier
        return moved_earlier.bit_count() + moved_later.bit_count()

    def serial(self, size: int) -> list[int]:
        """Return a total order of the first so many that respects this one, else near theirs."""
        everyone = (1 << size) - 1

        def place(node: int) -> tuple[int, int]:
            earlier = self.before[node] & everyone
            return (earlier | 1 << node).bit_length(), earlier.bit_count()

        return sorted(range(size), key=place)


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
        size: int,
        readings: Sequence[Reading],
        writers: Mapping[Key, Sequence[int]],
        effort: int = EFFORT,
    ) -> None:
        """Take the reads of so many transactions, and all that write the keys they read."""
        self.size = size
        self.readings = readings
        # Steps take longer the longer the sets are.
        self.effort = effort // (1 + size // 2_000)
        self.writers: dict[Key, int] = {}  # as bits
        self.reads: list[list[tuple[Key, int | None]]] = [[] for _ in range(size)]
        self.written: list[list[Key]] = [[] for _ in range(size)]
        for reader, key, writer in readings:
            self.reads[reader].append((key, writer))
        for key, numbers in writers.items():
            self.writers[key] = sum(1 << number for number in numbers)
            for number in numbers:
                self.written[number].append(key)

    def run(self, topological: Sequence[int], pairs: Iterable[tuple[int, int]]) -> list[int] | None:
        """Find a serial order that respects the pairs, or None if there is none.

        The pairs are those that are certain, and `topological` an order of all nodes in them.

        Raises:
            GivenUpError: the effort was not enough to tell.
        """
        untried: list[tuple[Order, _Pair | None]] = [(Order.of(topological, pairs), None)]
        while untried:
            order, pair = untried.pop()
            try:
                if pair:
                    self._spend(order.put(*pair))
                self._follow_up(order)
            except _ContradictionError:
                continue
            serial = order.serial(self.size)
            choice = self._wrong(serial)
            if choice is None:
                return serial
            likely, other = choice
            untried += [(order.copy(), other), (order, likely)]
        return None

    def _follow_up(self, order: Order) -> None:
        """Put in order whatever has no choice any more, until nothing changes."""
        changed = True
        while changed:
            changed = False
            for reading in self.readings:
                moved = self._explain(order, reading)
                self._spend(1 + moved)
                changed = changed or moved > 0

    def _explain(self, order: Order, reading: Reading) -> int:
        """Put rivals behind the reader if they stand behind the writer, and the other way round."""
        reader, key, writer = reading
        if writer is None:
            return 0  # the pairs to start from have put all others behind the reader
        moved = 0
        rivals = self.writers[key] & ~(1 << reader | 1 << writer)
        for rival in members(rivals & order.behind[writer] & ~order.behind[reader]):
            moved += order.put(reader, rival)
        for rival in members(rivals & order.before[reader] & ~order.before[writer]):
            moved += order.put(rival, writer)
        return moved

    def _wrong(self, serial: Sequence[int]) -> tuple[_Pair, _Pair] | None:
        """Find a reader that would see the version of a rival: two ways out, the likelier first.

        The rival goes before the writer or behind the reader. It may be on either side, or what
        follows from the order so far would have put it there.
        """
        self._spend(self.size)
        latest: dict[Key, int] = {}
        for node in serial:
            for key, writer in self.reads[node]:
                rival = latest.get(key)
                if rival != writer:
                    assert rival is not None  # the writer stands before, and
                    assert writer is not None  # readers of the beginning before all writers
                    before, behind = _Pair(rival, writer), _Pair(node, rival)
                    return (before, behind) if rival < writer else (behind, before)
            for key in self.written[node]:
                latest[key] = node
        return None

    def _spend(self, steps: int) -> None:
        self.effort -= steps
        if self.effort < 0:
            raise GivenUpError
