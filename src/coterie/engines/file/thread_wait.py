"""The wait of a thread for a lock, in that thread alone: no event loop takes part.

It stands in the same line as all others, and is told to look again in the same ways: by a bell, which
is its own; by the end of a program that it watches; and once a second in any case (`waiting_room.py`).
A thread that holds another lock waits in the event loop instead, where deadlocks are found: one that
holds nothing is in none of those that are looked for (`FileEngine`).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from coterie.engines.file import waiting_room
from coterie.engines.file.claim import FIRST_PAUSE_SECONDS, JOIN_AGAIN_SECONDS, PAUSE_SECONDS_MAX
from coterie.engines.file.directory.pipes import open_life
from coterie.engines.file.life import life_to_watch

if TYPE_CHECKING:
    from coterie.engines.file.directory.words import Seat, Word
    from coterie.locks.lock import Owner


class ThreadWait:
    """One thread that waits for one lock."""

    def __init__(self, seat: Seat, word: Word, owner: Owner, *, shared: bool) -> None:
        """Prepare; `run` waits, and `close` ends the wait in any case."""
        words = self.words = seat.words
        self.owner = owner
        self._word = word
        self._shared = shared
        self._seat: Seat | None = seat
        self._bell = words.thread_bell()
        self._error: Exception | None = None
        self._watched = ""  # the life that is watched
        self._pause = FIRST_PAUSE_SECONDS
        self._vacant = 0  # the last token drawn, if the lock was free a second ago

    @property
    def name(self) -> str:
        """The name of the lock."""
        return self._word.name

    @property
    def stands(self) -> bool:
        """Whether it has a place in the line of its lock."""
        return self._seat is not None and self._seat.position is not None

    def run(self, owner: int, task: bytes, until: float) -> int | None:
        """Wait for the lock and return its token; None if it was not free until then.

        Raise `ReplacedError` if the directory was removed or replaced, and what `end` was told.
        """
        seat = self._seat
        assert seat is not None, "it runs once"
        word, shared, bell = self._word, self._shared, self._bell.number
        request = next(self.words.requests)
        while not seat.join(word, request, shared=shared, owner=owner, task=task, bell=bell):
            if time.monotonic() >= until:
                return None
            time.sleep(JOIN_AGAIN_SECONDS)
        began = time.monotonic()
        tick = began + waiting_room.LOOK_AGAIN_SECONDS
        watches_at = began + waiting_room.WATCH_AFTER_SECONDS
        overtakes = rung = False
        while True:
            token = seat.look(word, shared=shared, overtakes=overtakes)
            if token is not None:
                self._seat = None  # the caller has it
                return token
            if rung:
                seat.pass_on()
            if self._error is not None:
                raise self._error
            now = time.monotonic()
            if now >= until:
                return None
            overtakes = False
            if now >= tick:
                tick = now + waiting_room.LOOK_AGAIN_SECONDS
                overtakes = self._is_passed_over()
                if overtakes:
                    continue
            due = min(tick, watches_at) if now < watches_at else self._watch(seat, now, tick)
            rung, ended = self._bell.sleep(min(due, until) - now)
            if ended:
                self._watch_nothing()

    def end(self, error: Exception) -> None:
        """Let the wait fail; in any other thread."""
        self._error = error
        self._bell.wake()

    def close(self) -> None:
        """Leave the line, or give the lock back, unless `run` has returned the token."""
        seat, self._seat = self._seat, None
        if seat is not None:
            if seat.token is None:
                seat.withdraw(self._word)
            else:
                seat.release()
            self.words.give(seat)
        if self._watched:
            self._watch_nothing()
        self.words.give_bell(self._bell)

    def _is_passed_over(self) -> bool:
        """Look after a second in which nothing may have told us anything; True to overtake the first."""
        self.words.check_place()
        # As in the event loop: see `FileClaim.look_again`.
        last = self._word.last_if_free(self.words.descriptor)
        passed_over, self._vacant = bool(last) and last == self._vacant, last
        return passed_over

    def _watch(self, seat: Seat, now: float, tick: float) -> float:
        """Watch the one before us in the line, or the holder; return when to look again."""
        self.words.check_place()
        name = life_to_watch(self.words, seat.predecessor(), self._word)
        if name is not None and name not in {self._watched, self.words.own_life}:
            self._watch_nothing()
            life = open_life(self.words.boards.descriptor, name)
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
