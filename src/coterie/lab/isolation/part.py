"""A history cut into parts that have no key in common: each level holds if it holds in every part."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from coterie.lab.serializability.observation import Reading
from coterie.lab.serializability.real_time import successions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from coterie.lab.serializability.observation import Observation
    from coterie.transactions.history import Key


@dataclass(frozen=True)
class Part:
    """Transactions 0, 1, ... that share keys, with what is known of the versions of these."""

    size: int
    readings: list[Reading]
    versions: dict[Key, list[int]]  # writers from oldest to newest, where that is known
    tails: dict[Key, list[int]]  # those behind them, in an order that is not known
    unknown: dict[Key, list[int]]  # writers of keys of which no order is known
    before: dict[int, int]  # the one before it in its session, in the order of beginnings

    def writers(self) -> Iterator[tuple[Key, list[int]]]:
        """Yield each key with all that write it."""
        for key, known in self.versions.items():
            yield key, known + self.tails.get(key, [])
        yield from self.unknown.items()

    def certain(self, *, sessions: bool = True) -> Iterator[tuple[int, int]]:
        """Yield pairs in an order that every level demands: reads, known versions, and sessions."""
        for reader, _, writer in self.readings:
            if writer is not None:
                yield writer, reader
        for key, known in self.versions.items():
            yield from itertools.pairwise(known)
            for last in self.tails.get(key, ()):
                yield from ((newest, last) for newest in known[-1:])
        if sessions:
            yield from ((earlier, number) for number, earlier in self.before.items())


def parts(observation: Observation, *, sessions: bool) -> list[Part]:
    """Cut what was observed into parts; with sessions, those of a session stay together."""
    transactions = observation.transactions
    before = {later: one for one, later in successions(observation)} if sessions else {}
    groups = _Groups(len(transactions))
    for numbers in observation.writers.values():
        groups.join_all(numbers)
    for reader, key, _ in observation.readings:
        groups.join_all([reader, *observation.writers.get(key, ())[:1]])
    for number, earlier in before.items():
        groups.join_all([number, earlier])
    homes: dict[int, list[int]] = {}
    for number in range(len(transactions)):
        homes.setdefault(groups.of(number), []).append(number)
    places = {number: place for members in homes.values() for place, number in enumerate(members)}
    made = {home: Part(len(members), [], {}, {}, {}, {}) for home, members in homes.items()}
    for number, earlier in before.items():
        made[groups.of(number)].before[places[number]] = places[earlier]
    for reader, key, writer in observation.readings:
        found = Reading(places[reader], key, None if writer is None else places[writer])
        made[groups.of(reader)].readings.append(found)
    for key, writers in observation.writers.items():
        part = made[groups.of(writers[0])]
        known = observation.versions.get(key, writers if len(writers) == 1 else None)
        if known is None:
            part.unknown[key] = [places[number] for number in writers]
            continue
        part.versions[key] = [places[number] for number in known]
        part.tails[key] = [places[number] for number in observation.tails.get(key, ())]
    return list(made.values())


class _Groups:
    """Sets of numbers that grow together (union-find)."""

    def __init__(self, size: int) -> None:
        self._above = list(range(size))

    def of(self, number: int) -> int:
        above = self._above
        while above[number] != number:
            above[number] = above[above[number]]
            number = above[number]
        return number

    def join_all(self, numbers: list[int]) -> None:
        for one, other in itertools.pairwise(numbers):
            self._above[self.of(one)] = self.of(other)
