"""Mutual exclusion that survives crashes (1996, repaired): others stand in for the dead.

While no process fails this is Maekawa's algorithm. A process that waits for another one waits T_max,
asks it, and takes it for dead if no answer comes within T_d. That is accurate because an answer
takes no longer than T_d: two messages and a reply. The news spreads to all; each puts the same
stand-in for the dead process into all quorums, and enters nothing until it is certain that all have
heard, and that a process that is inside by a quorum of before has said so. A process that comes back
without memory takes its place again in the same way.

Why two are never inside is argued in docs/fault-tolerance.md by three rules, *relay*, *hold* and
*quarantine*; the lines that they rest on name them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import field

from coterie.algorithms.mutex.quorum.fault_tolerant.membership import MemberVersions, news
from coterie.algorithms.mutex.quorum.fault_tolerant.messages import (
    Allright,
    Down,
    Hold,
    IsAllright,
    Message,
    News,
    Talk,
    Unhold,
    Up,
    Welcome,
)
from coterie.algorithms.mutex.quorum.fault_tolerant.settings import Settings
from coterie.algorithms.mutex.quorum.maekawa.eager import Maekawa
from coterie.algorithms.mutex.quorum.maekawa.messages import (
    Failed,
    Inquire,
    Locked,
    Release,
    Relinquish,
    Request,
)
from coterie.clocks import Stamp
from coterie.errors import ProtocolError
from coterie.process import Channel, Entered, Outbox, ProcessId

if TYPE_CHECKING:
    from coterie.coteries import Coterie

T_MAX = "T_max-"  # and the process awaited
T_D = "T_d-"
JOINING = "JOINING"  # we are back without memory, and do not know yet which others are there
QUARANTINE = "QUARANTINE"  # after news; we do not enter


class FaultTolerant(Maekawa, kw_only=True):
    """A requester and an arbiter that may outlive all others."""

    messages: ClassVar[Any] = Message
    channel: ClassVar[Channel] = Channel.FIFO

    settings: Settings
    patience: list[float] = field(default_factory=list)  # of 1 to N: until we ask; 0: not awaited
    probed: set[ProcessId] = field(default_factory=set)  # those we have asked

    versions: list[int] = field(default_factory=list)  # of 1 to N: see membership
    strangers: set[ProcessId] = field(default_factory=set)  # what they send is for, or of, the dead
    joining: bool = False

    asked: set[ProcessId] = field(default_factory=set)  # arbiters that have our request
    inside: bool = False
    wanting: bool = False  # acquire was called while we were joining

    quarantined: bool = False
    holders: set[ProcessId] = field(default_factory=set)  # inside, by a quorum of before
    holding: bool = False  # we are such a one

    def __post_init__(self) -> None:
        """Begin with all processes up for the first time, and none awaited."""
        self.patience = self.patience or [0.0] * len(self.settings.members)
        self.versions = self.versions or [0] * len(self.settings.members)

    @property
    def membership(self) -> MemberVersions:
        """Who is down, and which quorums follow, as far as this process knows."""
        return MemberVersions(self.settings, self.versions)

    def coterie(self) -> Coterie:
        """Return the coterie in which others stand in for those that are down."""
        return self.membership.coterie()

    def delay_max(self) -> float:
        """Return sigma: an answer that comes later is taken for a crash."""
        return self.settings.sigma

    def handling_max(self) -> float:
        """Return lambda, within which a message that has arrived is handled."""
        return self.settings.lambda_

    def facts(self) -> dict[str, Any]:
        """Show the coterie and which processes are down, as far as this process knows."""
        quorums = [sorted(quorum) for quorum in self.coterie().quorums]
        return {"coterie": quorums, "down": sorted(self.membership.down())}

    # Inputs

    def start(self, out: Outbox[Any]) -> None:
        """Begin; without memory, with all others still to be met."""
        if out.incarnation:
            self.versions[self.me - 1] = 2 * out.incarnation
            self.strangers = self._alive()
            self.joining = True
            out.broadcast(self._alive(), Up(self.me, out.incarnation))
            out.set_timer(JOINING, self.settings.t_d)

    def awaits(self) -> tuple[ProcessId, ...]:
        """Name the arbiters that have our request and are not locked for us."""
        return tuple(sorted(self.asked - self.locked))

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
        """Unlock all arbiters that were asked, needed in the end or not."""
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
        """Handle news from any process, the rest from those that know us as we are."""
        if isinstance(message, News):
            self._take_news(sender, message, out)
        elif sender not in self.strangers:
            # Links keep the order, so what a stranger sends was sent to, or by, an incarnation
            # that has crashed: a lock or a Hold among it would be minded without end.
            self._talk(sender, message, out)
        self._watch(out)

    def ring(self, timer: str, out: Outbox[Any]) -> None:
        """End the joining or the quarantine, or go on looking for the dead."""
        if timer == JOINING:
            self.joining = False
            # What a Welcome has told us was relayed by its sender, and a Hold that follows from it
            # comes by 3(sigma + lambda) after our Up: before joining and quarantine are over.
            self._begin_quarantine(out)
            if self.wanting:
                self.wanting = False
                self.acquire(out)
        elif timer == QUARANTINE:
            self.quarantined = False
            self._enter_if_permitted(out)
        elif timer.startswith(T_MAX):
            self._probe(int(timer.removeprefix(T_MAX)), out)
        else:
            self._declare_down(int(timer.removeprefix(T_D)), out)
        self._watch(out)

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

    # Locking a quorum

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
        # A quorum alone does not exclude: another process may be inside by a quorum of before the
        # news, which need not meet ours. While quarantined we may not have heard of it yet; once
        # the quarantine is over, it is among the holders until it has left, or has crashed.
        if waiting and not self.quarantined and not self.holders and self._has_quorum():
            self.inside = True
            out.tell(Entered())

    def _has_quorum(self) -> bool:
        return self.locked.issuperset(self.quorum)

    def _inside(self) -> bool:
        return self.inside

    # Step 1 of 1996: is the process there that keeps us waiting?

    def _watch(self, out: Outbox[Any]) -> None:
        """Start a timer for each that we begin to wait for, and stop those that are out of date."""
        awaited = self._awaited()
        for peer, patience in enumerate(self.patience, 1):
            if patience and peer not in awaited:
                self._unwatch(peer, out)
        for peer in sorted(awaited):
            if not self.patience[peer - 1]:
                self._wait(peer, self.settings.t_max, out)

    def _awaited(self) -> set[ProcessId]:
        """Return the processes without whose message we do not get on."""
        awaited: set[ProcessId] = set()
        if self.stamp is not None and not self.inside:
            awaited = set(self.quorum) - self.locked | self.holders
        if self.owner is not None:
            awaited.add(self.owner.process)
        return awaited - {self.me}

    def _wait(self, peer: ProcessId, patience: float, out: Outbox[Any]) -> None:
        self.patience[peer - 1] = patience
        out.set_timer(f"{T_MAX}{peer}", patience)

    def _unwatch(self, peer: ProcessId, out: Outbox[Any]) -> None:
        if self.patience[peer - 1]:
            self.patience[peer - 1] = 0.0
            out.cancel_timer(f"{T_D if peer in self.probed else T_MAX}{peer}")
            self.probed.discard(peer)

    def _probe(self, peer: ProcessId, out: Outbox[Any]) -> None:
        self.probed.add(peer)
        out.send(peer, IsAllright())
        out.set_timer(f"{T_D}{peer}", self.settings.t_d)

    def _wait_on(self, peer: ProcessId, out: Outbox[Any]) -> None:
        """Wait again, twice as long: what keeps us waiting is not a crash."""
        if peer in self.probed:  # else we have stopped waiting since we asked
            self.probed.remove(peer)
            out.cancel_timer(f"{T_D}{peer}")
            patience = 2 * self.patience[peer - 1]
            self._wait(peer, min(patience, self.settings.patience_max), out)

    def _declare_down(self, peer: ProcessId, out: Outbox[Any]) -> None:
        # Accurate: a live process has received the question after sigma, has answered after lambda
        # more, and its answer has been here after another sigma, which is T_d. Everything that the
        # dead process ever sent has arrived by now, everywhere.
        self._learn(peer, self.versions[peer - 1] + 1, out)

    # News, and what follows from it

    def _alive(self) -> set[ProcessId]:
        return self.membership.alive() - {self.me}

    def _take_news(self, sender: ProcessId, message: News, out: Outbox[Any]) -> None:
        match message:
            case Down(process, incarnation):
                self._hear(process, 2 * incarnation + 1, out)
            case Up(process, incarnation):
                self._hear(process, 2 * incarnation, out)
                self._meet(sender, process, 2 * incarnation)
            case Welcome():
                self._join(sender, message, out)

    def _hear(self, process: ProcessId, version: int, out: Outbox[Any]) -> None:
        if self.membership.is_news(process, version):
            self._learn(process, version, out)

    def _learn(self, process: ProcessId, version: int, out: Outbox[Any]) -> None:
        """Pass news on, then act on it. To come back is also to have been down."""
        if process == self.me:
            raise ProtocolError(f"process {self.me} was taken for dead: a message came too late")
        # Relay, and relay first: what we do next may lock an arbiter or let a process in, and the
        # first to hear may crash half-way through telling. So all that live have the news within
        # sigma + lambda of the first that acts on it, or none ever acts on it.
        out.broadcast(self._alive() - {process}, news(process, version))
        self._note(process, version, out)
        self._react(process, out)

    def _note(self, process: ProcessId, version: int, out: Outbox[Any]) -> None:
        """Know a process as what it is now; it listens to us from our Welcome on."""
        self.versions[process - 1] = version
        self.strangers.add(process)
        self._unwatch(process, out)
        self._forget(process, out)
        if version % 2 == 0:
            out.send(process, Welcome(version // 2, self.highest, tuple(self.versions)))

    def _forget(self, process: ProcessId, out: Outbox[Any]) -> None:
        """Drop all that we have from a process that has lost it, or owe to it."""
        for peers in (self.asked, self.locked, self.inquiries, self.holders):
            peers.discard(process)
        self.queue = [stamp for stamp in self.queue if stamp.process != process]
        if self.owner is not None and self.owner.process == process:
            self._lock_oldest(out)

    def _react(self, process: ProcessId, out: Outbox[Any]) -> None:
        """Let no process in for a while; move a request that needs this one to another quorum."""
        back = process in self._alive()
        self._hold_if_inside(process, out, back=back)
        self._begin_quarantine(out)
        if self.stamp is not None and not self.inside and (back or process in self.quorum):
            self._ask_quorum(self._cheapest_quorum(), out)

    def _cheapest_quorum(self) -> frozenset[ProcessId]:
        """Choose where the fewest arbiters are new: some quorum has all the others (theorem 2)."""
        return min(self.coterie().quorums, key=lambda quorum: len(quorum - self.asked))

    def _hold_if_inside(self, process: ProcessId, out: Outbox[Any], *, back: bool) -> None:
        """Hold: say that we are inside, to all processes whose quorums may not meet ours any more.

        Quorums of the new coterie are images of old ones, in which another process stands in for
        the dead one. An image meets the image of our quorum, which is our quorum itself unless the
        dead process is in it: only then, or when a process takes its place again, may another one
        lock a whole quorum while we are inside. The paper forgets this case (theorem 3 looks only
        at processes that are about to enter).
        """
        if self.inside and self.holding and back:
            out.send(process, Hold())  # it was not there when the others were told
        elif self.inside and not self.holding and (back or process in self.quorum):
            self.holding = True
            out.broadcast(self._alive(), Hold())

    def _begin_quarantine(self, out: Outbox[Any]) -> None:
        # Quarantine: our relay reaches a process inside within lambda + sigma, and its Hold reaches
        # us within as long again. So do not enter for longer than 2(sigma + lambda) after any news;
        # news during a quarantine begins another one, since its own Hold may be under way.
        self.quarantined = True
        out.set_timer(QUARANTINE, self._quarantine())

    def _quarantine(self) -> float:
        return self.settings.quarantine

    # Coming back

    def _meet(self, sender: ProcessId, process: ProcessId, version: int) -> None:
        """Listen to a process from when it speaks as what we know it to be; links keep the order."""
        if sender == process and version == self.versions[process - 1]:
            self.strangers.discard(sender)

    def _join(self, sender: ProcessId, welcome: Welcome, out: Outbox[Any]) -> None:
        """Learn from a process that knows we are back; what it sent before was for who we were."""
        if 2 * welcome.incarnation != self.versions[self.me - 1]:
            return
        self.highest = max(self.highest, welcome.time)
        for process, version in enumerate(welcome.versions, 1):
            if not self.joining:
                self._hear(process, version, out)
            elif self.membership.is_news(process, version):
                # Not relayed: the sender has done so. Nor quarantined: that follows the joining.
                self._note(process, version, out)
        self._meet(sender, sender, welcome.versions[sender - 1])
