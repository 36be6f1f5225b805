"""The arrays the explorer works with: what they hold, and two kinds that grow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Sequence

Keys: TypeAlias = npt.NDArray[np.uint64]  # hashes
Numbers: TypeAlias = npt.NDArray[np.int32]  # of states, results, counts
Positions: TypeAlias = npt.NDArray[np.intp]  # places in another array
Ids: TypeAlias = npt.NDArray[Any]  # interned things, of whatever unsigned type holds them
Rows: TypeAlias = npt.NDArray[Any]  # global states: one column of this matrix each
Flags: TypeAlias = npt.NDArray[np.bool_]


def distinct(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return each value once, in order; `numpy.unique` would import its masked arrays first."""
    ordered = np.sort(values)
    first = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


class Growing:
    """An array that is appended to one value at a time and read by whole arrays of positions."""

    def __init__(self, kind: npt.DTypeLike, zeros: int = 0) -> None:
        """Start with so many zeros."""
        self._array: npt.NDArray[Any] = np.zeros(zeros, kind)
        self._new: list[int] = []

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
        return array.take(positions)


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
