"""Puts a file on the disk of a simulated machine while its process goes on, in virtual time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from coterie.lab.stack.world.machine import Process


class SimulatedSyncer:
    """Syncs one file at a time: what lasts is noted when the time of the sync is over.

    A power loss before that keeps a random part of the file. There is no thread: the end of a sync is
    a turn of the event loop, in which the process may be killed as in any other.
    """

    def __init__(self, process: Process) -> None:
        """Begin with nothing under way."""
        self._process = process
        self._timer: asyncio.TimerHandle | None = None
        self._work: tuple[int, Callable[[OSError | None], None]] | None = None

    def begin(self, descriptor: int, done: Callable[[OSError | None], None]) -> None:
        """Sync a file, which stays open until `done` has heard how it went."""
        assert self._work is None, "one sync at a time"
        seconds = self._process.machine.disk.draw_sync_seconds()
        self._work = descriptor, done
        self._timer = self._process.loop.call_later(seconds * self._process.machine.rate, self._end)

    def wait(self) -> None:
        """Take the time until what is under way is over, within this turn."""
        if self._timer is not None:
            self._timer.cancel()
            machine, process = self._process.machine, self._process
            left = machine.true_at(self._timer.when()) - process.true_now()
            process.lag += max(0.0, left)
            self._end()

    def close(self) -> None:
        """Wait for what is under way."""
        self.wait()

    def _end(self) -> None:
        assert self._work is not None, "a sync is under way"
        (descriptor, done), self._work, self._timer = self._work, None, None
        try:
            self._process.machine.disk.finish_sync(self._process, descriptor)
        except OSError as error:
            done(error)
        else:
            done(None)
