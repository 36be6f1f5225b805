"""Mutual exclusion by quorums that meet (Maekawa, 1985; Sanders, 1987): 3(K - 1) messages, idle.

Every process is also an arbiter that is locked for one request at a time. To enter, lock a whole
quorum of K arbiters; any two quorums share one, so two requests never have all they need. Requests
that hold part of a quorum each could wait for one another forever, so an arbiter asks for its lock
back when an older request comes, and a process that is not inside yet gives it back at once.
"""

from __future__ import annotations

from bisect import insort
from typing import Any, ClassVar

from msgspec import field

from coterie.algorithms.mutex.quorum.maekawa.messages import (
    Failed,
    Inquire,
    Locked,
    Message,
    Release,
    Relinquish,
    Request,
)
from coterie.clocks import LogicalTime, Stamp
from coterie.errors import ProtocolError
from coterie.process import Entered, Mutex, Outbox, ProcessId


class Maekawa(Mutex[Message]):
    """A requester and an arbiter in one."""

    messages: ClassVar[Any] = Message

    quorum: tuple[ProcessId, ...]  # the arbiters we need; any two quorums have a common one
    highest: LogicalTime = 0  # highest request time used, received or heard of

    stamp: Stamp | None = None  # of our own request, kept until release
    locked: set[ProcessId] = field(default_factory=set)  # arbiters locked for us
    inquiries: set[ProcessId] = field(default_factory=set)  # arbiters that still want an answer

    owner: Stamp | None = None  # as an arbiter: the request we are locked for
    queue: list[Stamp] = field(default_factory=list)  # as an arbiter: those that wait, oldest first
    inquired: bool = False  # as an arbiter: the owner was asked to give us back

    def acquire(self, out: Outbox[Message]) -> None:
        """Ask the whole quorum."""
        self.highest += 1
        self.stamp = Stamp(self.highest, self.me)
        out.broadcast(self.quorum, Request(self.stamp))

    def release(self, out: Outbox[Message]) -> None:
        """Unlock the whole quorum."""
        assert self.stamp is not None
        out.broadcast(self.quorum, Release(self.stamp))
        self.stamp = None
        self.locked.clear()
        self.inquiries.clear()

    def awaits(self) -> tuple[ProcessId, ...]:
        """Name the arbiters that are not locked for us."""
        return tuple(arbiter for arbiter in self.quorum if arbiter not in self.locked)

    def lent_to(self) -> ProcessId | None:
        """Name the process that we are locked for."""
        return 0 if self.owner is None else self.owner.process

    def receive(self, sender: ProcessId, message: Message, out: Outbox[Message]) -> None:
        """Handle a message by the rule of its kind."""
        match message:
            case Request(stamp):
                self._lock_or_queue(stamp, out)
            case Locked(stamp, highest):
                # Bounds overtaking. Say a request R has reached its quorum. Each other process
                # needs an arbiter that R waits for, and gets it twice at most before R: by a
                # lock from before R came, and by one whose `highest` is at least R's time. What
                # it asks after that is younger than R, and waits for R at the common arbiter.
                self.highest = max(self.highest, highest)
                self._count(sender, stamp, out)
            case Failed(stamp):
                self._lose_hope(sender, stamp, out)
            case Inquire(stamp):
                self._answer_if_outside(sender, stamp, out)
            case Relinquish(stamp):
                self._require_owner(stamp)
                insort(self.queue, stamp)
                self._lock_oldest(out)
            case Release(stamp):
                self._require_owner(stamp)
                self._lock_oldest(out)

    def _lock_or_queue(self, stamp: Stamp, out: Outbox[Message]) -> None:
        self.highest = max(self.highest, stamp.time)
        insort(self.queue, stamp)
        if self.owner is None:
            self._lock_oldest(out)
        else:
            self._contend(stamp, self.owner, out)

    def _contend(self, stamp: Stamp, owner: Stamp, out: Outbox[Message]) -> None:
        """Ask the owner to give way to an older request. Ages order totally, so no cycle forms."""
        if stamp < owner:
            self._inquire_once(owner, out)

    def _inquire_once(self, owner: Stamp, out: Outbox[Message]) -> None:
        if not self.inquired:
            self.inquired = True
            out.send(owner.process, Inquire(owner))

    def _count(self, sender: ProcessId, stamp: Stamp, out: Outbox[Message]) -> None:
        if stamp != self.stamp or sender in self.locked:
            raise ProtocolError(f"process {sender} locked itself for {stamp}, which is not asked")
        self.locked.add(sender)
        if self._inside():
            out.tell(Entered())
        else:
            self._yield_if_asked(out)

    def _answer_if_outside(self, sender: ProcessId, stamp: Stamp, out: Outbox[Message]) -> None:
        # An inquiry may come late, when we are inside or even gone: Release is its answer then.
        if stamp == self.stamp and not self._inside():
            self.inquiries.add(sender)
            self._yield_if_asked(out)

    def _yield_if_asked(self, out: Outbox[Message]) -> None:
        """Give back what was asked for. An inquiry that overtook its lock waits for it."""
        assert self.stamp is not None
        for arbiter in sorted(self.inquiries & self.locked):
            self.inquiries.remove(arbiter)
            self.locked.remove(arbiter)
            out.send(arbiter, Relinquish(self.stamp))

    def _lose_hope(self, sender: ProcessId, stamp: Stamp, out: Outbox[Message]) -> None:
        raise ProtocolError(f"process {sender} failed {stamp}, by rules that we do not follow")

    def _lock_oldest(self, out: Outbox[Message]) -> None:
        self.inquired = False
        self.owner = self.queue.pop(0) if self.queue else None
        if self.owner is not None:
            out.send(self.owner.process, Locked(self.owner, self.highest))

    def _require_owner(self, stamp: Stamp) -> None:
        if stamp != self.owner:
            raise ProtocolError(f"{stamp} gave back process {self.me}, locked for {self.owner}")

    def _inside(self) -> bool:
        return len(self.locked) == len(self.quorum)
