"""The arrays the explorer works with: what they hold, where they are, and two kinds that grow.

An array is in the memory of the host or of a device, and what is computed from it stays where it is.
So the same source searches on both: it takes its functions from the `namespace` of its arrays.
Tables that Python fills are on the host; a device has copies, which follow them.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from coterie.lab.explore.tables import kernels

if TYPE_CHECKING:
    from collections.abc import Sequence

Keys: TypeAlias = npt.NDArray[np.uint64]  # hashes
Numbers: TypeAlias = npt.NDArray[
    np.int32
]  # of states (wider if there are very many), results, counts
Positions: TypeAlias = npt.NDArray[np.intp]  # places in another array
Ids: TypeAlias = npt.NDArray[Any]  # interned things, of whatever unsigned type holds them
Rows: TypeAlias = npt.NDArray[Any]  # global states: one column of this matrix each
Flags: TypeAlias = npt.NDArray[np.bool_]


NUMBERS_MAX = 1 << 31  # so many numbers fit into four bytes


def number_type(count: int) -> np.dtype[Any]:
    """Return the type for numbers below this."""
    return np.dtype(np.int32 if count <= NUMBERS_MAX else np.int64)


def namespace(array: Any) -> Any:
    """Return the module that has the functions for an array: NumPy, or CuPy for one on a device."""
    return np if isinstance(array, np.ndarray) else sys.modules["cupy"]


def on_host(array: Any) -> npt.NDArray[Any]:
    """Return the array, copied from the device if it is there."""
    here: npt.NDArray[Any] = array if isinstance(array, np.ndarray) else array.get()
    return here


def distinct(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return each value once, in order; `numpy.unique` would import its masked arrays first."""
    ordered = np.sort(values)
    first = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


class Growing:
    """An array that is appended to one value at a time and read by whole arrays of positions."""

    def __init__(self, kind: npt.DTypeLike, zeros: int = 0) -> None:
        """Start with this many zeros."""
        self._array: npt.NDArray[Any] = np.zeros(zeros, kind)
        self._new: list[int] = []
        self._copy: Any = None  # on a device, with room for more
        self._copied = 0

    def __len__(self) -> int:
        """Count the values."""
        return len(self._array) + len(self._new)

    def append(self, value: int) -> None:
        """Add one value."""
        self._new.append(value)

    @property
    def array(self) -> npt.NDArray[Any]:
        """All values so far."""
        if self._new:
            self._array = np.concatenate([self._array, np.array(self._new, self._array.dtype)])
            self._new.clear()
        return self._array

    def take(self, positions: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Read the values at these positions."""
        array = self.array if self._new else self._array
        if isinstance(positions, np.ndarray):
            return array.take(positions)
        return self.on_device(namespace(positions)).take(positions)

    def nonzero(self, positions: npt.NDArray[Any]) -> tuple[Positions, npt.NDArray[Any]]:
        """Read the values at these positions: return which of them are not 0, and what they are."""
        if isinstance(positions, np.ndarray):
            values = self.take(positions)
            chosen = np.flatnonzero(values)
            return chosen, values.take(chosen)
        xp = namespace(positions)
        return kernels.nonzero(xp, positions, self.on_device(xp))

    def union(self, positions: npt.NDArray[Any]) -> int:
        """Read the values at these positions, and unite them as sets of bits."""
        if isinstance(positions, np.ndarray):
            return int(np.bitwise_or.reduce(self.take(positions)))
        xp = namespace(positions)
        return kernels.union(xp, self.on_device(xp), positions)

    def on_device(self, xp: Any) -> Any:
        """Return the values on the device, which may be followed by zeros."""
        array = self.array
        if self._copy is None or len(self._copy) < len(array):
            self._copy = xp.zeros(max(1024, 2 * len(array)), array.dtype)
            self._copied = 0
        if self._copied < len(array):  # values are only ever appended
            self._copy[self._copied : len(array)].set(array[self._copied :])
            self._copied = len(array)
        return self._copy


class Slots:
    """A short list of numbers for each id, kept slot by slot; 0 stands for no more."""

    def __init__(self) -> None:
        """Start with no ids."""
        self.size = 0
        self.slots: list[Growing] = []

    def append(self, numbers: Sequence[int]) -> None:
        """Add the list of the next id."""
        while len(self.slots) < len(numbers):
            self.slots.append(Growing(np.int32, self.size))
        for position, slot in enumerate(self.slots):
            slot.append(numbers[position] if position < len(numbers) else 0)
        self.size += 1
