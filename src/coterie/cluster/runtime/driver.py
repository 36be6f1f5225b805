"""Carries out what a part of the protocol wishes: save, send, arm, tell, in this order."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from coterie.cluster.runtime import clock
from coterie.process import Outbox

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from coterie.process import Event, ProcessId

ME = 0  # of the leased lock: its links have numbers from 1 on, so nothing is sent to oneself
LATE_SECONDS = 0.05  # a timer that rings later than this has slept
QUIET_TURNS = 3  # of the event loop, without input: then everything that had arrived is handled
DRAIN_TURNS_MAX = 200


class Driver:
    """Feeds one part of the protocol, a participant or a voter, and obeys its outbox."""

    def __init__(
        self,
        send: Callable[[ProcessId, Any], None],
        ring: Callable[[str, Outbox[Any]], None],
        tell: Callable[[Event], None],
        save: Callable[[bytes], None],
        me: ProcessId = ME,
    ) -> None:
        """Remember what carries out each wish; `ring` is the part's own handler of timers."""
        self._me = me
        self._send = send
        self._ring = ring
        self._tell = tell
        self._save = save
        self.failed = False  # something could not be saved
        self.on_failure: Callable[[OSError], None] = _raise
        self.on_append: Callable[[Sequence[bytes]], None] = _nothing_is_appended
        self.on_watch: Callable[[ProcessId, bool], None] = _nobody_is_watched
        self._loop = asyncio.get_running_loop()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._steps = 0
        self._stopped = False

    def step(self, handler: Callable[..., None], *arguments: Any) -> None:
        """Give the part an input, with the time read just before, and carry out what it wishes."""
        if self._stopped:
            return
        out: Outbox[Any] = Outbox(self._me, clock.now())
        handler(*arguments, out)
        self.carry_out(out)

    def carry_out(self, out: Outbox[Any]) -> None:
        """Obey. What cannot be saved stops everything, since nothing may leave unsaved."""
        self._steps += 1
        if out.durable:
            try:
                self._store(out)
            except OSError as error:
                self.failed = True
                self.stop()
                self.on_failure(error)
                return
        for to, frame in out.sends:
            self._send(to, frame)
        for name, after in out.timers:
            self._arm(name, after)
        for peer, wanted in out.watches:
            self.on_watch(peer, wanted)
        for event in out.events:
            self._tell(event)

    def _store(self, out: Outbox[Any]) -> None:
        if out.to_save is not None:
            self._save(out.to_save)
        if out.appended:
            self.on_append(out.appended)

    def stop(self) -> None:
        """Take no more steps."""
        self._stopped = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    # Timers

    def _arm(self, name: str, after: float | None) -> None:
        armed = self._timers.pop(name, None)
        if armed is not None:
            armed.cancel()
        if after is not None:
            due = self._loop.time() + max(0.0, after)
            self._timers[name] = self._loop.call_at(due, self._ring_or_drain, name, due)

    def _ring_or_drain(self, name: str, due: float) -> None:
        """Let the timer ring, unless we have slept: then what has arrived comes first.

        The heartbeats of the others wait in our sockets, and nobody is to be expired for that.
        """
        self._timers.pop(name, None)
        if self._loop.time() - due > LATE_SECONDS:
            self._drain(name, self._steps, 0, DRAIN_TURNS_MAX)
        else:
            self.step(self._ring, name)

    def _drain(self, name: str, steps: int, quiet: int, turns: int) -> None:
        quiet = quiet + 1 if steps == self._steps else 0
        if quiet > QUIET_TURNS or not turns:
            self.step(self._ring, name)
        else:
            self._loop.call_soon(self._drain, name, self._steps, quiet, turns - 1)


def _raise(error: OSError) -> None:
    raise error


def _nothing_is_appended(records: Sequence[bytes]) -> None:
    raise AssertionError(f"there is no log here, and {len(records)} records were to be appended")


def _nobody_is_watched(*watch: object) -> None:
    raise AssertionError(f"nobody is watched here, and {watch} was wished for")
