"""Our own places in queues: files that we keep locked, and pipes that break when we go.

The lock tells others whether we live; it is the truth. The pipe only wakes them: its reading end
becomes readable when the last writer has closed it or died, which an event loop can wait for.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import weakref
from typing import TYPE_CHECKING

from coterie.engines.file.place import UNBORN

if TYPE_CHECKING:
    from coterie.engines.file.place import Place


class Ticket:
    """A place in a queue that this process occupies."""

    def __init__(self, place: Place, content: bytes) -> None:
        """Join the queue at that place; only at the gate."""
        self.place = place
        unborn = place.stem.with_suffix(f".{UNBORN}")
        self._lock = os.open(unborn, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        self._pipe = -1
        _tickets.add(self)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.write(self._lock, content)
            os.mkfifo(place.pipe, 0o666)
            # For reading and writing: the writing end alone cannot be opened before a reader.
            self._pipe = os.open(place.pipe, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            # Others see the ticket only locked, so that none takes the newborn for dead.
            unborn.rename(place.path)
        except BaseException:
            with contextlib.suppress(OSError):
                unborn.unlink()
            self.drop()
            raise

    @property
    def descriptors(self) -> tuple[int, int]:
        """The locked file and the pipe."""
        return self._lock, self._pipe

    def in_place(self) -> bool:
        """Return True if the ticket is still in the queue: if not, others do not see us."""
        try:
            return os.path.samestat(self.place.path.stat(), os.fstat(self._lock))
        except OSError:
            return False

    def drop(self) -> None:
        """Leave the queue, which wakes those that wait for us; safe to do twice."""
        if self._lock < 0:
            return
        # Removed before it is unlocked: a process that is woken finds us gone.
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


_tickets: weakref.WeakSet[Ticket] = weakref.WeakSet()


def _leave_to_parent() -> None:
    """Close what a forked child has inherited: else the locks would outlive the parent in it."""
    for ticket in list(_tickets):
        ticket.abandon()


os.register_at_fork(after_in_child=_leave_to_parent)
