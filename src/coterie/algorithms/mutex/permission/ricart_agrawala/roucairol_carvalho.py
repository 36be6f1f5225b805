"""Mutual exclusion by permissions that last (Roucairol and Carvalho, 1983): 0 to 2(N - 1) messages.

A reply is a permission, good for any number of entries until its giver asks for its own. So ask only
the peers whose permission you lack: those that have asked since you last entered. A process with all
permissions enters at once, though an older request may be on its way.
"""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec import field

from coterie.algorithms.mutex.permission.ricart_agrawala.plain import Message, Reply, Request
from coterie.clocks import LogicalTime, Stamp
from coterie.errors import ProtocolError
from coterie.process import Entered, Mutex, Outbox, ProcessId


class RoucairolCarvalho(Mutex[Message]):
    """A process that enters with the permission of all peers, and keeps it."""

    messages: ClassVar[Any] = Message

    size: int  # processes are 1 to size
    highest: LogicalTime = 0  # highest request time seen or used
    stamp: Stamp | None = None  # of our own request, kept until release
    permissions: set[ProcessId] = field(default_factory=set)  # peers that replied and asked no more
    deferred: set[ProcessId] = field(default_factory=set)  # peers we owe a reply on release

    def acquire(self, out: Outbox[Message]) -> None:
        """Ask every peer whose permission is lacking."""
        self.highest += 1
        self.stamp = Stamp(self.highest, self.me)
        out.broadcast(self._lacking(), Request(self.stamp))
        self._enter_if_permitted(out)

    def release(self, out: Outbox[Message]) -> None:
        """Reply to every peer that was made to wait, whose permission ends with that."""
        self.stamp = None
        self.permissions -= self.deferred
        out.broadcast(self.deferred, Reply())
        self.deferred.clear()

    def awaits(self) -> tuple[ProcessId, ...]:
        """Name the peers whose permission is lacking."""
        return tuple(sorted(self._lacking()))

    def receive(self, sender: ProcessId, message: Message, out: Outbox[Message]) -> None:
        """Handle a request or a reply."""
        match message:
            case Request(stamp):
                self.highest = max(self.highest, stamp.time)
                if self._goes_before(stamp):
                    self.deferred.add(sender)
                else:
                    self._permit(sender, out)
            case Reply():
                self._count(sender, out)

    def _goes_before(self, other: Stamp) -> bool:
        """Return whether the other has to wait: we are inside, or waiting with an older request."""
        return self.stamp is not None and (self.stamp < other or not self._lacking())

    def _permit(self, sender: ProcessId, out: Outbox[Message]) -> None:
        """Reply. If we wait and had the sender's permission, we have to ask for it again."""
        out.send(sender, Reply())
        if sender in self.permissions:
            self.permissions.remove(sender)
            if self.stamp is not None:
                out.send(sender, Request(self.stamp))

    def _count(self, sender: ProcessId, out: Outbox[Message]) -> None:
        if self.stamp is None or sender in self.permissions:
            raise ProtocolError(f"process {sender} replied to process {self.me}, which did not ask")
        self.permissions.add(sender)
        self._enter_if_permitted(out)

    def _enter_if_permitted(self, out: Outbox[Message]) -> None:
        if not self._lacking():
            out.tell(Entered())

    def _lacking(self) -> set[ProcessId]:
        return set(range(1, self.size + 1)) - {self.me} - self.permissions
