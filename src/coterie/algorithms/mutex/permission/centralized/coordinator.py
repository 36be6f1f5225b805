"""Mutual exclusion by asking one coordinator: 3 messages an entry.

The coordinator lets one process in at a time and queues the others in the order in which their
requests arrive. It is also the bottleneck, and everything stops when it does.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeAlias

from msgspec import field

from coterie.errors import ProtocolError
from coterie.process import Entered, Mutex, Outbox, Payload, ProcessId


class Request(Payload, frozen=True):
    """May I enter?"""


class Grant(Payload, frozen=True):
    """You may."""


class Queued(Payload, frozen=True):
    """Not yet: you are in the queue. Only the variant `denied` sends it."""


class Release(Payload, frozen=True):
    """I have left."""


Message: TypeAlias = Request | Grant | Queued | Release


class Centralized(Mutex[Message]):
    """A client; the one that the others call coordinator keeps the queue as well."""

    messages: ClassVar[Any] = Message

    coordinator: ProcessId
    holder: ProcessId | None = None  # coordinator: the one that was let in
    queue: list[ProcessId] = field(
        default_factory=list
    )  # coordinator: those that wait, first come first

    def acquire(self, out: Outbox[Message]) -> None:
        """Ask the coordinator."""
        out.send(self.coordinator, Request())

    def release(self, out: Outbox[Message]) -> None:
        """Tell the coordinator."""
        out.send(self.coordinator, Release())

    def awaits(self) -> tuple[ProcessId, ...]:
        """Name the coordinator."""
        return (self.coordinator,)

    def lent_to(self) -> ProcessId | None:
        """Name the process that was let in."""
        return (self.holder or 0) if self.me == self.coordinator else None

    def receive(self, sender: ProcessId, message: Message, out: Outbox[Message]) -> None:
        """Handle a request or a release as the coordinator, its answers as a client."""
        match message:
            case Request():
                self._enqueue(sender, out)
            case Grant():
                out.tell(Entered())
            case Queued():
                self._be_advised(sender)
            case Release():
                self._release(sender, out)

    def _enqueue(self, sender: ProcessId, out: Outbox[Message]) -> None:
        self.queue.append(sender)
        self._grant_if_free(out)

    def _be_advised(self, sender: ProcessId) -> None:
        raise ProtocolError(f"process {sender} denied a request, by rules that we do not follow")

    def _release(self, sender: ProcessId, out: Outbox[Message]) -> None:
        if sender != self.holder:
            raise ProtocolError(f"process {sender} released what process {self.holder} holds")
        self.holder = None
        self._grant_if_free(out)

    def _grant_if_free(self, out: Outbox[Message]) -> None:
        if self.holder is None and self.queue:
            self.holder = self.queue.pop(0)
            out.send(self.holder, Grant())


class Denying(Centralized):
    """A coordinator that tells those that must wait; its clients know that it lives."""

    def _enqueue(self, sender: ProcessId, out: Outbox[Message]) -> None:
        super()._enqueue(sender, out)
        if sender in self.queue:
            out.send(sender, Queued())

    def _be_advised(self, sender: ProcessId) -> None:
        # Only advice, which its Grant may overtake: a client that is inside by then ignores it.
        pass
