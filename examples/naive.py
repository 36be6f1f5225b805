"""A mutex that looks right: ask every peer, enter when all have agreed. It is wrong.

A process that waits agrees to whatever it is asked, so two that ask at the same time both enter.
"""

from __future__ import annotations

from typing import TypeAlias

from coterie.process import Entered, Mutex, Outbox, Payload, ProcessId


class Request(Payload, frozen=True):
    """May I enter?"""


class Reply(Payload, frozen=True):
    """You may, as far as I am concerned."""


Message: TypeAlias = Request | Reply


class Naive(Mutex[Message]):
    """Enter when all have agreed; keep others waiting only while inside."""

    size: int
    inside: bool = False
    awaiting: set[ProcessId] = set()  # peers that have not replied yet
    deferred: set[ProcessId] = set()  # peers that get their reply when this one leaves

    def acquire(self, out: Outbox[Message]) -> None:
        """Ask every peer."""
        self.awaiting = {peer for peer in range(1, self.size + 1) if peer != self.me}
        out.broadcast(self.awaiting, Request())
        self._enter_if_unopposed(out)  # at once, if there is no peer

    def release(self, out: Outbox[Message]) -> None:
        """Reply to the peers that were kept waiting."""
        self.inside = False
        out.broadcast(self.deferred, Reply())
        self.deferred.clear()

    def receive(self, sender: ProcessId, message: Message, out: Outbox[Message]) -> None:
        """Agree, unless inside; enter with the last reply."""
        match message:
            case Request() if self.inside:
                self.deferred.add(sender)
            case Request():
                out.send(sender, Reply())
            case Reply():
                self.awaiting.remove(sender)
                self._enter_if_unopposed(out)

    def _enter_if_unopposed(self, out: Outbox[Message]) -> None:
        if not self.awaiting:
            self.inside = True
            out.tell(Entered())
