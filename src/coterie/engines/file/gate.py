"""The gate of a lock directory: one process at a time draws a number and joins a queue.

It is held for some microseconds. It is tried again and again rather than waited for, because a
thread that blocks in `flock` can be neither cancelled nor timed out.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import time
from typing import TYPE_CHECKING

from coterie.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

FIRST_PAUSE_SECONDS = 0.0005
PAUSE_SECONDS_MAX = 0.02
STUCK_AFTER_SECONDS = 10.0


@contextlib.asynccontextmanager
async def gate(folder: Path) -> AsyncIterator[int]:
    """Hold the gate alone; yield the descriptor of the file `counter`.

    The caller must not await inside: a task that is suspended there stops all processes.
    """
    path = folder / "counter"
    pause = FIRST_PAUSE_SECONDS
    stuck_at = time.monotonic() + STUCK_AFTER_SECONDS
    while (counter := _try(path)) is None:
        if time.monotonic() > stuck_at:
            raise Unavailable(
                f"{path} has been locked for {STUCK_AFTER_SECONDS:g} s, where microseconds are usual;"
                " a process was stopped at the wrong moment, and `lslocks` shows which"
            )
        await asyncio.sleep(pause)
        pause = min(2 * pause, PAUSE_SECONDS_MAX)
    try:
        yield counter
    finally:
        # A child that another thread has forked meanwhile has a copy, which would keep it locked.
        fcntl.flock(counter, fcntl.LOCK_UN)
        os.close(counter)


def _try(path: Path) -> int | None:
    """Lock the file if it is free; return its descriptor."""
    counter = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(counter, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # If the directory was removed meanwhile, ours is a file that no other process locks.
        if os.path.samestat(os.fstat(counter), path.stat()):
            return counter
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(counter)
        raise
    os.close(counter)
    return None
