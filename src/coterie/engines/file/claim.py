"""A claim to a lock of the directory: taken at once, or after having waited in its queue."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from coterie.engines.file.directory.lock_file import ReplacedError
from coterie.errors import CoterieError, MisuseError
from coterie.locks.deadlocks.reports import Wanted

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from coterie.engines.file.directory.lock_file import LockBytes, LockDirectory, LockHandle
    from coterie.engines.file.engine import FileEngine
    from coterie.engines.file.waiters import Waiters
    from coterie.locks.lock import Owner

JOIN_AGAIN_SECONDS = 0.001
FIRST_PAUSE_SECONDS, PAUSE_SECONDS_MAX = 0.005, 1.0


class FileClaim:
    """One request of this process for one lock.

    One that is granted at once needs no event loop: what only a wait or a loss needs is made then.
    """

    __slots__ = (
        "_engine",
        "_granted",
        "_handle",
        "_loss",
        "_lost",
        "_note",
        "_on_loss",
        "_wait",
        "lock",
        "owner",
        "shared",
        "token",
    )
    wakes_at_once = True  # a loss is seen by looking, at times of its own: no grant waits for that

    def __init__(
        self,
        engine: FileEngine,
        handle: LockHandle | None,
        name: str,
        owner: Owner,
        *,
        shared: bool,
        token: int | None = None,
    ) -> None:
        """Take over a handle that holds the lock already, or one that is to wait; or none."""
        self.owner = owner
        self.lock = name
        self.shared = shared
        self.token = token
        self._engine = engine
        self._handle = handle
        self._granted: asyncio.Future[int | None] | None = None
        self._lost: asyncio.Future[str] | None = None
        self._loss = ""
        self._note = b""
        self._on_loss: Callable[[], object] | None = None
        self._wait: QueuedWait | None = None

    @property
    def expires_at(self) -> float:
        """Infinite: there is no lease."""
        return math.inf

    @property
    def awaits(self) -> Wanted:
        """What it waits for, as deadlock detection sees it."""
        return Wanted(self.lock, self.shared)

    @property
    def granted(self) -> asyncio.Future[int | None]:
        """Becomes the token; None if there is nothing to wait for."""
        if self._granted is None:
            self._granted = self._engine.loop.create_future()
            if self.token is not None or self._handle is None:
                self._granted.set_result(self.token)
        return self._granted

    @property
    def lost(self) -> asyncio.Future[str]:
        """Becomes the reason when the file `words` is removed under the hold."""
        if self._lost is None:
            self._lost = self._engine.loop.create_future()
            if self._loss:
                self._lost.set_result(self._loss)
            else:
                self._engine.watch_for_loss(self)
        return self._lost

    @property
    def lifelines(self) -> tuple[int, ...]:
        """The descriptor that holds the lock, and a pipe that breaks when all copies are closed."""
        return () if self._handle is None or self.token is None else self._handle.lend()

    @property
    def directory(self) -> LockDirectory | None:
        """The open directory in which it has a handle."""
        return None if self._handle is None else self._handle.directory

    def annotate(self, note: str) -> None:
        """Let others read a note as long as the claim is granted."""
        self._note = note.encode()
        if self._handle is not None:
            self._handle.annotate(self._note)

    def valid(self) -> bool:
        """Return True if the lock is ours: entered, and its file still there for all to see."""
        handle = self._handle  # another thread may end the claim meanwhile
        if handle is None or self.token is None or self._loss:
            return False
        return handle.directory.in_place()

    @property
    def stands(self) -> bool:
        """Whether it has a place in the queue of its lock: whatever asks from now on comes later."""
        return self._handle is not None and self._handle.position is not None

    def holds(self) -> bool:
        """Return True if the lock was granted and no loss of it has been noticed."""
        return self.token is not None and self._handle is not None and not self._loss

    def obstacle(self) -> None:
        """Return None: nothing but a holder ever blocks a claim."""

    def release(self) -> None:
        """Give the lock back, or leave the queue; any thread may give back what it holds."""
        if not self._engine.forget(self):
            return
        self._on_loss = None
        handle, self._handle = self._handle, None
        if handle is None:
            return
        if self.token is not None:
            handle.release()
        else:
            self._stop_waiting(handle)
            if self._granted is not None:
                self._granted.cancel()
        handle.directory.give(handle)

    def fail(self, error: Exception) -> None:
        """Give up waiting with this error."""
        if not self.granted.done():
            self.granted.set_exception(error)
        self.release()

    def lose(self, reason: str) -> None:
        """Take note that the hold is lost."""
        self._loss = reason
        if self._lost is not None and not self._lost.done():
            self._lost.set_result(reason)
        if self._on_loss is not None:
            self._engine.loop.call_soon(self._on_loss)

    def revoke(self, reason: str) -> bool:
        """End the hold, as an operator wants it, although its task goes on; False if it has just ended.

        A lock that a child may keep goes back when that has ended.
        """
        handle = self._handle
        if handle is None or self.token is None or self._loss:
            return False
        if handle.is_lent:
            self.lose(reason)
            handle.note_end()
            return True
        if not self._engine.forget(self):
            return False  # another thread is just giving it back
        # First of all: from here on it is not valid, and no other has it yet.
        self._handle = None
        self.lose(reason)
        handle.release()
        handle.directory.give(handle)
        return True

    def call_if_lost(self, callback: Callable[[], object]) -> None:
        """Call back when the hold is lost; there is one callback."""
        self._on_loss = callback

    def close(self) -> None:
        """End the claim because its coordinator is closed."""
        if self.token is not None:
            self.lose(self._loss or "the coordinator was closed")
            self.release()
        else:
            self.fail(MisuseError(f"lock {self.lock!r}: the coordinator was closed"))

    # Waits, in the event loop

    def join(self, waiters: Waiters, owner: int, task: bytes) -> None:
        """Join the queue of the lock in the directory of those waiters, and leave the one before."""
        handle = self._handle
        if handle is None:
            return
        if self._wait is not None:
            self._stop_waiting(handle)
        if handle.directory is not waiters.directory:
            handle.directory.give(handle)
            handle = self._handle = waiters.directory.handle()
            if self._note:
                handle.annotate(self._note)
        wait = self._wait = QueuedWait(
            waiters, waiters.directory.lock_bytes(self.lock), next(waiters.directory.requests)
        )
        if handle.join(wait.lock_bytes, wait.request, shared=self.shared, owner=owner, task=task):
            waiters.enter(self, wait.request)
            self.look()
        else:
            wait.timer = self._engine.loop.call_later(
                JOIN_AGAIN_SECONDS, self._engine.join_again, self
            )

    def look(self, *, overtakes: bool = False, rung: bool = False) -> None:
        """Take the lock if it is our turn and it is free; else find out whose end to watch for.

        One that was `rung` for and is not the first passes that on.
        """
        handle, wait = self._handle, self._wait
        if handle is None or wait is None:
            return
        try:
            token = handle.look(wait.lock_bytes, shared=self.shared, overtakes=overtakes)
            if token is not None:
                self._grant(token)
                return
            if rung:
                handle.pass_on()
            if wait.watches:
                self._watch(handle, wait)
        except ReplacedError:
            self._engine.join_again(self)
        except OSError as error:
            self.fail(self._engine.unavailable(self.lock, error))
        except CoterieError as error:
            self.fail(error)

    def begin_to_watch(self) -> None:
        """Look, and watch the one before us from now on: the wait takes long."""
        handle, wait = self._handle, self._wait
        if handle is None or wait is None or wait.watches:
            return
        wait.watches = True
        if handle.directory.in_place():
            self.look()
        else:
            self._engine.join_again(self)

    def look_again(self) -> None:
        """Look after a second in which nothing may have told us anything."""
        handle, wait = self._handle, self._wait
        if handle is None or wait is None:
            return
        if not handle.directory.in_place():
            self._engine.join_again(self)
            return
        # The lock was free at two such looks in a row, and no token was drawn between: the one before
        # us has been stopped. Exclusion does not need it to go first.
        last = wait.lock_bytes.last_if_free(handle.directory.descriptor)
        overtakes, wait.vacant = bool(last) and last == wait.vacant, last
        self.look(overtakes=overtakes)

    def _grant(self, token: int) -> None:
        self.token = token
        self._end_wait()
        granted = self._granted
        if granted is not None and not granted.done():
            granted.set_result(token)

    def _watch(self, handle: LockHandle, wait: QueuedWait) -> None:
        """Watch the one before us in the queue; without one, the holder."""
        if wait.waiters.watch(self, handle.predecessor(), wait.lock_bytes):
            wait.pause = FIRST_PAUSE_SECONDS
        elif wait.timer is None:
            # What we should watch has just gone, or cannot be found: look again soon.
            wait.timer = self._engine.loop.call_later(wait.pause, self._look_soon, wait)
            wait.pause = min(2 * wait.pause, PAUSE_SECONDS_MAX)

    def _look_soon(self, wait: QueuedWait) -> None:
        wait.timer = None
        self.look()

    def _stop_waiting(self, handle: LockHandle) -> None:
        if self._wait is not None:
            lock_bytes = self._wait.lock_bytes
            self._end_wait()
            handle.withdraw(lock_bytes)

    def _end_wait(self) -> None:
        wait, self._wait = self._wait, None
        if wait is not None:
            if wait.timer is not None:
                wait.timer.cancel()
            wait.waiters.leave(self, wait.request)


class QueuedWait:
    """The wait of a claim in a queue."""

    __slots__ = ("lock_bytes", "pause", "request", "timer", "vacant", "waiters", "watches")

    def __init__(self, waiters: Waiters, lock_bytes: LockBytes, request: int) -> None:
        """Begin to wait."""
        self.waiters = waiters
        self.lock_bytes = lock_bytes
        self.request = request
        self.timer: asyncio.TimerHandle | None = None
        self.pause = FIRST_PAUSE_SECONDS
        self.watches = False  # the end of another program
        self.vacant = 0  # the last token drawn, if the lock was free at the last look of the clock
