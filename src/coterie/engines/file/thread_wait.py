"""The wait of a thread for a lock, in that thread alone: no event loop takes part.

It stands in the same queue as all others, and is told to look again in the same ways: by a bell, which
is its own; by the end of a program that it watches; and once a second in any case (`waiters.py`).
A thread that holds another lock waits in the event loop instead, where deadlocks are found: one that
holds nothing is in none of those that are looked for (`FileEngine`).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from coterie.engines.file import waiters
from coterie.engines.file.claim import FIRST_PAUSE_SECONDS, JOIN_AGAIN_SECONDS, PAUSE_SECONDS_MAX
from coterie.engines.file.directory.pipes import open_life
from coterie.engines.file.holders import life_to_watch

if TYPE_CHECKING:
    from coterie.engines.file.directory.lock_file import LockBytes, LockHandle
    from coterie.locks.lock import Owner


class ThreadWait:
    """One thread that waits for one lock."""

    def __init__(
        self, handle: LockHandle, lock_bytes: LockBytes, owner: Owner, *, shared: bool
    ) -> None:
        """Prepare; `run` waits, and `close` ends the wait in any case."""
        directory = self.directory = handle.directory
        self.owner = owner
        self._lock_bytes = lock_bytes
        self._shared = shared
        self._handle: LockHandle | None = handle
        self._bell = directory.thread_bell()
        self._error: Exception | None = None
        self._watched = ""  # the life that is watched
        self._pause = FIRST_PAUSE_SECONDS
        self._vacant = 0  # the last token drawn, if the lock was free a second ago

    @property
    def name(self) -> str:
        """The name of the lock."""
        return self._lock_bytes.name

    @property
    def stands(self) -> bool:
        """Whether it has a place in the queue of its lock."""
        return self._handle is not None and self._handle.position is not None

    def run(self, owner: int, task: bytes, until: float) -> int | None:
        """Wait for the lock and return its token; None if it was not free until then.

        Raise `ReplacedError` if the directory was removed or replaced, and what `end` was told.
        """
        handle = self._handle
        assert handle is not None, "it runs once"
        lock_bytes, shared, bell = self._lock_bytes, self._shared, self._bell.number
        request = next(self.directory.requests)
        while not handle.join(
            lock_bytes, request, shared=shared, owner=owner, task=task, bell=bell
        ):
            if time.monotonic() >= until:
                return None
            time.sleep(JOIN_AGAIN_SECONDS)
        began = time.monotonic()
        tick = began + waiters.LOOK_AGAIN_SECONDS
        watches_at = began + waiters.WATCH_AFTER_SECONDS
        overtakes = rung = False
        while True:
            token = handle.look(lock_bytes, shared=shared, overtakes=overtakes)
            if token is not None:
                self._handle = None  # the caller has it
                return token
            if rung:
                handle.pass_on()
            if self._error is not None:
                raise self._error
            now = time.monotonic()
            if now >= until:
                return None
            overtakes = False
            if now >= tick:
                tick = now + waiters.LOOK_AGAIN_SECONDS
                overtakes = self._is_passed_over()
                if overtakes:
                    continue
            due = min(tick, watches_at) if now < watches_at else self._watch(handle, now, tick)
            rung, ended = self._bell.sleep(min(due, until) - now)
            if ended:
                self._watch_nothing()

    def end(self, error: Exception) -> None:
        """Let the wait fail; in any other thread."""
        self._error = error
        self._bell.wake()

    def close(self) -> None:
        """Leave the queue, or give the lock back, unless `run` has returned the token."""
        handle, self._handle = self._handle, None
        if handle is not None:
            if handle.token is None:
                handle.withdraw(self._lock_bytes)
            else:
                handle.release()
            self.directory.give(handle)
        if self._watched:
            self._watch_nothing()
        self.directory.give_bell(self._bell)

    def _is_passed_over(self) -> bool:
        """Look after a second in which nothing may have told us anything; True to overtake the first."""
        self.directory.check_place()
        # As in the event loop: see `FileClaim.look_again`.
        last = self._lock_bytes.last_if_free(self.directory.descriptor)
        passed_over, self._vacant = bool(last) and last == self._vacant, last
        return passed_over

    def _watch(self, handle: LockHandle, now: float, tick: float) -> float:
        """Watch the one before us in the queue, or the holder; return when to look again."""
        self.directory.check_place()
        name = life_to_watch(self.directory, handle.predecessor(), self._lock_bytes)
        if name is not None and name not in {self._watched, self.directory.own_life}:
            self._watch_nothing()
            life = open_life(self.directory.boards.descriptor, name)
            if life is None:
                name = None
            else:
                self._bell.watch(life)
                self._watched = name
        if name is not None:
            self._pause = FIRST_PAUSE_SECONDS
            return tick
        # What we should watch has just gone, or cannot be found: look again soon.
        pause, self._pause = self._pause, min(2 * self._pause, PAUSE_SECONDS_MAX)
        return min(tick, now + pause)

    def _watch_nothing(self) -> None:
        self._watched = ""
        self._bell.stop_watching()
