"""The requests of a program that wait in queues, as its event loop serves them.

A request is told to look again by the bell of the program, by the end of a program that it watches, and
once a second in any case. Most waits are short, so it begins to watch after some milliseconds; what has
ended by then is seen when it looks whom to watch. What it watches is the one before it in the queue, and the holder if it is the
first. If the one before it leaves the queue without the lock, or shares the lock with it, that rings the
bell; if it dies, its pipe breaks; if it takes the lock, it has become the holder. The holder rings the
bell of the first when it gives the lock back. So no death and no departure leaves the queue asleep.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from coterie.engines.file.directory.pipes import MESSAGE, RINGS_AT_ONCE, open_life
from coterie.engines.file.holders import life_to_watch

if TYPE_CHECKING:
    import asyncio

    from coterie.engines.file.claim import FileClaim
    from coterie.engines.file.directory.lock_file import LockBytes, LockDirectory
    from coterie.engines.file.directory.wait_queue import QueuedWaiter

LOOK_AGAIN_SECONDS = 1.0
WATCH_AFTER_SECONDS = 0.02  # most waits are over before


class Waiters:
    """The requests that wait in queues of one open lock directory."""

    def __init__(self, directory: LockDirectory, loop: asyncio.AbstractEventLoop) -> None:
        """Listen to the bell, which others can find from now on."""
        self.directory = directory
        self._loop = loop
        self._requests: dict[int, FileClaim] = {}
        self._watched: dict[FileClaim, str] = {}
        self._lives: dict[str, int] = {}  # open pipes, by the name of the program
        self._watch: asyncio.TimerHandle | None = None
        self._tick: asyncio.TimerHandle | None = None
        self._bell = directory.bell()
        loop.add_reader(self._bell, self._hear)

    def enter(self, claim: FileClaim, request: int) -> None:
        """Take note of a request that has joined a queue."""
        self._requests[request] = claim
        if self._watch is None:
            self._watch = self._loop.call_later(WATCH_AFTER_SECONDS, self._begin_to_watch)
        if self._tick is None:
            self._tick = self._loop.call_later(LOOK_AGAIN_SECONDS, self._look_again)

    def leave(self, claim: FileClaim, request: int) -> None:
        """Take note that a request waits no longer."""
        self._requests.pop(request, None)
        self._watched.pop(claim, None)

    def watch(self, claim: FileClaim, before: QueuedWaiter | None, lock_bytes: LockBytes) -> bool:
        """Watch the one before a claim in the queue, or else the holder; False if it has just gone."""
        name = life_to_watch(self.directory, before, lock_bytes)
        if name is None:
            return False
        if name not in self._lives and name != self.directory.own_life:
            # It stays open for the next wait: programs that meet at a lock meet there again.
            life = open_life(self.directory.boards.descriptor, name)
            if life is None:
                return False
            self._lives[name] = life
            self._loop.add_reader(life, self._end_of, name)
        self._watched[claim] = name
        return True

    def claims(self) -> list[FileClaim]:
        """List the claims that wait."""
        return list(self._requests.values())

    def close(self) -> None:
        """Stop listening."""
        for timer in (self._tick, self._watch):
            if timer is not None:
                timer.cancel()
        self._loop.remove_reader(self._bell)
        for name in list(self._lives):
            self._close(name)

    def _hear(self) -> None:
        """Let the requests look for which the bell was rung."""
        try:
            content = os.read(self._bell, RINGS_AT_ONCE * MESSAGE.size)
        except BlockingIOError:
            return
        for (request,) in MESSAGE.iter_unpack(content[: len(content) // 8 * 8]):
            claim = self._requests.get(request)
            if claim is not None:
                claim.look(rung=True)

    def _end_of(self, name: str) -> None:
        """Let those look that watched a program that has ended: its locks and places are free."""
        self._close(name)
        for claim in [claim for claim, watched in self._watched.items() if watched == name]:
            claim.look()

    def _begin_to_watch(self) -> None:
        self._watch = None
        for claim in self.claims():
            claim.begin_to_watch()

    def _look_again(self) -> None:
        self._tick = None
        for claim in self.claims():
            claim.look_again()
        for name in set(self._lives) - set(self._watched.values()):
            self._close(name)
        if self._requests and self._tick is None:
            self._tick = self._loop.call_later(LOOK_AGAIN_SECONDS, self._look_again)

    def _close(self, name: str) -> None:
        life = self._lives.pop(name)
        self._loop.remove_reader(life)
        os.close(life)
