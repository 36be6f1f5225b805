"""The gate of a lock directory: one process at a time draws a number and joins a queue.

It is held for some microseconds. It is tried again and again rather than waited for, because a
thread that blocks in `flock` can be neither cancelled nor timed out.

The gate is a lock of the file `counter`, so a process that removes that file opens a second gate. A
process therefore looks, when it has joined, whether the file is still the one that it has locked. If so,
all that joined by another gate did so before it came or will do so after it, when its ticket is there to
be seen. If not, it leaves the queue and joins again.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import stat
import time
from typing import TYPE_CHECKING

from coterie.errors import ConfigError, Unavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from coterie.engines.file.directory import Directory, Folder

FIRST_PAUSE_SECONDS = 0.0005
PAUSE_SECONDS_MAX = 0.02
STUCK_AFTER_SECONDS = 10.0
COUNTER = "counter"


class Gate:
    """The gate, held by us: the open directory, and the descriptor of its file `counter`."""

    def __init__(self, path: str, folder: Folder, counter: int) -> None:
        """Keep what was opened on the way."""
        self.folder = folder
        self.counter = counter
        self._path = path

    def in_place(self) -> bool:
        """Return True if the file that we have locked is still the one in the directory."""
        try:
            found = os.lstat(self._path)
        except OSError:
            return False
        return os.path.samestat(os.fstat(self.counter), found)


@contextlib.asynccontextmanager
async def gate(directory: Directory) -> AsyncIterator[Gate]:
    """Hold the gate alone; make the directory if there is none.

    The caller must not await inside: a task that is suspended there stops all processes.
    """
    pause = FIRST_PAUSE_SECONDS
    stuck_at = time.monotonic() + STUCK_AFTER_SECONDS
    while (entered := _try(directory)) is None:
        if time.monotonic() > stuck_at:
            raise Unavailable(
                f"{directory.path / COUNTER} has been locked for {STUCK_AFTER_SECONDS:g} s, where"
                " microseconds are usual; a process was stopped at the wrong moment, and `lslocks`"
                " shows which"
            )
        await asyncio.sleep(pause)
        pause = min(2 * pause, PAUSE_SECONDS_MAX)
    try:
        yield entered
    finally:
        # A child that another thread has forked meanwhile has a copy, which would keep it locked.
        fcntl.flock(entered.counter, fcntl.LOCK_UN)
        _close(entered.folder, entered.counter)


def _try(directory: Directory) -> Gate | None:
    """Lock the file if it is free."""
    path = f"{directory.path}/{COUNTER}"
    folder, counter = directory.open(make=True), -1
    try:
        counter = _open(folder, path)
        fcntl.flock(counter, fcntl.LOCK_EX | fcntl.LOCK_NB)
        entered = Gate(path, folder, counter)
        if entered.in_place():  # else it is a file that no other process locks
            return entered
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        _close(folder, counter)
        raise
    _close(folder, counter)
    return None


def _close(folder: Folder, counter: int) -> None:
    folder.close()
    if counter >= 0:
        os.close(counter)


def _open(folder: Folder, path: str) -> int:
    """Open the file, or create it for all users of the directory."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with contextlib.suppress(FileNotFoundError):
        counter = _checked(os.open(COUNTER, flags, dir_fd=folder.descriptor), path)
        folder.sharing.mend(counter)
        return counter
    # It gets its name when it has its mode, so that no user finds it closed.
    new = f"{COUNTER}-{os.urandom(8).hex()}.new"
    counter = folder.create(new, to_write=True)
    try:
        _name(folder, new)
    except BaseException:
        os.close(counter)
        raise
    finally:
        folder.unlink(new)
    return counter


def _name(folder: Folder, new: str) -> None:
    try:
        os.link(new, COUNTER, src_dir_fd=folder.descriptor, dst_dir_fd=folder.descriptor)
    except FileExistsError:
        raise FileNotFoundError(errno.ENOENT, "made by another process", COUNTER) from None
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        # No links here. If another process has made the file meanwhile, it sees that it is replaced.
        folder.rename(new, COUNTER)


def _checked(counter: int, path: str) -> int:
    if stat.S_ISREG(os.fstat(counter).st_mode):
        return counter
    os.close(counter)
    raise ConfigError(f"{path} is not a plain file: another program, or user, has put it there")
