"""Notices of owners that wait and hold: files by which processes find out that they wait in a circle.

A notice says which wait its owner is in. It is locked as long as the process lives, and it is taken
down before the owner goes on: so a process that reads one knows that the owner is in that wait, or that it
has just been granted what it waits for; then its board says that it holds that lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import stat
import weakref
from typing import TYPE_CHECKING

import msgspec

from coterie.engines.file.directory.folder import READ
from coterie.locks.deadlocks.reports import LockOwner, LockWait, OwnerId, Wanted

if TYPE_CHECKING:
    from coterie.engines.file.directory.folder import Folder
    from coterie.engines.file.directory.program_record import ReadingLimit

UNBORN = ".new"
CONTENT_BYTES_MAX = 1 << 20


class Notice:
    """A notice of this process."""

    def __init__(self, board: Folder, owner: LockOwner) -> None:
        """Put it up at the open board."""
        self.owner = owner
        self._name = name = _name(owner.id)
        unborn = f"{name}-{os.urandom(4).hex()}{UNBORN}"
        self._lock = self._board = -1
        _notices.add(self)
        self._lock = board.create(unborn)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.write(self._lock, msgspec.json.encode(owner))
            self._board = os.dup(board.descriptor)
            # Others see it only locked, so that none takes it for that of a dead process.
            board.rename(unborn, name)
        except BaseException:
            board.unlink(unborn)
            self.take_down()
            raise

    def take_down(self) -> None:
        """Take it away; safe to do twice."""
        if self._lock < 0:
            return
        with contextlib.suppress(OSError):  # gone, or another one is in its place
            found = os.stat(self._name, dir_fd=self._board, follow_symlinks=False)
            if os.path.samestat(found, os.fstat(self._lock)):
                os.unlink(self._name, dir_fd=self._board)
        self.abandon()

    def abandon(self) -> None:
        """Close our descriptors without touching the file; forgotten first, for forked children."""
        descriptors, self._lock, self._board = (self._lock, self._board), -1, -1
        for descriptor in descriptors:
            if descriptor >= 0:
                os.close(descriptor)


def read_wait(
    board: Folder, owner: OwnerId, user: int, limit: ReadingLimit | None = None
) -> LockWait | None:
    """Read in which wait an owner is; None if it has put up no notice, or is dead, or the limit does not permit it.

    Only that user may speak for it.
    """
    try:
        notice = os.open(_name(owner), READ, dir_fd=board.descriptor)
    except OSError:
        return None
    try:
        found = os.fstat(notice)
        if found.st_uid != user or not stat.S_ISREG(found.st_mode):
            return None
        if limit is not None and not limit.permits(found):
            return None
        fcntl.flock(notice, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        content = os.read(notice, min(found.st_size, CONTENT_BYTES_MAX))
        # A notice that another version of coterie wrote says nothing to us: its owner seems to run.
        with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            wait = msgspec.json.decode(content, type=LockOwner).wait
            if (
                wait is not None
                and math.isfinite(wait.size)
                and all(map(_is_wanted, wait.condition.targets()))
            ):
                return wait
        return None
    else:
        return None
    finally:
        os.close(notice)


def sweep(board: Folder) -> None:
    """Remove the notices of the dead."""
    for name in board.names():
        if name.endswith(UNBORN):
            continue  # it may be about to be locked
        with contextlib.suppress(OSError):
            notice = os.open(name, READ, dir_fd=board.descriptor)
            try:
                fcntl.flock(notice, fcntl.LOCK_SH | fcntl.LOCK_NB)
                board.unlink(name)
            finally:
                os.close(notice)


def _is_wanted(wanted: Wanted) -> bool:
    """Return whether it can be what a program wants: no lock has a name that cannot be printed."""
    return wanted.lock.isprintable() and wanted.requester.participant.isprintable()


def _name(owner: OwnerId) -> str:
    return f"{owner.participant}-{owner.number}".replace(
        "/", ""
    )  # as another user may have written it


_notices: weakref.WeakSet[Notice] = weakref.WeakSet()


def _leave_to_parent() -> None:
    """Close what a forked child has inherited: else a notice would seem to live on in it."""
    for notice in list(_notices):
        notice.abandon()


os.register_at_fork(after_in_child=_leave_to_parent)
