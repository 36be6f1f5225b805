"""A table that forgets what was not asked for lately."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable

ValueT = TypeVar("ValueT")


class Recent(Generic[ValueT]):
    """Keeps the values used last, up to a sum of their weights; several threads may use it."""

    def __init__(self, most: int) -> None:
        """Keep so much."""
        self._most = most
        self._values: dict[Hashable, tuple[ValueT, int]] = {}
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> ValueT | None:
        """Return a value, if it is still there."""
        with self._lock:
            found = self._values.pop(key, None)
            if found is None:
                return None
            self._values[key] = found
            return found[0]

    def put(self, key: Hashable, value: ValueT, weight: int = 1) -> None:
        """Keep a value, and forget the oldest ones that there is no room for; the last one stays."""
        with self._lock:
            self._values.pop(key, None)
            self._values[key] = (value, weight)
            total = sum(weight for _, weight in self._values.values())
            while total > self._most and len(self._values) > 1:
                _, forgotten = self._values.pop(next(iter(self._values)))
                total -= forgotten
