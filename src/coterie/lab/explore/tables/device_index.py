"""The numbers of states on a device: a hash table that thousands of threads fill at once.

It does what `HashIndex` does for keys, in the same terms. A batch is added in four steps: each key
finds its number or claims a slot; the first position of each new key wins; winners are numbered in
the order of their positions; every key that had only claimed reads its number. So numbers depend on
the keys and their order alone, never on the threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from coterie.lab.explore.tables.kernels import launch, nonzero

if TYPE_CHECKING:
    from coterie.lab.explore.device import Gpu
    from coterie.lab.explore.tables.arrays import Keys, Numbers, Positions, Rows

SLOT_BYTES = 16
KEY_BYTES = 8
_FREE = np.uint64(2**64 - 1)
# Of the slots, how many are taken when the table has grown, and when it grows again. A table takes at
# most half of what is left, so it is made fuller where memory is short, and the fullest at last.
_LOADS = ((0.5, 0.75), (0.6, 0.75), (0.75, 0.9))
_LOAD_MAX = 0.9


class DeviceIndex:
    """Numbers the distinct keys it is shown, from 0 on in order of first appearance."""

    SEGMENT = 1 << 22  # keys by number are kept in pieces, so that growing copies nothing
    SLOTS_MIN = 1 << 20

    def __init__(self, gpu: Gpu, keys: Keys) -> None:
        """Start with these keys, which are distinct."""
        self._gpu = gpu
        self._xp = gpu.xp
        self.size = 0
        self._segments: list[Any] = []
        self._slots = 0
        self._limit = -1  # keys beyond which the table grows
        self._table: Any = None
        self._append(self._xp.asarray(keys))
        self._reserve(0)

    def span(self, first: int, end: int) -> Keys:
        """Return the keys with these numbers."""
        parts = []
        while first < end:
            segment, start = divmod(first, self.SEGMENT)
            stop = min(self.SEGMENT, start + end - first)
            parts.append(self._segments[segment][start:stop])
            first += stop - start
        keys: Keys = self._xp.concatenate(parts) if parts else self._xp.zeros(0, np.uint64)
        return keys

    def find(self, keys: Keys) -> Numbers:
        """Return the number of each key, or -1 for one never shown."""
        numbers: Numbers = self._xp.empty(len(keys), np.int64)
        launch(self._xp, "find", keys, self._table, np.uint64(self._slots), numbers)
        return numbers

    def room(self, others: int) -> int:
        """About how many keys there will be when the memory is full, if each has so many other bytes."""
        spare = self._gpu.spare() * 3 // 4  # the rest is for what is expanded at the time
        free = int(_LOAD_MAX * self._slots) - self.size
        more = spare // (KEY_BYTES + others)
        if more > free:  # the table has to grow too
            each = KEY_BYTES + others + SLOT_BYTES / _LOAD_MAX
            more = int((spare + free * SLOT_BYTES / _LOAD_MAX) / each)
        return self.size + more

    def add(self, keys: Keys, rows: Rows | None = None) -> tuple[Numbers, Positions]:
        """Return the number of each key, and the positions of the new ones in the order of their numbers."""
        assert rows is None, "rows are compared on the host alone"
        xp = self._xp
        self._reserve(len(keys))
        numbers: Numbers = xp.empty(len(keys), np.int64)
        launch(xp, "claim", keys, self._table, np.uint64(self._slots), numbers)
        won = xp.empty(len(keys), np.bool_)
        launch(xp, "winners", numbers, self._table, won)
        fresh, _ = nonzero(xp, won)
        launch(xp, "settle", fresh, keys, numbers, self._table, np.int64(self.size))
        launch(xp, "resolve", numbers, self._table)
        self._append(keys.take(fresh))
        return numbers, fresh

    def _append(self, keys: Keys) -> None:
        """Keep keys by their numbers."""
        done = 0
        while done < len(keys):
            segment, start = divmod(self.size, self.SEGMENT)
            if segment == len(self._segments):
                self._segments.append(self._xp.empty(self.SEGMENT, np.uint64))
            part = keys[done : done + self.SEGMENT - start]
            self._segments[segment][start : start + len(part)] = part
            done += len(part)
            self.size += len(part)

    def _reserve(self, more: int) -> None:
        """Make room, and place all keys again; the old table goes first, so that both never exist."""
        needed = max(self.size + more, self.SLOTS_MIN // 2)
        if needed <= self._limit:
            return
        fitting = self._gpu.spare(self._slots * SLOT_BYTES) // SLOT_BYTES
        choices = [(int(needed / load), limit) for load, limit in _LOADS]
        choices = [(slots, limit) for slots, limit in choices if slots <= fitting // 2]
        slots, limit = choices[0] if choices else (fitting, _LOAD_MAX)
        if needed > limit * slots:
            raise MemoryError(f"a table for {needed:,} states takes more than is left")
        self._table = None
        self._table = self._xp.full(2 * slots, _FREE, np.uint64)
        self._slots, self._limit = slots, int(limit * slots)
        for number in range(0, self.size, self.SEGMENT):
            keys = self.span(number, min(number + self.SEGMENT, self.size))
            launch(self._xp, "place", keys, self._table, np.uint64(slots), np.int64(number))
