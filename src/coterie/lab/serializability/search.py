"""A serial order that explains every read, found or proven impossible by exhaustion.

To find one is NP-complete (Papadimitriou, 1979): each other writer of the key stands before the
writer or behind the reader, and there is such a choice for each read and each other writer. What a
choice implies is followed up at once, and most choices are implied; where one is left, both ways
are tried.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from coterie.lab.serializability.dependencies import serial_order

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from coterie.lab.serializability.observation import Reading
    from coterie.transactions.history import Key

LARGEST = 40_000  # transactions and keys whose pairs fit in memory, at one bit each
EFFORT = 20_000_000  # steps after which a search is given up: some ten seconds
WORD = 2_000  # transactions whose set is worked on in one step


class GivenUpError(Exception):
    """The search has taken as many steps as it may."""


class _ContradictionError(Exception):
    """Two transactions would each have to stand before the other."""


class Pair(NamedTuple):
    """One transaction before another."""

    first: int
    second: int


class Order:
    """A partial order of nodes: the sets of those before and behind each, as bits.

    Bits stand for places in an order that respects this one, so that the lowest bit of a set is
    one that none of the others stands before.
    """

    def __init__(self, topological: Sequence[int], pairs: Sequence[tuple[int, int]]) -> None:
        """Close pairs under transitivity; `topological` respects them."""
        self.topological = topological
        size = len(topological)
        self.places = [0] * size
        for place, node in enumerate(topological):
            self.places[node] = place
        self.before, self.behind = [0] * size, [0] * size  # by place
        self.needed: list[tuple[int, int]] = []  # pairs from which all others follow
        self._undone: list[tuple[list[int], int, int]] = []  # a set before it was changed
        sources: list[list[int]] = [[] for _ in topological]
        targets: list[list[int]] = [[] for _ in topological]
        for source, target in pairs:
            sources[self.places[target]].append(self.places[source])
            targets[self.places[source]].append(self.places[target])
        for place in range(size):
            mine = 0
            for source in sorted(sources[place], reverse=True):
                if not mine >> source & 1:  # or it is known through another
                    mine |= self.before[source] | 1 << source
                    self.needed.append((topological[source], topological[place]))
            self.before[place] = mine
        for place in range(size - 1, -1, -1):
            mine = 0
            for target in sorted(targets[place]):
                if not mine >> target & 1:
                    mine |= self.behind[target] | 1 << target
            self.behind[place] = mine

    def holds(self, pair: Pair) -> bool:
        """Return whether the first stands before the second."""
        return bool(self.behind[self.places[pair.first]] >> self.places[pair.second] & 1)

    def put(self, pair: Pair) -> tuple[int, int]:
        """Put one before another; return the places that got more behind them and more before."""
        first, second = self.places[pair.first], self.places[pair.second]
        before, behind = self.before, self.behind
        if first == second or behind[second] >> first & 1:
            raise _ContradictionError
        if behind[first] >> second & 1:
            return 0, 0
        earlier = before[first] | 1 << first
        later = behind[second] | 1 << second
        # What stands before the second already stands before all that follow, and so on.
        moved_earlier = earlier & ~before[second]
        moved_later = later & ~behind[first]
        for place in members(moved_earlier):
            self._undone.append((behind, place, behind[place]))
            behind[place] |= later
        for place in members(moved_later):
            self._undone.append((before, place, before[place]))
            before[place] |= earlier
        return moved_earlier, moved_later

    def mark(self) -> int:
        """Return where `undo` leads back to."""
        return len(self._undone)

    def undo(self, mark: int) -> None:
        """Take back all that was put since."""
        while len(self._undone) > mark:
            sets, place, old = self._undone.pop()
            sets[place] = old

    def serial(self) -> list[int]:
        """Return a total order that respects this one, else near the one that it began with."""
        before = self.before

        def rank(place: int) -> tuple[int, int]:
            return (before[place] | 1 << place).bit_length(), before[place].bit_count()

        return [self.topological[place] for place in sorted(range(len(before)), key=rank)]


def members(bits: int) -> Iterator[int]:
    """List the elements of a set."""
    while bits:
        highest = bits.bit_length() - 1
        yield highest
        bits ^= 1 << highest


class _Places(NamedTuple):
    """A read by places of an order."""

    reader: int
    writer: int
    writers: int  # all of the key, as bits


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
        self.writers = writers
        self.effort = effort
        self._weight = 1  # of a step: sets are longer the more transactions there are
        self._places: list[_Places] = []
        self._by_writer: dict[int, list[_Places]] = {}
        self._by_reader: dict[int, list[_Places]] = {}
        self.reads: list[list[tuple[Key, int | None]]] = [[] for _ in range(size)]
        self.written: list[list[Key]] = [[] for _ in range(size)]
        for reader, key, writer in readings:
            self.reads[reader].append((key, writer))
        for key, numbers in writers.items():
            for number in numbers:
                self.written[number].append(key)

    def run(self, topological: Sequence[int], pairs: Sequence[tuple[int, int]]) -> list[int] | None:
        """Find a serial order that respects the pairs, or None if there is none.

        The pairs are those that are certain, and `topological` an order of all nodes in them.

        Raises:
            GivenUpError: the effort was not enough to tell.
        """
        try:
            order = self._follow_up(len(topological), list(pairs))
        except _ContradictionError:
            return None
        self._prepare(order)
        untried: list[tuple[int, Pair]] = []  # where to go back to, and the other way from there
        while choices := self._wrong(order.serial()):
            for likely, other in choices:
                if order.holds(likely) or order.holds(other):
                    continue
                untried.append((order.mark(), other))
                if not self._decide(order, likely) and not self._go_back(order, untried):
                    return None
        return [node for node in order.serial() if node < self.size]

    def _go_back(self, order: Order, untried: list[tuple[int, Pair]]) -> bool:
        """Take the other way at the last decision that has one; return whether there was any."""
        while untried:
            mark, other = untried.pop()
            order.undo(mark)
            if self._decide(order, other):
                return True
        return False

    def _decide(self, order: Order, pair: Pair) -> bool:
        """Put a pair in order with all that follows; return False if that contradicts itself."""
        waiting = [pair]
        try:
            while waiting:
                more_behind, more_before = order.put(waiting.pop())
                self._spend((1 + (more_behind | more_before).bit_count()) * self._weight)
                for place in members(more_behind):
                    for reading in self._by_writer.get(place, ()):
                        waiting += self._rivals_behind(order, reading)
                for place in members(more_before):
                    for reading in self._by_reader.get(place, ()):
                        waiting += self._rivals_before(order, reading)
        except _ContradictionError:
            return False
        return True

    def _follow_up(self, nodes: int, known: list[tuple[int, int]]) -> Order:
        """Add the pairs that have no choice any more, until nothing changes; return their order.

        All of them are added at once, and closed under transitivity from the beginning: that is
        much less work than one by one while there are many.
        """
        while True:
            topological, tangled = serial_order(range(nodes), known)
            if tangled:
                raise _ContradictionError
            order = Order(topological, known)
            self._prepare(order)
            self._spend((len(known) + 4 * len(self.readings)) * self._weight // 20)
            implied: dict[tuple[int, int], None] = {}
            for reading in self._places:
                implied.update(dict.fromkeys(self._rivals_behind(order, reading)))
                implied.update(dict.fromkeys(self._rivals_before(order, reading)))
            if not implied:
                return order
            known = [*order.needed, *implied]

    def _prepare(self, order: Order) -> None:
        """Write readings and writers in the places of an order."""
        places = order.places
        writers = {
            key: sum(1 << places[number] for number in numbers)
            for key, numbers in self.writers.items()
        }
        self._weight = 1 + len(places) // WORD
        self._places = [
            _Places(places[reader], places[writer], writers[key])
            for reader, key, writer in self.readings
            if writer is not None  # or certain pairs have put all others behind the reader
        ]
        self._by_writer, self._by_reader = {}, {}
        for reading in self._places:
            self._by_writer.setdefault(reading.writer, []).append(reading)
            self._by_reader.setdefault(reading.reader, []).append(reading)

    def _rivals_behind(self, order: Order, reading: _Places) -> Iterator[Pair]:
        """Put rivals behind the reader if they stand behind the writer.

        Of several rivals only those are named that bring the others with them.
        """
        reader, writer, writers = reading
        behind, nodes = order.behind, order.topological
        left = writers & behind[writer] & ~(behind[reader] | 1 << reader)
        while left:
            rival = (left & -left).bit_length() - 1
            yield Pair(nodes[reader], nodes[rival])
            left &= ~(behind[rival] | 1 << rival)

    def _rivals_before(self, order: Order, reading: _Places) -> Iterator[Pair]:
        """Put rivals before the writer if they stand before the reader."""
        reader, writer, writers = reading
        before, nodes = order.before, order.topological
        left = writers & before[reader] & ~(before[writer] | 1 << writer)
        while left:
            rival = left.bit_length() - 1
            yield Pair(nodes[rival], nodes[writer])
            left &= ~(before[rival] | 1 << rival)

    def _wrong(self, serial: Sequence[int]) -> list[tuple[Pair, Pair]]:
        """Find readers that would see the version of a rival: two ways out each, the likelier first.

        The rival goes before the writer or behind the reader. It may be on either side, or what
        follows from the order so far would have put it there.
        """
        self._spend(self.size)
        latest: dict[Key, int] = {}
        choices = []
        for node in serial:
            if node >= self.size:
                continue
            for key, writer in self.reads[node]:
                rival = latest.get(key)
                if rival != writer:
                    assert rival is not None  # the writer stands before, and
                    assert writer is not None  # readers of the beginning before all writers
                    before, behind = Pair(rival, writer), Pair(node, rival)
                    choices.append((before, behind) if rival < writer else (behind, before))
            for key in self.written[node]:
                latest[key] = node
        return choices

    def _spend(self, steps: int) -> None:
        self.effort -= steps
        if self.effort < 0:
            raise GivenUpError
