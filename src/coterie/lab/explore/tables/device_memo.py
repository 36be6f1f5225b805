"""The values of a memo on a device: what is missing there is asked of the host, once per pair."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from coterie.lab.explore.tables.arrays import distinct, on_host
from coterie.lab.explore.tables.kernels import NO_ARRAY, launch, nonzero, sized

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.lab.explore.tables.arrays import Ids, Numbers

FEW = 1 << 20  # pairs that the host sorts before a device has begun to


class DeviceMemo:
    """A table of all pairs in front of a function of arrays of them.

    Where the table would be too large, the host is asked about every distinct pair each time.
    """

    DENSE_CELLS = 1 << 28  # 1 GiB

    def __init__(self, xp: Any, ask: Callable[[Ids, Ids, tuple[int, int]], Numbers]) -> None:
        """Ask the host for values that are not known here."""
        self._xp = xp
        self._ask = ask
        self._width = 0
        self._table: Any = xp.zeros(0, np.int32)  # 0 = not known yet
        self._missed: Any = xp.zeros(1, np.int32)

    def __call__(self, first: Ids | np.intp, second: Ids, bounds: tuple[int, int]) -> Numbers:
        """Value for each pair; `bounds` are above all numbers passed so far."""
        if not self._fits(*bounds):
            pairs, where = self._xp.unique(_joined(first, second), return_inverse=True)
            asked = self._asked(on_host(pairs), bounds)
            values: Numbers = self._xp.asarray(asked).take(where)
            return values
        values = self._look_up(first, second)
        if int(self._missed[0]):
            self._missed[0] = 0
            missing, _ = nonzero(self._xp, values == 0)
            rows = first if isinstance(first, np.intp) else first.take(missing)
            missed = _joined(rows, second.take(missing))
            if len(missed) > FEW:
                missed = self._xp.unique(missed)
            pairs = distinct(on_host(missed))
            cells = self._xp.asarray((pairs >> 32) * self._width + (pairs & 0xFFFFFFFF))
            self._table[cells] = self._xp.asarray(self._asked(pairs, bounds))
            values = self._look_up(first, second)
        return values

    def _asked(self, pairs: Ids, bounds: tuple[int, int]) -> Numbers:
        return self._ask(pairs >> 32, pairs & 0xFFFFFFFF, bounds)

    def _look_up(self, first: Ids | np.intp, second: Ids) -> Numbers:
        values: Numbers = self._xp.empty(len(second), np.int32)
        if isinstance(first, np.intp):
            base, rows = np.int64(first * self._width), (NO_ARRAY, np.int64(0))
        else:
            base, rows = np.int64(0), sized(first)
        tables = (self._table, np.int64(self._width), values, self._missed)
        launch(self._xp, "look_up", second, sized(second)[1], *rows, base, *tables)
        return values

    def _fits(self, rows: int, width: int) -> bool:
        """Grow the table in the direction it is too small, and return whether that could be done."""
        if rows * self._width <= len(self._table) and width <= self._width:
            return True
        if 4 * rows * width > self.DENSE_CELLS:
            return False
        old, old_width = self._table, self._width
        old_rows = len(old) // max(1, old_width)
        self._width = old_width if width <= old_width else 2 * width
        grown = self._xp.zeros((max(old_rows, 2 * rows), self._width), np.int32)
        grown[:old_rows, :old_width] = old.reshape(old_rows, old_width)
        self._table = grown.reshape(-1)
        return True


def _joined(first: Ids | np.intp, second: Ids) -> Ids:
    """Put each pair into one number."""
    return (first.astype(np.int64) << 32) | second.astype(np.int64)
