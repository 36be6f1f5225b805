"""Ricart and Agrawala with a "not yet" (a lecture's idea): 2(N - 1) to 3(N - 1) messages an entry.

A peer that makes us wait says so at once, and replies later. So each request is answered at once, and a
peer that stays silent for longer than a question and its answer take has crashed: do without it.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeAlias

from msgspec import field

from coterie.algorithms.mutex.permission.ricart_agrawala.plain import Reply, Request
from coterie.clocks import LogicalTime, Stamp
from coterie.process import Entered, Mutex, Outbox, Payload, ProcessId

SILENCE = "SILENCE"


class Denied(Payload, frozen=True):
    """Not yet: I am inside, or go before you. My reply to the request with this stamp will come."""

    stamp: Stamp


Message: TypeAlias = Request | Denied | Reply


class Denying(Mutex[Message]):
    """A process that answers every request at once, and enters when no other that lives objects."""

    messages: ClassVar[Any] = Message

    size: int  # processes are 1 to size
    patience: float | None = None  # how long a question and its answer may take; None: any time
    highest: LogicalTime = 0  # highest request time seen or used
    stamp: Stamp | None = None  # of our own request, kept until release
    awaiting: set[ProcessId] = field(default_factory=set)  # peers that have not replied yet
    silent: set[ProcessId] = field(default_factory=set)  # ... and have not even denied
    crashed: set[ProcessId] = field(default_factory=set)  # peers that were silent for too long
    deferred: set[ProcessId] = field(default_factory=set)  # peers we owe a reply on release

    def delay_max(self) -> float | None:
        """Return half of our patience: two messages fit into it."""
        return None if self.patience is None else self.patience / 2

    def acquire(self, out: Outbox[Message]) -> None:
        """Ask every peer that has not crashed."""
        self.highest += 1
        self.stamp = Stamp(self.highest, self.me)
        self.awaiting = set(range(1, self.size + 1)) - {self.me} - self.crashed
        self.silent = set(self.awaiting)
        out.broadcast(self.awaiting, Request(self.stamp))
        if self.patience is not None and self.silent:
            out.set_timer(SILENCE, self.patience)
        self._enter_if_unopposed(out)

    def release(self, out: Outbox[Message]) -> None:
        """Reply to every peer that was made to wait."""
        self.stamp = None
        out.broadcast(self.deferred, Reply())
        self.deferred.clear()

    def awaits(self) -> tuple[ProcessId, ...]:
        """Name the peers that have not replied."""
        return tuple(sorted(self.awaiting))

    def receive(self, sender: ProcessId, message: Message, out: Outbox[Message]) -> None:
        """Handle a request, or one of its two answers."""
        match message:
            case Request(stamp):
                self._answer(sender, stamp, out)
            case Denied(stamp):
                if stamp == self.stamp:  # else its reply has overtaken it, and we asked again
                    self._hear(sender, out)
            case Reply():
                self.awaiting.remove(sender)
                self._hear(sender, out)
                self._enter_if_unopposed(out)

    def ring(self, timer: str, out: Outbox[Message]) -> None:
        """Do without the silent: each had crashed before our request came, so none is inside."""
        self.crashed |= self.silent
        self.awaiting -= self.silent
        self.silent.clear()
        self._enter_if_unopposed(out)

    def _answer(self, sender: ProcessId, stamp: Stamp, out: Outbox[Message]) -> None:
        self.highest = max(self.highest, stamp.time)
        if self.stamp is not None and self.stamp < stamp:  # always so while inside
            self.deferred.add(sender)
            out.send(sender, Denied(stamp))
        else:
            out.send(sender, Reply())

    def _hear(self, sender: ProcessId, out: Outbox[Message]) -> None:
        """Count a sign of life; when all have given one the silence is over."""
        self.silent.discard(sender)  # a reply may follow on a denial
        if self.patience is not None and not self.silent:
            out.cancel_timer(SILENCE)

    def _enter_if_unopposed(self, out: Outbox[Message]) -> None:
        if not self.awaiting:
            out.tell(Entered())
