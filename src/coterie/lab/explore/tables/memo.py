"""Functions of two small numbers that are computed once per pair and looked up ever after."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from coterie.lab.explore.tables.arrays import distinct, namespace
from coterie.lab.explore.tables.device_memo import DeviceMemo
from coterie.lab.explore.tables.hashing import HashIndex, scatter_all

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.lab.explore.tables.arrays import Ids, Keys, Numbers


class PairMemo:
    """A memoised function over arrays; its values are positive. Large domains go into a hash table."""

    DENSE_CELLS = 1 << 24  # a table of all pairs is the fastest, up to 64 MiB

    def __init__(self, compute: Callable[[int, int], int]) -> None:
        """Remember the values of `compute`."""
        self._compute = compute
        self._width = 16
        self._dense: Numbers | None = np.zeros(64 * self._width, np.int32)  # 0 = not computed yet
        self._pairs = HashIndex()  # once the table of all pairs is too large
        self._values: Numbers = np.zeros(64, np.int32)
        self._on_device: DeviceMemo | None = None

    def __call__(self, first: Ids | np.intp, second: Ids, bounds: tuple[int, int]) -> Numbers:
        """Value for each pair; `bounds` are above all numbers passed so far."""
        if not isinstance(second, np.ndarray):
            if self._on_device is None:
                self._on_device = DeviceMemo(namespace(second), self)
            return self._on_device(first, second, bounds)
        if self._dense is not None:
            self._fit(*bounds)
        if self._dense is None:
            return self._sparse(*np.broadcast_arrays(first, second))
        cells = np.multiply(first, self._width, dtype=np.intp) + second
        values = self._dense.take(cells)
        if np.count_nonzero(values) == values.size:  # as `all`, which takes longer for a few values
            return values
        for cell in distinct(cells[values == 0]).tolist():
            self._dense[cell] = self._compute(*divmod(cell, self._width))
        return self._dense.take(cells)

    def _fit(self, rows: int, width: int) -> None:
        """Grow the table in the direction it is too small, or give it up."""
        assert self._dense is not None
        if rows * self._width <= len(self._dense) and width <= self._width:
            return
        if rows * width > self.DENSE_CELLS:
            self._give_up()
            return
        old = self._dense.reshape(-1, self._width)
        self._width = self._width if width <= self._width else 2 * width
        grown = np.zeros((len(old) if rows <= len(old) else 2 * rows, self._width), np.int32)
        grown[: old.shape[0], : old.shape[1]] = old
        self._dense = grown.reshape(-1)

    def _give_up(self) -> None:
        assert self._dense is not None
        cells = np.flatnonzero(self._dense)
        self._store(_keys(cells // self._width, cells % self._width), self._dense[cells])
        self._dense = None

    def _sparse(self, first: Ids, second: Ids) -> Numbers:
        keys = _keys(first, second)
        numbers = self._pairs.find(keys)
        missing = np.flatnonzero(numbers < 0)
        if missing.size:
            new, where = np.unique(keys[missing], return_index=True)
            pairs = zip(
                first[missing[where]].tolist(), second[missing[where]].tolist(), strict=True
            )
            self._store(new, np.array([self._compute(*pair) for pair in pairs], np.int32))
            numbers = self._pairs.find(keys)
        return self._values.take(numbers)

    def _store(self, keys: Keys, values: Numbers) -> None:
        _, fresh = self._pairs.add(keys)
        last = self._pairs.size
        if last > len(self._values):
            self._values = np.concatenate([self._values, np.zeros(last, np.int32)])
        self._values[last - len(fresh) : last] = values[fresh]


def _keys(first: Ids, second: Ids) -> Keys:
    """Scatter each pair one to one, so that equal keys mean equal pairs."""
    return scatter_all((first.astype(np.uint64) << np.uint64(32)) | second.astype(np.uint64))
