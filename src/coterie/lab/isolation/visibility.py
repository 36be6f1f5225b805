"""Levels that say which transactions another one must see: read atomic, causal, session guarantees.

Where t has to see u and reads a key that u writes, but from another one w, then u comes before w in the
order of commits (Biswas and Enea, 2019). What t has to see does not depend on that order, so the
level holds if and only if these demands form no cycle with what is certain. This needs no order of
versions, and where one is stated it is a part of what is certain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from coterie.lab.serializability.dependencies import serial_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from coterie.lab.isolation.part import Part
    from coterie.transactions.history import Key

    Pairs: TypeAlias = Iterator[tuple[int, int]]

DEMANDS_MAX = 5_000_000  # pairs after which a level is given up


class TooManyError(Exception):
    """There are more demands than fit."""


class Views:
    """Which transactions of a part each one has to see, as sets in bits, by level."""

    def __init__(self, part: Part) -> None:
        """Collect what each has read from, what came before it in its session, and which ones write."""
        self.part = part
        self._writers: dict[Key, int] = {
            key: sum(1 << number for number in numbers) for key, numbers in part.writers()
        }
        self._writing = {number for _, numbers in part.writers() for number in numbers}
        self.read_from = [0] * part.size
        for reader, _, writer in part.readings:
            if writer is not None:
                self.read_from[reader] |= 1 << writer
        self.before = [0] * part.size
        for number, earlier in part.before.items():
            self.before[number] = self.before[earlier] | 1 << earlier

    def holds(self, level: str) -> bool:
        """Return whether a level or guarantee of `BY_LEVEL` holds."""
        sequence, view = BY_LEVEL[level]
        pairs = [*self.part.certain(sessions=False), *sequence(self)]
        nodes = range(2 * self.part.size)  # the latter half: see `behind_reads`
        order, tangled = serial_order(nodes, pairs)
        if tangled:
            return False
        seen = view(self, [node for node in order if node < self.part.size])
        for reader, key, writer in self.part.readings:
            rivals = seen[reader] & self._writers.get(key, 0) & ~(1 << reader)
            if writer is None:
                if rivals:
                    return False
                continue
            pairs += ((rival, writer) for rival in _members(rivals & ~(1 << writer)))
            if len(pairs) > DEMANDS_MAX:
                raise TooManyError
        _, tangled = serial_order(nodes, pairs)
        return not tangled

    # What the order of commits has to respect besides

    def free(self) -> Pairs:
        """Leave the transactions of a session in any order."""
        return iter(())

    def as_begun(self) -> Pairs:
        """Keep all transactions of a session in order."""
        return ((earlier, number) for number, earlier in self.part.before.items())

    def as_written(self) -> Pairs:
        """Keep those of a session that write in order."""
        latest: dict[int, int] = {}  # that writes, before each in its session
        for number, earlier in self.part.before.items():
            found = earlier if earlier in self._writing else latest.get(earlier)
            if found is None:
                continue
            latest[number] = found
            if number in self._writing:
                yield found, number

    def behind_reads(self) -> Pairs:
        """Put one that writes behind all from which it or others of its session before it have read.

        A node of its own stands for what a transaction and those before it have read.
        """
        size = self.part.size
        for reader, _, writer in self.part.readings:
            if writer is not None:
                yield writer, size + reader
        for number, earlier in self.part.before.items():
            yield size + earlier, size + number
            if number in self._writing:
                yield size + earlier, number

    # What each has to see

    def atomic(self, _: list[int]) -> list[int]:
        """See all of those from which it has read, and all before it in its session."""
        return [a | b for a, b in zip(self.read_from, self.before, strict=True)]

    def causal(self, order: list[int]) -> list[int]:
        """See those, and all that these had to see."""
        direct = self.atomic(order)
        past = [0] * self.part.size
        for number in order:
            mine = direct[number]
            nearest = [self.part.before[number]] if number in self.part.before else []
            for one in (*_members(self.read_from[number]), *nearest):  # they saw the rest
                mine |= past[one]
            past[number] = mine
        return past

    def own(self, _: list[int]) -> list[int]:
        """See what came before it in its session."""
        return self.before

    def met(self, _: list[int]) -> list[int]:
        """See what others of its session have read before it."""
        return [_union(self.read_from, earlier) for earlier in self.before]

    def in_sequence(self, _: list[int]) -> list[int]:
        """See what came in their sessions before those from which it has read."""
        return [_union(self.before, sources) for sources in self.read_from]

    def followed(self, order: list[int]) -> list[int]:
        """See what those had read from which it has read, or others of their sessions before them."""
        known = [a | b for a, b in zip(self.met(order), self.read_from, strict=True)]
        return [_union(known, sources) for sources in self.read_from]


# What the order of commits has to respect of the sessions, and what each has to see.
BY_LEVEL: dict[str, tuple[Callable[[Views], Pairs], Callable[[Views, list[int]], list[int]]]] = {
    "read-atomic": (Views.as_begun, Views.atomic),
    "causal": (Views.as_begun, Views.causal),
    "read-your-writes": (Views.free, Views.own),
    "monotonic-reads": (Views.free, Views.met),
    "monotonic-writes": (Views.as_written, Views.in_sequence),
    "writes-follow-reads": (Views.behind_reads, Views.followed),
}


def _union(sets: list[int], numbers: int) -> int:
    union = 0
    for number in _members(numbers):
        union |= sets[number]
    return union


def _members(bits: int) -> Iterator[int]:
    while bits:
        highest = bits.bit_length() - 1
        yield highest
        bits ^= 1 << highest
