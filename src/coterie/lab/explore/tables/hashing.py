"""Sets of 64-bit numbers as arrays: a hash table whose every operation takes a whole array of keys.

Each key gets a number, counted from 0 in order of first appearance. Keys that are hashes of rows
may coincide for different rows; a table that is given the rows tells those apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from coterie.lab.explore.tables.arrays import number_type

if TYPE_CHECKING:
    from coterie.lab.explore.tables.arrays import Flags, Keys, Numbers, Positions, Rows

_MASK = (1 << 64) - 1
_LOAD_INVERSE = 2  # at most half of the slots are taken: chains of probes stay short


def scatter(number: int) -> int:
    """Map a number to a random-looking one of 64 bits, one to one (splitmix64)."""
    number = (number + 0x9E3779B97F4A7C15) & _MASK
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & _MASK
    return number ^ (number >> 31)


def scatter_all(numbers: Keys) -> Keys:
    """Map each number as `scatter` does."""
    numbers = numbers + np.uint64(0x9E3779B97F4A7C15)
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


class HashIndex:
    """Numbers the distinct keys it is shown. Keys must be well scattered."""

    def __init__(self) -> None:
        """Start with no keys."""
        self.size = 0
        self._keys: Keys = np.zeros(1 << 10, np.uint64)  # by number, from 1 on
        self._rows: Rows | None = None  # likewise, when rows are compared too
        self._resize(1 << 12)

    @property
    def keys(self) -> Keys:
        """All keys in the order of their numbers."""
        return self._keys[1 : self.size + 1]

    @property
    def rows(self) -> Rows:
        """All rows in the order of their numbers, if rows were given."""
        assert self._rows is not None, "this index was given no rows"
        return self._rows[:, 1 : self.size + 1]

    def span(self, first: int, end: int) -> Keys:
        """Return the keys with these numbers; they stay as they are when more are added."""
        return self.keys[first:end].copy()

    def find(self, keys: Keys) -> Numbers:
        """Return the number of each key, or -1 for one never shown."""
        entries, _ = self._probe(keys, None)
        return entries - 1

    def add(self, keys: Keys, rows: Rows | None = None) -> tuple[Numbers, Positions]:
        """Return the number of each key, and the positions of the new ones in the order of their numbers.

        Rows, if they are given, must always be; then only equal rows get equal numbers.
        """
        self._reserve(len(keys), rows)
        entries, slots = self._probe(keys, rows)
        new = np.flatnonzero(entries == 0)
        if not new.size:
            return entries - 1, new
        entries[new], fresh = self._settle(keys.take(new), slots.take(new), _pick(rows, new))
        return entries - 1, new.take(fresh)

    def _probe(self, keys: Keys, rows: Rows | None) -> tuple[Numbers, Positions]:
        """Follow each key to its entry, or to the free slot (entry 0) where it belongs."""
        slots = (keys >> self._shift).view(np.intp)
        entries = self._slots.take(slots)
        seeking = np.flatnonzero(self._differ(entries, keys, rows) & (entries != 0))
        while seeking.size:
            here = (slots.take(seeking) + 1) & self._wrap
            found = self._slots.take(here)
            slots[seeking] = here
            entries[seeking] = found
            differ = self._differ(found, keys.take(seeking), _pick(rows, seeking))
            seeking = seeking[differ & (found != 0)]
        return entries, slots

    def _settle(self, keys: Keys, slots: Positions, rows: Rows | None) -> tuple[Numbers, Positions]:
        """Put new keys into the free slots where they belong, and number them.

        Several keys may claim one slot at once. The last to write its claim wins and is numbered;
        a loser that is not the winner's double goes on to the next slot.
        """
        entries = np.empty(len(keys), self._slots.dtype)
        fresh = []
        seeking: Positions = np.arange(len(keys))
        while seeking.size:
            here = slots.take(seeking)
            free = self._slots.take(here) == 0
            claims = (-1 - seeking[free]).astype(self._slots.dtype)
            self._slots[here[free]] = claims
            won = seeking[free][self._slots.take(here[free]) == claims]
            self._slots[slots.take(won)] = self._append(keys.take(won), _pick(rows, won))
            fresh.append(won)
            found = self._slots.take(here)
            entries[seeking] = found
            seeking = seeking[self._differ(found, keys.take(seeking), _pick(rows, seeking))]
            slots[seeking] = (slots.take(seeking) + 1) & self._wrap
        return entries, np.concatenate(fresh)

    def _differ(self, entries: Numbers, keys: Keys, rows: Rows | None) -> Flags:
        """Return where the entry is of another key or row. An entry 0 may or may not differ."""
        differ: Flags = self._keys.take(entries) != keys
        if rows is not None and self._rows is not None:
            differ |= (self._rows.take(entries, axis=1) != rows).any(axis=0)
        return differ

    def _append(self, keys: Keys, rows: Rows | None) -> Numbers:
        first, last = self.size + 1, self.size + 1 + len(keys)
        self._keys[first:last] = keys
        if rows is not None and self._rows is not None:
            self._rows[:, first:last] = rows
        self.size += len(keys)
        return np.arange(first, last, dtype=self._slots.dtype)

    def _reserve(self, more: int, rows: Rows | None) -> None:
        needed = self.size + more + 1
        if needed > len(self._keys):
            known = self._keys[: self.size + 1]
            self._keys = np.empty(2 * needed, np.uint64)  # what is never written takes no memory
            self._keys[: self.size + 1] = known
        if rows is not None:
            self._reserve_rows(rows)
        if needed * _LOAD_INVERSE > len(self._slots):
            slots = len(self._slots)
            while needed * _LOAD_INVERSE > slots:
                slots *= 4
            self._resize(slots)

    def _reserve_rows(self, rows: Rows) -> None:
        if self._rows is None:
            self._rows = np.zeros((len(rows), len(self._keys)), rows.dtype)
        if rows.dtype.itemsize > self._rows.dtype.itemsize:
            self._rows = self._rows.astype(rows.dtype)
        missing = len(self._keys) - self._rows.shape[1]
        if missing > 0:
            more = np.zeros((len(rows), missing), self._rows.dtype)
            self._rows = np.concatenate([self._rows, more], axis=1)

    def _resize(self, slots: int) -> None:
        """Make room, and place all keys again: they are distinct, so nothing is compared."""
        kind = number_type(slots)
        self._slots: Numbers = np.zeros(slots, kind)  # number + 1, or 0 where free
        self._shift = np.uint64(64 - (slots.bit_length() - 1))
        self._wrap = slots - 1
        places = (self._keys[: self.size + 1] >> self._shift).view(np.intp)
        seeking = np.arange(1, self.size + 1, dtype=kind)
        while seeking.size:
            here = places.take(seeking)
            free = self._slots.take(here) == 0
            self._slots[here[free]] = seeking[free]
            seeking = seeking[self._slots.take(here) != seeking]
            places[seeking] = (places.take(seeking) + 1) & self._wrap


def _pick(rows: Rows | None, positions: Positions) -> Rows | None:
    return None if rows is None else rows.take(positions, axis=1)
