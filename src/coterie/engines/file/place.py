"""A place in the queue of a lock, of any process: whether its owner lives, and when it goes."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

EXCLUSIVE, SHARED, PIPE, UNBORN = "x", "s", "pipe", "new"
BRIEFLY_SECONDS = 0.005


class Place(NamedTuple):
    """A ticket in a queue."""

    stem: Path  # of its files, with the number but without a suffix
    number: int
    shared: bool

    @property
    def path(self) -> Path:
        """The file that its owner keeps locked."""
        return self.stem.with_suffix(f".{SHARED if self.shared else EXCLUSIVE}")

    @property
    def pipe(self) -> Path:
        """The pipe that breaks when its owner goes."""
        return self.stem.with_suffix(f".{PIPE}")

    def content(self) -> bytes | None:
        """Read what the owner wrote; None if it is gone or dead."""
        try:
            ticket = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            # In shared mode, so that two processes that look at once do not take each other for the owner.
            fcntl.flock(ticket, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return os.read(ticket, os.fstat(ticket).st_size)
        else:
            return None
        finally:
            os.close(ticket)

    def remove(self) -> None:
        """Take its files out of the queue."""
        for path in (self.path, self.pipe):
            # Another may do so at the same time, or the file may be of another user.
            with contextlib.suppress(FileNotFoundError, PermissionError):
                path.unlink()

    async def wait(self, limit: float) -> None:
        """Wait until the owner goes, `limit` seconds at most; may return early, so look again."""
        try:
            pipe = os.open(self.pipe, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            await asyncio.sleep(BRIEFLY_SECONDS)
            return
        try:
            await _broken(pipe, limit)
        finally:
            os.close(pipe)


async def _broken(pipe: int, limit: float) -> None:
    if not _has_writer(pipe):
        await asyncio.sleep(BRIEFLY_SECONDS)
        return
    loop = asyncio.get_running_loop()
    broken = asyncio.Event()
    loop.add_reader(pipe, broken.set)
    try:
        async with asyncio.timeout(limit):
            await broken.wait()
    except TimeoutError:
        pass
    finally:
        loop.remove_reader(pipe)


def _has_writer(pipe: int) -> bool:
    """Return True if the pipe can still break: a reader that opens it too late is never woken."""
    try:
        os.read(pipe, 1)
    except BlockingIOError:
        return True
    return False
