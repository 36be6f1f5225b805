"""Named pipes of programs: one that breaks when its program ends, and one by which it is woken.

The life of a program is a pipe that it keeps open for writing; readers of it are woken when the last
writer has closed it or died, which an event loop can wait for. The bell of a program is a pipe that it
reads; each message in it names a request that should look again whether it may enter. Nothing but
promptness rests on either: a waiter looks again once a second in any case.
"""

from __future__ import annotations

import os
import stat
import struct
from _thread import allocate_lock
from contextlib import suppress
from select import POLLIN, poll
from typing import TYPE_CHECKING

from coterie.engines.file.directory.folder import CLOSED_FILE, Sharing, exchanged, read_quietly

if TYPE_CHECKING:
    from coterie.engines.file.directory.folder import Folder

LIFE, BELL = "life", "bell"
ORDERS = -1  # the number of the bell that tells of orders; those of threads begin at 1
KEEP = os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
READ_END = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
WRITE_END = os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
MESSAGE = struct.Struct("<Q")
RINGS_AT_ONCE = 512
THREAD_RINGS_AT_ONCE = 32  # there is one, most often, and a small buffer costs less


def make_pipe(boards: Folder, path: str, name: str) -> int:
    """Make a pipe in the folder of that path, and keep it open for reading and writing.

    For both: the writing end alone cannot be opened before a reader.
    """
    sharing = boards.sharing
    with boards.workshop(sharing) as shop:
        if os.mkfifo in os.supports_dir_fd:
            os.mkfifo(name, CLOSED_FILE, dir_fd=shop)
        else:  # older versions of macOS; it fails if the name is taken, also by a link
            os.mkfifo(f"{path}/{name}", CLOSED_FILE)
            shop = boards.descriptor  # noqa: PLW2901
        descriptor = _open_made(name, shop)
        try:
            sharing.admit(descriptor, to_write=name.endswith(BELL))
            if shop != boards.descriptor:
                os.rename(name, name, src_dir_fd=shop, dst_dir_fd=boards.descriptor)
        except BaseException:
            os.close(descriptor)
            raise
    return read_quietly(descriptor)


def _open_made(name: str, folder: int) -> int:
    descriptor = os.open(name, KEEP, dir_fd=folder)
    found = os.fstat(descriptor)
    if stat.S_ISFIFO(found.st_mode) and found.st_uid == os.geteuid():
        return descriptor
    os.close(descriptor)
    raise exchanged(name)


def bell_name(program: int, bell: int) -> str:
    """Name a bell: that of a program is 0, that of its orders is `ORDERS`, its threads have other numbers."""
    if bell == ORDERS:
        return f"{program:016x}-orders.{BELL}"
    return f"{program:016x}-{bell}.{BELL}" if bell else f"{program:016x}.{BELL}"


def lent(program: int, life: int) -> str:
    """Name the life of a handle that was lent."""
    return f"{program:016x}-{life:015x}"


def open_life(boards: int, name: str) -> int | None:
    """Open the life of another program to be watched; None if it has ended, or is none of ours."""
    try:
        descriptor = os.open(f"{name}.{LIFE}", READ_END, dir_fd=boards)
    except OSError:  # gone, a link, or closed to us
        return None
    try:
        if stat.S_ISFIFO(os.fstat(descriptor).st_mode) and has_writer(descriptor):
            return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return None


def has_writer(descriptor: int) -> bool:
    """Return True if the pipe can still break: a reader that opens it too late is never woken."""
    try:
        os.read(descriptor, 1)
    except BlockingIOError:
        return True
    return False


class Bells:
    """The bells of other programs, kept open as long as they are used; any thread may ring."""

    OPEN_MAX = 64

    def __init__(self, boards: int) -> None:
        """Look for them in that open folder."""
        self._boards = boards
        self._open: dict[tuple[int, int], int] = {}
        self._guard = allocate_lock()

    def ring(self, program: int, request: int, bell: int) -> None:
        """Let a request of a program look again; one that has ended does not mind."""
        key = (program, bell)
        with self._guard:
            descriptor = self._open.pop(key, None)
            if descriptor is None:
                descriptor = self._find(bell_name(program, bell))
            if descriptor is None:
                return
            try:
                os.write(descriptor, MESSAGE.pack(request))
            except BlockingIOError:
                pass  # it has been rung some thousand times, and will look again by itself
            except OSError:  # it has ended
                os.close(descriptor)
                return
            self._open[key] = descriptor
            if len(self._open) > self.OPEN_MAX:
                os.close(self._open.pop(next(iter(self._open))))

    def close(self) -> None:
        """Close all; forgotten first, for a child that is forked meanwhile."""
        descriptors, self._open = self._open, {}
        for descriptor in descriptors.values():
            os.close(descriptor)

    def _find(self, name: str) -> int | None:
        try:
            descriptor = os.open(name, WRITE_END, dir_fd=self._boards)
        except OSError:  # it has ended, or has never waited
            return None
        # What is no pipe is nothing that we write to, nor is a pipe that was closed to others.
        found = os.fstat(descriptor)
        if stat.S_ISFIFO(found.st_mode) and Sharing.of(self._boards).opens(found):
            return descriptor
        os.close(descriptor)
        return None


class ThreadBell:
    """The bell of one thread, which sleeps until it is rung, or a program that it watches ends."""

    __slots__ = ("__weakref__", "_descriptor", "_life", "_poll", "number")

    def __init__(self, descriptor: int, number: int) -> None:
        """Use that pipe, which others find by the number."""
        self.number = number
        self._descriptor = descriptor
        self._life = -1  # of the program that is watched
        self._poll = poll()
        self._poll.register(descriptor, POLLIN)

    def __del__(self) -> None:
        """Close what no thread has any more."""
        self.close()

    def sleep(self, seconds: float) -> tuple[bool, bool]:
        """Sleep for this many seconds, or until it is rung or what is watched ends: return which of both."""
        rung = ended = False
        # Rounded up: a thread that wakes too early would look once more for nothing.
        for descriptor, _ in self._poll.poll(int(seconds * 1000) + 1):
            if descriptor == self._descriptor:
                rung = True
                try:
                    os.read(descriptor, THREAD_RINGS_AT_ONCE * MESSAGE.size)
                except BlockingIOError:  # nothing after all
                    rung = False
            else:
                ended = True
        return rung, ended

    def wake(self) -> None:
        """Wake the thread that sleeps; in any other thread."""
        with suppress(OSError):  # it has been rung some thousand times, or has just been closed
            os.write(self._descriptor, MESSAGE.pack(0))

    def watch(self, life: int) -> None:
        """Wake up when that pipe breaks; it is closed when another is watched, or none."""
        self.stop_watching()
        self._life = life
        self._poll.register(life, 0)  # the end of a pipe is told in any case

    def stop_watching(self) -> None:
        """Watch nothing."""
        life, self._life = self._life, -1
        if life >= 0:
            self._poll.unregister(life)
            os.close(life)

    def close(self) -> None:
        """Close the pipes; safe to do twice."""
        descriptors, self._descriptor, self._life = (self._descriptor, self._life), -1, -1
        for descriptor in descriptors:
            if descriptor >= 0:
                os.close(descriptor)
