"""A place in the queue of a lock, of any process: whether its owner lives, and when it goes."""

from __future__ import annotations

import asyncio
import fcntl
import os
import stat
from typing import TYPE_CHECKING, NamedTuple

from coterie.engines.file.directory import READ, bucket_of, read_regular
from coterie.errors import Unavailable

if TYPE_CHECKING:
    from pathlib import Path

EXCLUSIVE, SHARED, PIPE, UNBORN = "x", "s", "pipe", "new"
BRIEFLY_SECONDS = 0.005
CONTENT_BYTES_MAX = 1 << 20


class Content(NamedTuple):
    """What a ticket says, and whose word that is."""

    text: bytes
    user: int  # the uid of its owner


class Place(NamedTuple):
    """A ticket in a queue."""

    stem: Path  # of its files, with the number but without a suffix
    number: int
    shared: bool

    @property
    def path(self) -> Path:
        """The file that its owner keeps locked."""
        return self.stem.with_name(f"{self.stem.name}.{SHARED if self.shared else EXCLUSIVE}")

    @property
    def pipe(self) -> Path:
        """The pipe that breaks when its owner goes."""
        return self.stem.with_name(f"{self.stem.name}.{PIPE}")

    def content(self) -> Content | None:
        """Read what the owner wrote; None if it is gone or dead, or if this is no ticket."""
        try:
            ticket = read_regular(self.path)
        except FileNotFoundError:
            return None
        try:
            # In shared mode, so that two processes that look at once do not take each other for the owner.
            fcntl.flock(ticket, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            found = os.fstat(ticket)
            return Content(os.read(ticket, min(found.st_size, CONTENT_BYTES_MAX)), found.st_uid)
        else:
            return None
        finally:
            os.close(ticket)

    def remove(self) -> None:
        """Take its files out of the queue."""
        try:
            with bucket_of(self.stem) as bucket:
                for kind in (SHARED if self.shared else EXCLUSIVE, PIPE):
                    bucket.unlink(f"{self.stem.name}.{kind}")
        except (OSError, Unavailable):
            pass  # the folder is gone, or is none: there is nothing of ours to remove

    async def wait(self, limit: float) -> None:
        """Wait until the owner goes, `limit` seconds at most; may return early, so look again."""
        try:
            pipe = os.open(self.pipe, READ)
        except OSError:  # gone, a link, or closed to us
            await asyncio.sleep(BRIEFLY_SECONDS)
            return
        try:
            if stat.S_ISFIFO(os.fstat(pipe).st_mode):
                await _broken(pipe, limit)
            else:
                await asyncio.sleep(BRIEFLY_SECONDS)
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
