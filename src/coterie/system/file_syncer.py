"""Puts a file on the disk: at once where that is short, and else in a thread while the event loop goes on.

A thread costs as much CPU as the sync of a quick disk: two wake-ups, and a byte through a pipe. So the
event loop waits itself as long as syncs are short and it has been idle for longer than that. A program
with much to do uses that time better, and a slow disk would keep it from its heartbeats.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from queue import SimpleQueue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

SHORT_SECONDS = 0.002  # after a sync that takes longer, the thread has the next
SHORT_IN_A_ROW = 4  # syncs of the thread, before the event loop waits itself again
CREDIT_SECONDS_MAX = 0.01  # of idle time that the event loop has saved up to wait for the disk


class FileSyncer:
    """Syncs one file at a time for one event loop; the thread starts when it is first needed."""

    def __init__(self) -> None:
        """Begin with nothing under way."""
        self._queue: SimpleQueue[tuple[int, asyncio.AbstractEventLoop] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._done: Callable[[OSError | None], None] | None = None  # None: nothing is under way
        self._is_over = threading.Event()
        self._error: OSError | None = None
        self._seconds = 0.0  # that the last sync of the thread took
        self._tests = 0  # syncs that have to be short until the event loop waits itself again
        self._credit = CREDIT_SECONDS_MAX  # that it may wait now
        self._idle_since = 0.0
        self._busy_before = 0.0  # CPU seconds of the event loop until then

    def begin(self, descriptor: int, done: Callable[[OSError | None], None]) -> None:
        """Sync a file, which stays open until `done` has heard on the event loop how it went.

        That may be before this returns.
        """
        assert self._done is None, "one sync at a time"
        loop = asyncio.get_running_loop()
        now = loop.time()
        # A machine that others keep busy counts as idle time as well: there a thread costs most.
        busy = time.thread_time()
        idle = (now - self._idle_since) - (busy - self._busy_before)
        self._credit = min(self._credit + idle, CREDIT_SECONDS_MAX)
        self._idle_since, self._busy_before = now, busy
        if self._tests or self._credit <= 0:
            self._begin_in_thread(descriptor, loop, done)
            return
        error = _sync(descriptor)
        self._idle_since = loop.time()
        seconds = self._idle_since - now
        self._credit -= seconds
        self._judge(seconds)
        done(error)

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

    def _judge(self, seconds: float) -> None:
        if seconds > SHORT_SECONDS:
            self._tests = SHORT_IN_A_ROW
        elif self._tests:
            self._tests -= 1

    def _begin_in_thread(
        self,
        descriptor: int,
        loop: asyncio.AbstractEventLoop,
        done: Callable[[OSError | None], None],
    ) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="coterie sync", daemon=True)
            self._thread.start()
        self._done = done
        self._is_over.clear()
        self._queue.put((descriptor, loop))

    def _work(self) -> None:
        while (work := self._queue.get()) is not None:
            descriptor, loop = work
            began = loop.time()
            self._error = _sync(descriptor)
            self._seconds = loop.time() - began
            self._is_over.set()
            with contextlib.suppress(RuntimeError):  # the loop has ended, and none waits for it
                loop.call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
        """Tell how it went, unless one who blocked for it has done so, and another one is under way."""
        if self._done is not None and self._is_over.is_set():
            done, self._done = self._done, None
            self._judge(self._seconds)
            done(self._error)


def _sync(descriptor: int) -> OSError | None:
    try:
        os.fsync(descriptor)
    except OSError as error:
        return error
    return None
