"""The lock that programs on tooz see."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from tooz import locking, utils

from coterie.contrib.tooz.open_coordinator import translated

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.contrib.tooz.open_coordinator import OpenCoordinator
    from coterie.contrib.tooz.thread_hold import ThreadHold


class CoterieLock(locking.Lock):
    """The lock of that name: a program on tooz and one on coterie exclude each other."""

    def __init__(
        self, name: bytes | str, text: str, running: Callable[[], OpenCoordinator]
    ) -> None:
        """Stand for a lock; `running` finds the coordinator of its driver, which may be started later."""
        super().__init__(name)
        self._text = text
        self._running = running
        self._changing = threading.Lock()
        # Several where it was taken again in shared mode; each ends with its own coordinator.
        self._holds: list[tuple[OpenCoordinator, ThreadHold]] = []

    @property
    def acquired(self) -> bool:
        """Whether this object has taken the lock and not released it; it may have been lost since."""
        return bool(self._holds)

    def is_still_owner(self) -> bool:
        """Return whether this object holds the lock now."""
        return any(hold.valid for _, hold in self._holds)

    def acquire(
        self, blocking: bool | float = True, shared: bool = False, timeout: float | None = None
    ) -> bool:
        """Take the lock; return whether that succeeded in time. A number in `blocking` is the time to wait."""
        waits, seconds = utils.convert_blocking(blocking, timeout)
        opened = self._running()
        with translated():
            hold = opened.take(self._text, timeout=seconds if waits else 0, shared=shared)
        if hold is None:
            return False
        with self._changing:
            lost = [each for each in self._holds if not each[1].valid]
            self._holds = [each for each in self._holds if each not in lost]
            self._holds.append((opened, hold))
        for before, ended in lost:
            before.give_back(ended)
        return True

    def release(self) -> bool:
        """Give the lock back, in any thread; return False if this object did not hold it or had lost it."""
        with self._changing:
            if not self._holds:
                return False
            opened, hold = self._holds.pop()
        with translated():
            return opened.give_back(hold)
