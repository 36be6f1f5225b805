"""The mutex of naive.py, put right: requests are numbered, and the older one goes first.

A process that waits keeps its reply from those that have asked later than itself. That is the
algorithm of Ricart and Agrawala (1981), in 2(N - 1) messages an entry.
"""

from __future__ import annotations

from typing import TypeAlias

from coterie.clocks import LogicalTime, Stamp
from coterie.process import Entered, Mutex, Outbox, Payload, ProcessId


class Request(Payload, frozen=True):
    """May I enter? The stamp says when it was asked, and who asked."""

    stamp: Stamp


class Reply(Payload, frozen=True):
    """You may, as far as I am concerned."""


Message: TypeAlias = Request | Reply


class Ordered(Mutex[Message]):
    """Enter when all have agreed; keep those waiting that have asked later."""

    size: int
    highest: LogicalTime = 0  # of all requests seen or made
    stamp: Stamp | None = None  # of the own request, kept until release
    awaiting: set[ProcessId] = set()  # peers that have not replied yet
    deferred: set[ProcessId] = set()  # peers that get their reply when this one leaves

    def acquire(self, out: Outbox[Message]) -> None:
        """Ask every peer."""
        self.highest += 1
        self.stamp = Stamp(self.highest, self.me)
        self.awaiting = {peer for peer in range(1, self.size + 1) if peer != self.me}
        out.broadcast(self.awaiting, Request(self.stamp))
        self._enter_if_unopposed(out)  # at once, if there is no peer

    def release(self, out: Outbox[Message]) -> None:
        """Reply to the peers that were kept waiting."""
        self.stamp = None
        out.broadcast(self.deferred, Reply())
        self.deferred.clear()

    def receive(self, sender: ProcessId, message: Message, out: Outbox[Message]) -> None:
        """Agree, unless the own request is older; enter with the last reply."""
        match message:
            case Request(stamp):
                self.highest = max(self.highest, stamp.time)
                if self.stamp is not None and self.stamp < stamp:  # always so while inside
                    self.deferred.add(sender)
                else:
                    out.send(sender, Reply())
            case Reply():
                self.awaiting.remove(sender)
                self._enter_if_unopposed(out)

    def awaits(self) -> tuple[ProcessId, ...]:
        """Name the peers that have not replied, for people who ask why a process waits."""
        return tuple(sorted(self.awaiting))

    def _enter_if_unopposed(self, out: Outbox[Message]) -> None:
        if not self.awaiting:
            out.tell(Entered())
