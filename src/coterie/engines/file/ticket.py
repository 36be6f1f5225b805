"""Our own places in queues: files that we keep locked, and pipes that break when we go.

The lock tells others whether we live; it is the truth. The pipe only wakes them: its reading end
becomes readable when the last writer has closed it or died, which an event loop can wait for.
"""

from __future__ import annotations

import fcntl
import os
import weakref
from typing import TYPE_CHECKING

from coterie.engines.file.place import UNBORN

if TYPE_CHECKING:
    from coterie.engines.file.directory import Folder
    from coterie.engines.file.place import Place


class Ticket:
    """A place in a queue that this process occupies."""

    def __init__(self, place: Place, content: bytes, bucket: Folder) -> None:
        """Join the queue at that place, in its open folder; only at the gate."""
        self.place = place
        self._path = str(place.path)
        self._lock = self._pipe = -1
        _tickets.add(self)
        unborn = f"{place.stem.name}.{UNBORN}"
        self._lock = bucket.create(unborn)
        try:
            self._join(bucket, unborn, content)
        except BaseException:
            bucket.unlink(unborn)
            bucket.unlink(place.pipe.name)
            self.abandon()
            raise

    def _join(self, bucket: Folder, unborn: str, content: bytes) -> None:
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(self._lock, content)
        _make_pipe(bucket, self.place)
        # For reading and writing: the writing end alone cannot be opened before a reader.
        flags = os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
        self._pipe = os.open(self.place.pipe.name, flags, dir_fd=bucket.descriptor)
        bucket.sharing.admit(self._pipe)
        # Others see the ticket only locked, so that none takes the newborn for dead.
        bucket.rename(unborn, self.place.path.name)

    @property
    def descriptors(self) -> tuple[int, int]:
        """The locked file and the pipe."""
        return self._lock, self._pipe

    def in_place(self) -> bool:
        """Return True if the ticket is still in the queue: if not, others do not see us."""
        try:
            return os.path.samestat(os.lstat(self._path), os.fstat(self._lock))
        except OSError:
            return False

    def drop(self) -> None:
        """Leave the queue, which wakes those that wait for us; safe to do twice."""
        if self._lock < 0:
            return
        # Removed before it is unlocked: a process that is woken finds us gone. If it was removed
        # before us, what has its name now is not ours.
        if self.in_place():
            self.place.remove()
        self.abandon()

    def abandon(self) -> None:
        """Close our descriptors without touching the files.

        They are forgotten first: a child forked meanwhile must not close what has their numbers then.
        """
        descriptors, self._lock, self._pipe = self.descriptors, -1, -1
        for descriptor in descriptors:
            if descriptor >= 0:
                os.close(descriptor)


def _make_pipe(bucket: Folder, place: Place) -> None:
    if os.mkfifo in os.supports_dir_fd:
        os.mkfifo(place.pipe.name, 0o666, dir_fd=bucket.descriptor)
    else:  # older versions of macOS; it fails if the name is taken, also by a link
        os.mkfifo(place.pipe, 0o666)


_tickets: weakref.WeakSet[Ticket] = weakref.WeakSet()


def _leave_to_parent() -> None:
    """Close what a forked child has inherited: else the locks would outlive the parent in it."""
    for ticket in list(_tickets):
        ticket.abandon()


os.register_at_fork(after_in_child=_leave_to_parent)
