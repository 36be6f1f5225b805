"""Numbers that no two processes ever get: each takes a block of them under a lock, whose value is the first that is free."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import coterie.sync

BLOCK = 1000  # one lock for so many; a process that ends leaves the rest of its block unused


class Ids:
    """The numbers of one thread."""

    def __init__(self, c: coterie.sync.Coordinator, name: str) -> None:
        """Use the lock of that name."""
        self._lock = c.lock(name)
        self._next = self._end = 0

    def new(self) -> int:
        """Return a number that was never returned, by any process."""
        if self._next == self._end:
            with self._lock as held:
                value = held.read()
                self._next = int(value.data) if value else 1
                self._end = self._next + BLOCK
                held.write(b"%d" % self._end)  # before any of them is used
        number, self._next = self._next, self._next + 1
        return number
