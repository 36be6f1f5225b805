"""Mutual exclusion by asking everyone (Ricart and Agrawala, 1981): 2(N - 1) messages an entry.

Enter once all peers have replied; a peer with an older request of its own replies when it leaves.
Stamps decide who is older, so entries follow the total order of the requests.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeAlias

from msgspec import field

from coterie.clocks import LogicalTime, Stamp
from coterie.process import Entered, Mutex, Outbox, Payload, ProcessId


class Request(Payload, frozen=True):
    """May I enter? The stamp is that of the request."""

    stamp: Stamp


class Reply(Payload, frozen=True):
    """You may, as far as I am concerned."""


Message: TypeAlias = Request | Reply


class RicartAgrawala(Mutex[Message]):
    """A process that enters when no other objects."""

    messages: ClassVar[Any] = Message

    size: int  # processes are 1 to size
    highest: LogicalTime = 0  # highest request time seen or used
    stamp: Stamp | None = None  # of our own request, kept until release
    awaiting: set[ProcessId] = field(default_factory=set)  # peers that have not replied yet
    deferred: set[ProcessId] = field(default_factory=set)  # peers we owe a reply on release

    def acquire(self, out: Outbox[Message]) -> None:
        """Ask every peer."""
        self.highest += 1
        self.stamp = Stamp(self.highest, self.me)
        self.awaiting = {peer for peer in range(1, self.size + 1) if peer != self.me}
        out.broadcast(self.awaiting, Request(self.stamp))
        if not self.awaiting:  # alone
            out.tell(Entered())

    def release(self, out: Outbox[Message]) -> None:
        """Reply to every peer that was made to wait."""
        self.stamp = None
        out.broadcast(self.deferred, Reply())
        self.deferred.clear()

    def awaits(self) -> tuple[ProcessId, ...]:
        """Name the peers that have not replied."""
        return tuple(sorted(self.awaiting))

    def receive(self, sender: ProcessId, message: Message, out: Outbox[Message]) -> None:
        """Handle a request or a reply."""
        if isinstance(message, Request):
            stamp = message.stamp
            if stamp.time > self.highest:
                self.highest = stamp.time
            if self.stamp is not None and self.stamp < stamp:  # always so while inside
                self.deferred.add(sender)
            else:
                out.send(sender, Reply())
        else:
            self.awaiting.remove(sender)
            if not self.awaiting:
                out.tell(Entered())
