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


class Growing:
    """An array that is appended to one value at a time and read by whole arrays of positions."""

    def __init__(self, kind: npt.DTypeLike) -> None:
        """Start empty."""
        self.size = 0
        self.array: npt.NDArray[Any] = np.zeros(64, kind)

    def append(self, value: int) -> None:
        """Add one value."""
        if self.size == len(self.array):
            self.array = np.concatenate([self.array, np.zeros_like(self.array)])
        self.array[self.size] = value
        self.size += 1

    def take(self, positions: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Read the values at these positions."""
        return self.array.take(positions)


class Slots:
    """A short list of numbers for each id, kept slot by slot; 0 stands for no more."""

    def __init__(self) -> None:
        """Start with no ids."""
        self.size = 0
        self.slots: list[Growing] = []

    def append(self, numbers: Sequence[int]) -> None:
        """Give the next id its list."""
        while len(self.slots) < len(numbers):
            slot = Growing(np.int32)
            slot.array, slot.size = np.zeros(max(64, self.size), np.int32), self.size
            self.slots.append(slot)
        for position, slot in enumerate(self.slots):
            slot.append(numbers[position] if position < len(numbers) else 0)
        self.size += 1
