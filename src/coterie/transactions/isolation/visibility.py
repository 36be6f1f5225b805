"""Levels that say which transactions another one must see: read atomic, causal, session guarantees.

Where t has to see u and reads a key that u writes, but from another one w, then u comes before w in the
order of commits (Biswas and Enea, 2019). What t has to see does not depend on that order, so the
level holds if and only if these demands form no cycle with what is certain. This needs no order of
versions, and where one is stated it is a part of what is certain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.transactions.serializability.dependencies import serial_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from coterie.transactions.history import Key
    from coterie.transactions.isolation.part import Part

DEMANDS_MAX = 5_000_000  # pairs after which a level is given up


class TooManyError(Exception):
    """There are more demands than fit."""


class Views:
    """Which transactions of a part each one has to see, as sets in bits, by level."""

    def __init__(self, part: Part) -> None:
        """Collect what each has read from, and what came before it in its session."""
        self.part = part
        self._writers: dict[Key, int] = {
            key: sum(1 << number for number in numbers) for key, numbers in part.writers()
        }
        self.read_from = [0] * part.size
        for reader, _, writer in part.readings:
            if writer is not None:
                self.read_from[reader] |= 1 << writer
        self.before = [0] * part.size
        for number, earlier in part.before.items():
            self.before[number] = self.before[earlier] | 1 << earlier

    def holds(self, level: str) -> bool:
        """Return whether a level or guarantee of `BY_LEVEL` holds."""
        with_sessions, view = BY_LEVEL[level]
        pairs = list(self.part.certain(sessions=with_sessions))
        order, tangled = serial_order(range(self.part.size), pairs)
        if tangled:
            return False
        seen = view(self, order)
        for reader, key, writer in self.part.readings:
            rivals = seen[reader] & self._writers.get(key, 0) & ~(1 << reader)
            if writer is None:
                if rivals:
                    return False
                continue
            pairs += ((rival, writer) for rival in _members(rivals & ~(1 << writer)))
            if len(pairs) > DEMANDS_MAX:
                raise TooManyError
        _, tangled = serial_order(range(self.part.size), pairs)
        return not tangled

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
            for one in _members(direct[number]):
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


# Whether the order of commits has to be that of the sessions, and what each has to see.
BY_LEVEL: dict[str, tuple[bool, Callable[[Views, list[int]], list[int]]]] = {
    "read-atomic": (True, Views.atomic),
    "causal": (True, Views.causal),
    "read-your-writes": (False, Views.own),
    "monotonic-reads": (False, Views.met),
    "monotonic-writes": (True, Views.in_sequence),
    "writes-follow-reads": (False, Views.followed),
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
