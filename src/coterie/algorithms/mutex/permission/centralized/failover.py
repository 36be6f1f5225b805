"""Mutual exclusion by asking one coordinator, with another one behind it: 3 messages an entry.

All processes stand in a line of succession, and the first in it that lives coordinates. It knows,
for it watches all that come before it. Having taken over, it asks all others where they stand, and
builds the queue again from their answers; before all that live have answered, it lets none in. A
process that has answered takes no word of an earlier coordinator any more: the place in the line is
the epoch.
"""

from __future__ import annotations

from bisect import insort
from typing import Any, ClassVar, TypeAlias

from msgspec import field

from coterie.clocks import LogicalTime, Stamp
from coterie.errors import ProtocolError
from coterie.process import Entered, Mutex, Outbox, Payload, ProcessId


class Request(Payload, frozen=True):
    """May I enter? The stamp is that of the request."""

    stamp: Stamp


class Grant(Payload, frozen=True):
    """You may. The time is that of the latest request known."""

    time: LogicalTime


class Release(Payload, frozen=True):
    """I have left."""


class Recover(Payload, frozen=True):
    """I coordinate now. Where do you stand?"""


class Holding(Payload, frozen=True):
    """I am inside."""


class Waiting(Payload, frozen=True):
    """I wait, with this request."""

    stamp: Stamp


class Idle(Payload, frozen=True):
    """I do not want to enter."""


Answer: TypeAlias = Holding | Waiting | Idle
Message: TypeAlias = Request | Grant | Release | Recover | Answer


class Failover(Mutex[Message]):
    """A client, and once all before it in the line are down, the coordinator."""

    messages: ClassVar[Any] = Message

    line: tuple[ProcessId, ...]  # of succession
    coordinator: ProcessId  # the last in the line that has said so
    before: set[ProcessId] = field(
        default_factory=set
    )  # those ahead of us that are not known to be down
    time: LogicalTime = 0  # of the latest request known
    stamp: Stamp | None = None  # of our own request, kept until release
    inside: bool = False
    holder: ProcessId | None = None  # coordinator: the one that was let in, and is watched
    queue: list[Stamp] = field(default_factory=list)  # coordinator: requests, in their order
    unheard: set[ProcessId] = field(
        default_factory=set
    )  # coordinator: those that have not answered yet

    def start(self, out: Outbox[Message]) -> None:
        """Watch all that come before us."""
        self.before = set(self.line[: self.line.index(self.me)])
        for peer in sorted(self.before):
            out.watch(peer)

    def acquire(self, out: Outbox[Message]) -> None:
        """Ask the coordinator; if it is down, its successor will ask us."""
        self.time += 1
        self.stamp = Stamp(self.time, self.me)
        out.send(self.coordinator, Request(self.stamp))

    def release(self, out: Outbox[Message]) -> None:
        """Tell the coordinator."""
        self.stamp, self.inside = None, False
        out.send(self.coordinator, Release())

    def awaits(self) -> tuple[ProcessId, ...]:
        """Name the coordinator."""
        return (self.coordinator,)

    def lent_to(self) -> ProcessId | None:
        """Name the process that was let in."""
        return (self.holder or 0) if self.me == self.coordinator else None

    def receive(self, sender: ProcessId, message: Message, out: Outbox[Message]) -> None:
        """Handle requests, releases and answers as the coordinator, the others as a client."""
        match message:
            case Request(stamp):
                self._enqueue(stamp, out)
            case Grant(time):
                self._enter(sender, time, out)
            case Release():
                self._free(sender, out)
            case Recover():
                self._answer(sender, out)
            case Holding() | Waiting() | Idle():
                self._take_stock(sender, message, out)

    def down(self, peer: ProcessId, out: Outbox[Message]) -> None:
        """Take over if that was the last one before us; as the coordinator, do without it."""
        if peer in self.before:
            self.before.remove(peer)
            if not self.before:
                self._take_over(out)
        else:
            self.unheard.discard(peer)
            if peer == self.holder:
                self.holder = None
            self._grant_if_free(out)

    def _take_over(self, out: Outbox[Message]) -> None:
        """Ask all that are left where they stand, ourselves too."""
        self.unheard = set(self.line[self.line.index(self.me) :])
        for peer in sorted(self.unheard - {self.me}):
            out.watch(peer)
        out.broadcast(self.unheard, Recover())

    def _answer(self, sender: ProcessId, out: Outbox[Message]) -> None:
        """Follow the new coordinator, unless we follow one that came after it."""
        if self.line.index(sender) < self.line.index(self.coordinator):
            return
        self.coordinator = sender
        if self.inside:
            out.send(sender, Holding())
        elif self.stamp is not None:
            out.send(sender, Waiting(self.stamp))
        else:
            out.send(sender, Idle())

    def _take_stock(self, sender: ProcessId, answer: Answer, out: Outbox[Message]) -> None:
        """Note the answer of one that lives, as far as we know, and has not left since."""
        if sender not in self.unheard:
            return
        self.unheard.remove(sender)
        match answer:
            case Holding():
                self.holder = sender
            case Waiting(stamp):
                self._enqueue(stamp, out)
            case Idle():
                pass
        self._grant_if_free(out)

    def _enqueue(self, stamp: Stamp, out: Outbox[Message]) -> None:
        if self.coordinator != self.me:
            raise ProtocolError(
                f"process {stamp.process} asked {self.me}, which coordinates nothing"
            )
        self.time = max(self.time, stamp.time)
        insort(self.queue, stamp)
        self._grant_if_free(out)

    def _grant_if_free(self, out: Outbox[Message]) -> None:
        """Let the oldest request in, and watch its process: it may even be down already."""
        if self.queue and self.holder is None and not self.unheard:
            self.holder = self.queue.pop(0).process
            if self.holder != self.me:
                out.watch(self.holder)
            out.send(self.holder, Grant(self.time))

    def _enter(self, sender: ProcessId, time: LogicalTime, out: Outbox[Message]) -> None:
        """Enter, unless the word comes from a coordinator that is no more."""
        if sender == self.coordinator:
            self.time = max(self.time, time)
            self.inside = True
            out.tell(Entered())

    def _free(self, sender: ProcessId, out: Outbox[Message]) -> None:
        """Let the next one in. The release may have overtaken the answer of one who was inside."""
        self.unheard.discard(sender)
        if sender == self.holder:
            self.holder = None
            out.unwatch(sender)
        self._grant_if_free(out)
