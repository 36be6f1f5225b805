"""Mutual exclusion that survives crashes (1996, repaired): others stand in for the dead.

While nobody fails this is Maekawa's algorithm. When a crash is detected everybody hears of it, puts
the same stand-in for the dead process into all quorums, and enters nothing until it is certain that
everybody has heard, and that whoever is inside by a quorum of before has said so. A process that
comes back without memory takes its place again in the same way.
"""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec import field

from coterie.clocks import Stamp
from coterie.errors import ProtocolError
from coterie.mutex.quorum.fault_tolerant.membership import JOINING, Membership
from coterie.mutex.quorum.fault_tolerant.messages import (
    Allright,
    Hold,
    IsAllright,
    Message,
    News,
    Talk,
    Unhold,
)
from coterie.mutex.quorum.maekawa.messages import (
    Failed,
    Inquire,
    Locked,
    Release,
    Relinquish,
    Request,
)
from coterie.process import Channel, Entered, Outbox, ProcessId

QUARANTINE = "QUARANTINE"  # after news; we do not enter


class FaultTolerant(Membership, kw_only=True):
    """A requester and an arbiter that may outlive all others."""

    messages: ClassVar[Any] = Message
    channel: ClassVar[Channel] = Channel.FIFO

    asked: set[ProcessId] = field(default_factory=set)  # arbiters who have our request
    inside: bool = False
    wanting: bool = False  # acquire was called while we were joining

    quarantined: bool = False
    holders: set[ProcessId] = field(default_factory=set)  # inside, by a quorum of before
    holding: bool = False  # we are such a one

    def acquire(self, out: Outbox[Any]) -> None:
        """Ask a quorum of the present coterie."""
        if self.joining:
            self.wanting = True
            return
        self.highest += 1
        self.stamp = Stamp(self.highest, self.me)
        self._ask_quorum(self.coterie().quorum_for(self.me), out)
        self._watch(out)

    def release(self, out: Outbox[Any]) -> None:
        """Unlock everybody who was asked, needed in the end or not."""
        assert self.stamp is not None
        out.broadcast(self.asked, Release(self.stamp))
        if self.holding:
            out.broadcast(self._alive(), Unhold())
        self.stamp = None
        self.inside = self.holding = False
        for arbiters in (self.asked, self.locked, self.inquiries):
            arbiters.clear()
        self._watch(out)

    def receive(self, sender: ProcessId, message: Message, out: Outbox[Any]) -> None:
        """Handle news from anybody, the rest from those who know us as we are."""
        if isinstance(message, News):
            self._take_news(sender, message, out)
        elif sender not in self.strangers:
            self._talk(sender, message, out)
        self._watch(out)

    def ring(self, timer: str, out: Outbox[Any]) -> None:
        """End the joining or the quarantine, or go on looking for the dead."""
        if timer == JOINING:
            self.joining = False
            self._begin_quarantine(out)
            if self.wanting:
                self.wanting = False
                self.acquire(out)
        elif timer == QUARANTINE:
            self.quarantined = False
            self._enter_if_permitted(out)
        else:
            self._ring_for(timer, out)
        self._watch(out)

    def facts(self) -> dict[str, Any]:
        """Show the coterie and who is down, as far as this process knows."""
        quorums = [sorted(quorum) for quorum in self.coterie().quorums]
        return {"coterie": quorums, "down": sorted(self._down())}

    def _talk(self, sender: ProcessId, message: Talk, out: Outbox[Any]) -> None:
        match message:
            case IsAllright():
                out.send(sender, Allright())
            case Allright():
                self._wait_on(sender, out)
            case Hold():
                self.holders.add(sender)
            case Unhold():
                self.holders.discard(sender)
                self._enter_if_permitted(out)
            case Release(stamp) if stamp in self.queue:
                self.queue.remove(stamp)  # it entered by a quorum that needs us no more
            case Request() | Locked() | Failed() | Inquire() | Relinquish() | Release():
                super().receive(sender, message, out)

    def _ask_quorum(self, quorum: frozenset[ProcessId], out: Outbox[Any]) -> None:
        assert self.stamp is not None
        self.quorum = tuple(sorted(quorum))
        out.broadcast(quorum - self.asked, Request(self.stamp))
        self.asked |= quorum

    def _count(self, sender: ProcessId, stamp: Stamp, out: Outbox[Any]) -> None:
        if stamp != self.stamp:
            return  # not needed in the end, and unlocked since
        if sender in self.locked:
            raise ProtocolError(f"process {sender} locked itself for {stamp} twice")
        self.locked.add(sender)
        self._enter_if_permitted(out)
        if not self.inside:
            self._yield_if_asked(out)

    def _enter_if_permitted(self, out: Outbox[Any]) -> None:
        waiting = self.stamp is not None and not self.inside
        if waiting and not self.quarantined and not self.holders and self._has_quorum():
            self.inside = True
            out.tell(Entered())

    def _has_quorum(self) -> bool:
        return self.locked.issuperset(self.quorum)

    def _inside(self) -> bool:
        return self.inside

    def _awaited(self) -> set[ProcessId]:
        awaited: set[ProcessId] = set()
        if self.stamp is not None and not self.inside:
            awaited = set(self.quorum) - self.locked | self.holders
        if self.owner is not None:
            awaited.add(self.owner.process)
        return awaited - {self.me}

    def _forget(self, process: ProcessId, out: Outbox[Any]) -> None:
        for peers in (self.asked, self.locked, self.inquiries, self.holders):
            peers.discard(process)
        self.queue = [stamp for stamp in self.queue if stamp.process != process]
        if self.owner is not None and self.owner.process == process:
            self._lock_oldest(out)

    def _react(self, process: ProcessId, out: Outbox[Any]) -> None:
        """Let nobody in for a while; move a request that needs the process to another quorum."""
        back = process in self._alive()
        self._hold_if_inside(process, out, back=back)
        self._begin_quarantine(out)
        if self.stamp is not None and not self.inside and (back or process in self.quorum):
            self._ask_quorum(self._cheapest_quorum(), out)

    def _cheapest_quorum(self) -> frozenset[ProcessId]:
        """Choose where the fewest arbiters are new: some quorum has all the others (theorem 2)."""
        return min(self.coterie().quorums, key=lambda quorum: len(quorum - self.asked))

    def _hold_if_inside(self, process: ProcessId, out: Outbox[Any], *, back: bool) -> None:
        """Say that we are inside, to all whose quorums may not meet ours any more."""
        if self.inside and self.holding and back:
            out.send(process, Hold())
        elif self.inside and not self.holding and (back or process in self.quorum):
            self.holding = True
            out.broadcast(self._alive(), Hold())

    def _begin_quarantine(self, out: Outbox[Any]) -> None:
        self.quarantined = True
        out.set_timer(QUARANTINE, self._quarantine())

    def _quarantine(self) -> float:
        return self.settings.quarantine
