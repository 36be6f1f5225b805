"""Notices of owners that wait and hold: files by which processes find out that they wait in a circle.

A notice says which wait its owner is in. It is locked as long as the process lives, and it is taken
down before the owner goes on: so a process that reads one knows that the owner is in that wait, or that it
has just been granted what it waits for; then its ticket is the first in that queue.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import weakref
from typing import TYPE_CHECKING

import msgspec

from coterie.deadlock.service.lock_waits import LockOwner, LockWait, OwnerId

if TYPE_CHECKING:
    from pathlib import Path


UNBORN = ".new"


class Notice:
    """A notice of this process."""

    def __init__(self, board: Path, owner: LockOwner) -> None:
        """Put it up."""
        self.owner = owner
        self._path = _place(board, owner.id)
        unborn = self._path.with_suffix(UNBORN)
        self._lock = os.open(unborn, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        _notices.add(self)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.write(self._lock, msgspec.json.encode(owner))
            # Others see it only locked, so that none takes it for that of a dead process.
            unborn.rename(self._path)
        except BaseException:
            self.take_down()
            raise

    def take_down(self) -> None:
        """Take it away; safe to do twice."""
        if self._lock < 0:
            return
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()
        self.abandon()

    def abandon(self) -> None:
        """Close our descriptor without touching the file; forgotten first, for forked children."""
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)


def read_wait(board: Path, owner: OwnerId) -> LockWait | None:
    """Read in which wait an owner is; None if it has put up no notice, or is dead."""
    try:
        notice = os.open(_place(board, owner), os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        return None
    try:
        fcntl.flock(notice, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        content = os.read(notice, os.fstat(notice).st_size)
        # A notice that another version of coterie wrote says nothing to us: its owner seems to run.
        with contextlib.suppress(msgspec.MsgspecError):
            return msgspec.json.decode(content, type=LockOwner).wait
        return None
    else:
        return None
    finally:
        os.close(notice)


def sweep(board: Path) -> None:
    """Remove the notices of the dead."""
    for path in board.iterdir():
        if path.suffix == UNBORN:
            continue  # it may be about to be locked
        with contextlib.suppress(OSError), path.open("rb") as notice:
            fcntl.flock(notice, fcntl.LOCK_SH | fcntl.LOCK_NB)
            path.unlink()


def _place(board: Path, owner: OwnerId) -> Path:
    return board / f"{owner.participant}-{owner.number}"


_notices: weakref.WeakSet[Notice] = weakref.WeakSet()


def _leave_to_parent() -> None:
    """Close what a forked child has inherited: else a notice would seem to live on in it."""
    for notice in list(_notices):
        notice.abandon()


os.register_at_fork(after_in_child=_leave_to_parent)
