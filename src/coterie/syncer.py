"""Puts a file on the disk while its event loop goes on: in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class ThreadSyncer:
    """Syncs one file at a time for one event loop; the thread starts with the first of them."""

    def __init__(self) -> None:
        """Begin with nothing under way."""
        self._queue: SimpleQueue[tuple[int, asyncio.AbstractEventLoop] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._done: Callable[[OSError | None], None] | None = None  # None: nothing is under way
        self._is_over = threading.Event()
        self._error: OSError | None = None

    def begin(self, descriptor: int, done: Callable[[OSError | None], None]) -> None:
        """Sync a file, which stays open until `done` has heard on the event loop how it went."""
        assert self._done is None, "one sync at a time"
        loop = asyncio.get_running_loop()
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="coterie sync", daemon=True)
            self._thread.start()
        self._done = done
        self._is_over.clear()
        self._queue.put((descriptor, loop))

    def wait(self) -> None:
        """Block until what is under way is over, and has been told."""
        if self._done is not None:
            self._is_over.wait()
            self._tell()

    def close(self) -> None:
        """End the thread, after what is under way."""
        self.wait()
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None

    def _work(self) -> None:
        while (work := self._queue.get()) is not None:
            descriptor, loop = work
            try:
                os.fsync(descriptor)
            except OSError as error:
                self._error = error
            else:
                self._error = None
            self._is_over.set()
            with contextlib.suppress(RuntimeError):  # the loop has ended, and none waits for it
                loop.call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
        """Tell how it went, unless one who blocked for it has done so, and another one is under way."""
        if self._done is not None and self._is_over.is_set():
            done, self._done = self._done, None
            done(self._error)
