"""The queue of a lock: the order in which those are served that have to wait.

It is a file that is made for the first that has to wait. A waiter appends a record, which
the system does for one process after the other, and the offset of the record is its place. It keeps the
byte at its place locked as long as it waits, alone or in shared mode as it wants the lock. So whether a
waiter may go to the lock is one question to the kernel: is a byte before its own locked in a way that
does not share with it? Places of the dead are not locked, and hold no waiter up.

Argument for the order. Let A have its place locked before B looks at the queue for the first time. Then
B's place is behind A's, since A appended before. B asks the kernel about all places before its own when it
looks, finds that of A as long as A waits, and does not try the lock. A task that has not joined does not
try the lock either once it sees that some task waits (`lock_file.py`). So A is served first, or leaves.

The queue is removed, or emptied where its file is of another user, when a program ends that has used it,
or when it has become long, if no task waits: that takes the waiters' byte alone, which every waiter shares
from before it opens the file until it has left the queue. While tasks wait without a pause the file grows by
a record each time, but the space of places that are long past is given back (`give_back`). So no waiter ever stands in a file that is not the queue any more, unless a user or a
program other than coterie removes it: then those in it still enter one at a time, since the lock itself
is the byte in `words`, and find out within a second that none is before them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import struct
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

from coterie.engines.file.directory import byte_lock
from coterie.engines.file.directory.folder import LINES, PAUSE_SECONDS, read_quietly

if TYPE_CHECKING:
    from coterie.engines.file.directory.folder import Folder

OPEN = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
READ_QUEUE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
RECORD = struct.Struct("<QQQ8x")  # the program, its request, and the bell that wakes it
OPEN_TRIES = 100
PLACES_LOOKED_AT_MAX = 256
FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE = 1, 2


class QueuedWaiter(NamedTuple):
    """What the record at a place says."""

    program: int
    request: int
    bell: int = 0  # 0 is the bell of the program, others are those of its threads


class WaitQueue:
    """The queue of a lock, opened for one handle, and the place in it that the handle occupies if it waits.

    It stays open for the next wait: programs that meet at a lock meet there again.
    """

    __slots__ = ("_before", "_descriptor", "_folder", "_inode", "_kind", "name", "position")

    def __init__(self, queues: Folder, name: str) -> None:
        """Open the queue of that name, or make it."""
        self.name = name
        self.position: int | None = None  # of our place, while we wait
        self._kind = byte_lock.ALONE
        self._before = b""  # asks for all places before ours
        self._folder = queues.descriptor
        descriptor, found = _open(queues, name)
        self._descriptor = read_quietly(descriptor)
        self._inode = found.st_ino

    def is_in_place(self) -> bool:
        """Return True if the file is still the one of that name.

        It stays so as long as the caller shares the waiters' byte.
        """
        try:
            found = os.stat(self.name, dir_fd=self._folder, follow_symlinks=False)
        except OSError:
            return False
        return found.st_ino == self._inode  # not used again for another file while ours is open

    def join(self, program: int, request: int, bell: int, *, shared: bool) -> int:
        """Take the last place and return it.

        The caller shares the waiters' byte, and the file is in its place.
        """
        descriptor = self._descriptor
        os.write(descriptor, RECORD.pack(program, request, bell))
        # Where our own write has ended, whatever others have appended since.
        position = os.lseek(descriptor, 0, os.SEEK_CUR) - RECORD.size
        kind = self._kind = byte_lock.SHARED if shared else byte_lock.ALONE
        self._before = byte_lock.request(kind, 0, position)
        try:
            byte_lock.call(descriptor, byte_lock.SET, byte_lock.request(kind, position))
            self.position = position  # not before: one that is not locked yet can be overtaken
        except BaseException:
            byte_lock.attempt(descriptor, _UNLOCK_ALL)
            raise
        return position

    def is_next(self) -> bool:
        """Return True if no waiter is before us, or only such as we share with."""
        # A range of no length, before the first place, would be one without an end.
        return not self.position or not byte_lock.blocked(self._descriptor, self._before)

    def give_back(self, margin: int) -> None:
        """Give the space of old places back; only for one that has had its turn alone.

        No waiter is before such a one. But another may have appended its record and not locked it yet.
        If its record is given back, it is not rung for, and finds out by itself within a second that
        it is its turn. So places within the margin before ours are kept.
        """
        if self.position is not None and self.position > margin:
            _punch_hole(self._descriptor, self.position - margin)

    def predecessor(self) -> QueuedWaiter | None:
        """Return the nearest waiter before us, of either mode; None if there is none."""
        if self.position is None:
            return None
        nearest = self.position - RECORD.size
        if not self._is_taken(nearest):
            found, low = None, 0
            # So many, since another user may lock any number of places. One before the nearest does as well:
            # when it has gone, we look again.
            for _ in range(PLACES_LOOKED_AT_MAX):
                if (low_one := self._obstacle(low)) is None:
                    break
                found, low = low_one, low_one + 1
            if found is None:
                return None
            nearest = found
        return _read(self._descriptor, nearest)

    def first(self, likely: int | None = None) -> QueuedWaiter | None:
        """Return the first waiter, if there is one.

        One at the `likely` place is taken for the first without asking again whether any is before it.
        """
        found = byte_lock.found(self._descriptor, _ALL_PLACES)
        if found is None:
            return None
        if found == likely:
            return _read(self._descriptor, found)
        return first_waiter(self._descriptor, 0)

    def obstacle(self) -> QueuedWaiter | None:
        """Return one before us that we do not share with, if there is any."""
        found = byte_lock.obstacle(self._descriptor, self._kind, 0, self.position or 0)
        return None if found is None else _read(self._descriptor, found)

    def leave(self, *, look_back: bool = True) -> QueuedWaiter | None:
        """Leave our place; return the first waiter after us unless told not to `look_back`.

        Safe to do twice.
        """
        position, self.position = self.position, None
        if position is None or self._descriptor < 0:
            return None
        # Before we look: one that joins later no longer sees us, and does not need to be told.
        byte_lock.attempt(self._descriptor, _UNLOCK_ALL)
        return first_waiter(self._descriptor, position) if look_back else None

    def close(self) -> None:
        """Close the file without unlocking anything, as a forked child does; safe to do twice.

        The descriptor is forgotten first, for a child that is forked meanwhile.
        """
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _is_taken(self, position: int) -> bool:
        if position < 0:
            return False
        wanted = byte_lock.request(byte_lock.ALONE, position)
        return byte_lock.blocked(self._descriptor, wanted)

    def _obstacle(self, low: int) -> int | None:
        return byte_lock.obstacle(self._descriptor, byte_lock.ALONE, low, self.position)


def first_in(queues: Folder, name: str) -> QueuedWaiter | None:
    """Return the first waiter in the queue of that name, if there is one."""
    try:
        descriptor = os.open(name, READ_QUEUE, dir_fd=queues.descriptor)
    except OSError:  # there is no queue any more, or no file is in its place
        return None
    try:
        return first_waiter(descriptor, 0)
    finally:
        os.close(descriptor)


def first_waiter(descriptor: int, start: int) -> QueuedWaiter | None:
    """Return the first waiter of an open queue at or after an offset, if there is one."""
    first = byte_lock.obstacle(descriptor, byte_lock.ALONE, start, None)
    if first is None:
        return None
    # The kernel names a lock in the range, not always the first of them. One that is rung before its turn rings
    # the first.
    for _ in range(PLACES_LOOKED_AT_MAX):
        before = byte_lock.obstacle(descriptor, byte_lock.ALONE, start, first)
        if before is None:
            break
        first = before
    return _read(descriptor, first)


def remove(queues: Folder, name: str) -> None:
    """Remove the queue; only with the waiters' byte taken alone."""
    try:
        os.unlink(name, dir_fd=queues.descriptor)
    except (FileNotFoundError, IsADirectoryError):
        pass
    except PermissionError:  # of another user
        with contextlib.suppress(OSError):
            descriptor = os.open(name, OPEN, dir_fd=queues.descriptor)
            try:
                if not queues.sharing.objection(os.fstat(descriptor)):
                    os.ftruncate(descriptor, 0)
            finally:
                os.close(descriptor)


def _read(descriptor: int, position: int) -> QueuedWaiter | None:
    try:
        content = os.pread(descriptor, RECORD.size, position)
    except OSError:  # another user has locked a byte where no file reaches
        return None
    return QueuedWaiter(*RECORD.unpack(content)) if len(content) == RECORD.size else None


def _open(queues: Folder, name: str) -> tuple[int, os.stat_result]:
    """Open the queue, or make it for all users of the directory."""
    reason = ""
    for _ in range(OPEN_TRIES):
        try:
            descriptor = os.open(name, OPEN, dir_fd=queues.descriptor)
        except FileNotFoundError:
            with contextlib.suppress(FileExistsError):
                os.close(queues.create(name, to_write=True))
            continue
        except PermissionError:  # made by another user a moment ago, and not yet opened to us
            time.sleep(PAUSE_SECONDS)
            continue
        found = os.fstat(descriptor)
        reason = queues.sharing.objection(found)
        if not reason:
            return descriptor, found
        os.close(descriptor)
        time.sleep(PAUSE_SECONDS)  # it may just be made
    if reason:
        raise OSError(
            errno.EINVAL, f"{LINES}/{name} {reason}; remove it when no task waits for the lock"
        )
    descriptor = os.open(name, OPEN, dir_fd=queues.descriptor)
    return descriptor, os.fstat(descriptor)


def _punch_hole(descriptor: int, end: int) -> None:
    """Let the bytes up to `end` read as zeros and take no space, where the system can do that.

    Linux can, on its own file systems. Elsewhere nothing happens: the file just keeps its space.
    """
    if sys.platform != "linux":
        return
    import ctypes  # noqa: PLC0415 - most programs never come to this

    if ctypes.sizeof(ctypes.c_long) != 8:  # the offsets below
        return
    length = ctypes.c_long(end)
    mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE
    ctypes.CDLL(None).fallocate(descriptor, mode, ctypes.c_long(0), length)


_UNLOCK_ALL = byte_lock.request(byte_lock.FREE, 0, 0)
_ALL_PLACES = byte_lock.request(byte_lock.ALONE, 0, 0)
