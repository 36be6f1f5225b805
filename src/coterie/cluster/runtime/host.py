"""Seats a process on a real machine: its links, its disk, its timers and its failure detector.

The contract (`process.py`) says in which order the wishes of a step are carried out: *save, send,
arm, tell*, or not at all if the handler raised. Safety hangs on *save* before *send*: a peer acts on
what it hears, and a process that has forgotten after a crash what it said could promise the opposite.
So nothing leaves before it is on disk, and nothing ever leaves again after a write has failed: what
is on disk then is unknown, and all later steps rest on it.

The records that the steps of one turn of the event loop append share one sync, and so do those of all
steps that are taken while another sync is under way. They go to the log as one frame: the end of the
file is all that a crash may tear, and several frames without a sync in between could be torn in the
middle. What these steps send and tell waits for the sync. So does all that later steps send and tell,
whether they append or not: they have seen what waits, and must not speak of it before it is on disk. Timers and watches do not wait. They concern this process alone,
and what they lead to is a step like any other, whose messages wait in turn.

A process or a machine that has no file descriptor left cannot open the file to save in. Nothing is
wrong with the disk then: saving is tried again, and all that the steps meanwhile wish waits for it.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import math
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from coterie import system
from coterie.cluster.runtime.descriptors import EXHAUSTED
from coterie.process import Outbox
from coterie.system.alarm import Alarm

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence

    from coterie.process import Event, ProcessId

GATHERED_BYTES_MAX = 1 << 26  # beyond it the disk is written before the turn ends
LATE_SECONDS = 0.05  # a timer that comes later than this has slept, or its machine has
QUIET_TURNS = 3  # of the event loop, without input: then everything that had arrived is handled
DRAIN_TURNS_MAX = 200
RETRY_SECONDS = 0.05  # until a file descriptor may be free again

logger = logging.getLogger("coterie.cluster")


class Hosted(Protocol):
    """What a host drives: a `Seat`, or an adapter of a part that begins in a way of its own."""

    @property
    def messages(self) -> Any:
        """The union of the messages that it receives."""

    def start(self, out: Outbox[Any]) -> None:
        """Begin, with what is on stable storage and the number of this start in `out`."""

    def receive(self, sender: ProcessId, message: Any, out: Outbox[Any]) -> None:
        """Handle a message."""

    def ring(self, timer: str, out: Outbox[Any]) -> None:
        """Handle a timer that has run out."""

    def down(self, peer: ProcessId, out: Outbox[Any]) -> None:
        """Handle the crash of a process that was watched."""


class StableStorage(Protocol):
    """A disk. What it has saved survives a crash; else it raises `OSError`."""

    def load(self) -> tuple[bytes, Sequence[bytes]]:
        """Return what was saved last, and what was appended to it since; called once."""

    def save(self, value: bytes) -> None:
        """Put a value in the place of everything before."""


class Log(Protocol):
    """What is appended to the value on stable storage."""

    def append(self, records: Sequence[bytes]) -> None:
        """Write records, all of them or none, or raise `OSError`; they last when they are synced."""

    def sync(self, done: Callable[[OSError | None], None]) -> None:
        """Put on disk what was appended; `done` hears on the event loop how it went, now or later."""

    def wait(self) -> None:
        """Block until a sync that is under way is over, and `done` has heard of it."""


@functools.lru_cache(maxsize=64)
def decoder(messages: Any) -> Callable[[bytes], Any]:
    """Return what decodes exactly these messages; anything else raises `msgspec.MsgspecError`."""
    return msgspec.msgpack.Decoder(messages).decode


class Timer(NamedTuple):
    """A timer of the process."""

    handle: asyncio.Handle
    due: float  # by the clock that leases are counted on
    is_late: bool = False  # it has come, and waits for what has arrived


class Delay(NamedTuple):
    """How late a timer came: the event loop did not run, or the machine slept."""

    seconds: float
    until: float


def _raise(error: OSError) -> None:
    raise error


class Host:
    """One process between the event loop and the machine: every input is a step of it."""

    def __init__(
        self,
        hosted: Hosted,
        send: Callable[[ProcessId, Any], None],
        tell: Callable[[Event], None],
        *,
        me: ProcessId = 0,
        storage: StableStorage | None = None,
        log: Log | None = None,
        lost: Container[ProcessId] | None = None,
        on_disk_failure: Callable[[OSError], None] = _raise,
        counts_sleep: bool = False,
    ) -> None:
        """Prepare; nothing happens before `start`.

        Args:
            hosted: The process. One with the number 0 sends nothing to itself.
            send: Takes each message and its receiver, when it may leave.
            tell: Takes each event, when it may be told.
            me: The number of the process.
            storage: Its disk; without one it must not save.
            log: What it appends to; without one it must not.
            lost: The peers that the failure detector has found down so far, which calls `down` for
                each new one. Without a detector the process must not watch.
            on_disk_failure: Takes the error of a write; no step is taken after it.
            counts_sleep: Whether timers ring at once after the machine has slept through them.
        """
        self.failed = False  # something could not be written
        self.watched: set[ProcessId] = set()
        self._hosted = hosted
        self._send = send
        self._tell = tell
        self._me = me
        self._storage = storage
        self._log = log
        self._lost = lost
        self._on_disk_failure = on_disk_failure
        self._decode = decoder(hosted.messages)
        self._timers: dict[str, Timer] = {}
        self._alarm = Alarm(self._ring_late_timers) if counts_sleep else None
        self._delay = Delay(0.0, -math.inf)  # the last one that was noticed
        self._gathered: Outbox[Any] | None = None  # what waits for the disk
        self._gathered_bytes = 0
        self._on_its_way: Outbox[Any] | None = None  # what is being synced
        self._postponed: list[Outbox[Any]] = []  # what waits for a file descriptor to save with
        self._lacks_descriptors = False
        self._steps = 0
        self._stopped = False

    # Inputs

    def start(self, incarnation: int) -> None:
        """Begin from what is on disk; `incarnation` is a number that no earlier start had."""
        out: Outbox[Any] = Outbox(self._me, system.now())
        out.incarnation = incarnation
        if self._storage is not None:
            out.saved, out.log = self._storage.load()
        self._hosted.start(out)
        self._carry_out(out)

    def receive(self, sender: ProcessId, message: Any) -> None:
        """Deliver a message."""
        self.step(self._hosted.receive, sender, message)

    def deliver(self, sender: ProcessId, content: bytes) -> None:
        """Decode a message and deliver it; one that is none of this process's raises."""
        self.step(self._hosted.receive, sender, self._decode(content))

    def down(self, peer: ProcessId) -> None:
        """Report that a peer is down, if the process watches it: asked once, told once."""
        if peer in self.watched:
            self.watched.remove(peer)
            self.step(self._hosted.down, peer)

    def step(self, handler: Callable[..., None], *arguments: Any) -> None:
        """Take a step of the process by one of its handlers: a call of its user, or any input.

        The time is read just before. If the handler raises, none of its wishes is carried out.
        """
        if self._stopped:
            return
        out: Outbox[Any] = Outbox(self._me, system.now())
        handler(*arguments, out)
        self._carry_out(out)

    def stop(self) -> None:
        """Take no more steps; what waits for the disk is written and let out first."""
        self._retry()
        self.sync()
        self._stopped = True
        if self._postponed:  # it is not on disk, and never will be
            self.failed = True
            self._postponed.clear()
        for timer in self._timers.values():
            timer.handle.cancel()
        self._timers.clear()
        if self._alarm is not None:
            self._alarm.close()

    # Wishes

    def _carry_out(self, out: Outbox[Any]) -> None:
        self._steps += 1
        if self._postponed:
            self._postpone(out)
            return
        if out.durable or self._gathered is not None or self._on_its_way is not None:
            if out.to_save is None:
                self._gather(out)
                return
            self.sync()  # the value takes the place of what was appended before it
            if not self._save(out):
                return
            if out.appended:
                self._gather(out)
                return
        self._let_out(out)

    def _gather(self, out: Outbox[Any]) -> None:
        gathered = self._gathered
        if gathered is None and not out.durable:
            gathered = self._on_its_way  # all that it has seen and is not on disk yet
        if gathered is None:
            gathered = self._gathered = Outbox(self._me)
            if self._on_its_way is None:
                asyncio.get_running_loop().call_soon(self._begin_sync)
        for record in out.appended:
            gathered.append(record)
            self._gathered_bytes += len(record)
        gathered.sends += out.sends
        gathered.events += out.events
        self._arm_and_watch(out)
        if self._gathered_bytes > GATHERED_BYTES_MAX:
            self.sync()

    @property
    def is_behind(self) -> bool:
        """Whether steps wait for the disk: what they changed may be forgotten yet, and no message has told of it."""
        return self._gathered is not None or self._on_its_way is not None

    def sync(self) -> None:
        """Block until all that waits for the disk is there, and let it out."""
        while self._on_its_way is not None or self._gathered is not None:
            self._begin_sync()
            if self._log is not None:
                self._log.wait()

    def _begin_sync(self) -> None:
        """Write what is gathered, if nothing is on its way: one frame at a time may be torn."""
        if self._on_its_way is not None or self._gathered is None:
            return
        gathered, self._gathered = self._gathered, None
        self._gathered_bytes = 0
        if self.failed:
            return
        assert self._log is not None, f"process {self._me} appends, and has no log"
        self._on_its_way = gathered
        try:
            self._log.append(gathered.appended)
        except OSError as error:
            self._end_sync(error)
        else:
            self._log.sync(self._end_sync)

    def _end_sync(self, error: OSError | None) -> None:
        """Let out what was on its way, and then write what was gathered meanwhile."""
        synced, self._on_its_way = self._on_its_way, None
        assert synced is not None, "a sync is under way"
        if error is not None:
            self._fail(error)
            return
        self._let_out(synced)
        self._begin_sync()

    def _fail(self, error: OSError) -> None:
        self.failed = True
        self.stop()
        self._on_disk_failure(error)

    def _save(self, out: Outbox[Any]) -> bool:
        """Return True if the value is on disk. Else nothing of this step or a later one leaves."""
        if self.failed or out.to_save is None:
            return not self.failed
        assert self._storage is not None, f"process {self._me} saves, and has no stable storage"
        try:
            self._storage.save(out.to_save)
        except OSError as error:
            if error.errno in EXHAUSTED:
                # Only opening a file gives these errors, and records are appended to an open one. A
                # value that is saved once more is as good as saved at the first try, so nothing is
                # in doubt.
                if not self._lacks_descriptors:
                    logger.warning(
                        "cannot save now, and try again: %(reason)s",
                        {"reason": error},
                        extra={"event": "save-postponed"},
                    )
                self._lacks_descriptors = True
                self._postpone(out)
                return False
            self._fail(error)
        else:
            self._lacks_descriptors = False
        return not self.failed

    def _postpone(self, out: Outbox[Any]) -> None:
        """Keep what a step wishes until its value can be saved; timers and watches do not wait."""
        if not self._postponed:
            asyncio.get_running_loop().call_later(RETRY_SECONDS, self._retry)
        self._postponed.append(out)
        self._arm_and_watch(out)
        out.timers.clear()
        out.watches.clear()

    def _retry(self) -> None:
        """Carry out what was postponed, in its order, as far as that is possible now."""
        postponed, self._postponed = self._postponed, []
        for out in postponed:
            self._carry_out(out)

    def _let_out(self, out: Outbox[Any]) -> None:
        for to, message in out.sends:
            self._send(to, message)
        if out.timers or out.watches:
            self._arm_and_watch(out)
        for event in out.events:
            self._tell(event)

    def _arm_and_watch(self, out: Outbox[Any]) -> None:
        for name, after in out.timers:
            self._arm(name, after)
        for peer, wanted in out.watches:
            self._watch(peer, wanted=wanted)

    def _watch(self, peer: ProcessId, *, wanted: bool) -> None:
        assert self._lost is not None, f"process {self._me} watches, and has no failure detector"
        if not wanted:
            self.watched.discard(peer)
            return
        self.watched.add(peer)
        if peer in self._lost:
            asyncio.get_running_loop().call_soon(self.down, peer)

    # Timers

    def _arm(self, name: str, after: float | None) -> None:
        armed = self._timers.pop(name, None)
        if armed is not None:
            armed.handle.cancel()
        if after is not None:
            loop = asyncio.get_running_loop()
            after = max(0.0, after)
            due = loop.time() + after
            handle = loop.call_at(due, self._ring_or_drain, name, due)
            self._timers[name] = Timer(handle, system.now() + after)
            self._set_alarm()

    def _set_alarm(self) -> None:
        """Have the alarm ring if the event loop has not let a timer ring in time."""
        if self._alarm is not None:
            dues = [timer.due for timer in self._timers.values() if not timer.is_late]
            if dues:
                self._alarm.set(min(dues) + LATE_SECONDS)

    def _ring_late_timers(self) -> None:
        """Let the timers ring that the machine has slept through."""
        latest = system.now() - LATE_SECONDS
        for name, timer in list(self._timers.items()):
            if timer.due <= latest and not timer.is_late:
                timer.handle.cancel()
                self._drain_first(name)
        self._set_alarm()

    def _ring_or_drain(self, name: str, due: float) -> None:
        """Let the timer ring, unless we have slept: then what has arrived comes first.

        The heartbeats of the others wait in our sockets, and no session may expire for that.
        """
        if asyncio.get_running_loop().time() - due > LATE_SECONDS:
            self._drain_first(name)
        else:
            self._ring(name)

    def _drain_first(self, name: str) -> None:
        now = system.now()
        self._delay = Delay(now - self._timers[name].due, now)
        self._drain(name, self._steps, 0, DRAIN_TURNS_MAX)

    def delay(self, memory: float) -> float:
        """Return for how long the event loop did not run, now or within the last seconds."""
        now = system.now()
        dues = [timer.due for timer in self._timers.values() if not timer.is_late]
        before = self._delay.seconds if now - self._delay.until <= memory else 0.0
        return max(before, now - min(dues, default=now))

    def _drain(self, name: str, steps: int, quiet: int, turns: int) -> None:
        """Wait for a few turns without input, then let the timer ring.

        It stays in the table, so that a step in between can still cancel it or arm it again: a
        process that has cancelled a timer is certain that it does not ring.
        """
        quiet = quiet + 1 if steps == self._steps else 0
        if quiet > QUIET_TURNS or not turns:
            self._ring(name)
            return
        loop = asyncio.get_running_loop()
        handle = loop.call_soon(self._drain, name, self._steps, quiet, turns - 1)
        self._timers[name] = Timer(handle, self._timers[name].due, is_late=True)

    def _ring(self, name: str) -> None:
        del self._timers[name]
        self.step(self._hosted.ring, name)
