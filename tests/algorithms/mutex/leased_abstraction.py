"""The leased lock with time taken out of it, so that every interleaving can be explored.

The explorer has no clock and lets timers ring at any moment. What the protocol needs of time is the
lease lemma: a voter expires a session, or ends its abstention, only after the leases in question
have lapsed at the participant. Here a lapse is a step of the participant (its clock jumps by more
than a lease), and it leaves a mark on the same links as the frames. A voter may expire the session
any time after it has got the mark, unless a later frame of the session came; and one that has started
again may end its abstention when it has got a mark of everybody. All orders that clocks within their
bound allow are among these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import field

from coterie.algorithms.mutex.quorum.leased.bid import State
from coterie.algorithms.mutex.quorum.leased.configuration import Configuration, founding
from coterie.algorithms.mutex.quorum.leased.frames import (
    Beat,
    Behind,
    Data,
    Frame,
    Obituary,
    Stale,
)
from coterie.algorithms.mutex.quorum.leased.participant import PARTICIPANT, participant
from coterie.algorithms.mutex.quorum.leased.process import LOCK, Leased
from coterie.algorithms.mutex.quorum.leased.voter import VOTER, Voter
from coterie.lab.explore import (
    Always,
    CanAlwaysStill,
    Property,
    Sometimes,
    Together,
    at_least,
    at_most,
    not_waiting,
)
from coterie.process import Outbox, Payload, ProcessId, Seat

if TYPE_CHECKING:
    from collections.abc import Container

    from coterie.algorithms.mutex.quorum.leased.settings import Settings

LAPSE = "lapse"
REBOOT = "reboot"
MARKS_END = "abstention"
HEARSAY = "hearsay"


class Mark(Payload, frozen=True):
    """All leases that stem from frames sent before this have lapsed."""

    name: str


Message: TypeAlias = Frame | Mark


class Timeless(Leased):
    """A process whose clock moves by lapses only."""

    lapses: int = 0  # that may still happen here
    reboots: int = 0
    time: float = 0.0
    starts: int = 0
    participants: int = 2
    voters: int = 0  # processes 1 to this one vote, or may become voters
    origin: Configuration | None = None  # of its voter, before anything was saved
    disk: bytes = b""
    watchful: bool = False  # is told of crashes
    witnesses: bool = False  # has seen them, as a process of the same machine does
    shared: bool = False  # asks for the lock in shared mode
    announces: bool = False  # says each time that a task behind it wants the lock alone
    marks: set[str] = field(default_factory=set)  # got since the last start
    gone: set[ProcessId] = field(default_factory=set)  # crashed; what they sent may still come

    def start(self, out: Outbox[Any]) -> None:
        super().start(out)
        if self.witnesses and self.voter is None:
            self.participant.live(f"machine {self.me},{self.me}", out)
        elif self.witnesses:
            out.set_timer(HEARSAY, 0)
        if self.watchful:
            for peer in range(1, self.voters + self.participants + 1):
                if peer != self.me:
                    out.watch(peer)
        if self.lapses:
            out.set_timer(LAPSE, 0)
        if self.reboots:
            out.set_timer(REBOOT, 0)

    def acquire(self, out: Outbox[Any]) -> None:
        out.now = self.time
        self.participant.acquire(LOCK, out, shared=self.shared)
        if self.announces and self.participant.is_shared(LOCK):
            self.participant.announce(LOCK, self.participant.sessions.clock + 1, out)

    def release(self, out: Outbox[Any]) -> None:
        out.now = self.time
        super().release(out)

    def receive(self, sender: ProcessId, message: Message, out: Outbox[Any]) -> None:
        out.now = self.time
        if isinstance(message, Mark):
            self._take_mark(message.name, out)
            return
        known = list(self.participant.sessions.voters)
        super().receive(sender, message, out)
        if isinstance(message, Data | Beat):
            self._note_renewal(sender, message.session.participant, out)
        self._note_what_is_saved(out)
        for peer in sorted(self.gone.difference(known)):
            self._give_up(peer, out)

    def _note_renewal(self, sender: ProcessId, name: str, out: Outbox[Any]) -> None:
        if sender in self.gone:
            self._end(name, out)
        elif not any(isinstance(frame, Stale | Behind) for _, frame in out.sends):
            out.cancel_timer(f"expire {name}")

    def _note_what_is_saved(self, out: Outbox[Any]) -> None:
        if out.to_save is not None and self.reboots:
            self.disk = out.to_save

    def _give_up(self, peer: ProcessId, out: Outbox[Any]) -> None:
        """Tell the participant of a crash, if it knows that this is a voter."""
        if peer in self.participant.sessions.voters:
            self.participant.down(peer, out)

    def ring(self, timer: str, out: Outbox[Any]) -> None:
        out.now = self.time
        if timer == LAPSE:
            self._lapse(out)
        elif timer == REBOOT:
            self._reboot(out)
        elif timer == MARKS_END:
            assert self.voter is not None
            self.voter.abstains_until = out.now
            self.voter.ring(VOTER, out)
            self._note_what_is_saved(out)
        elif timer == HEARSAY:
            self._hear_of_a_part(out)
        elif timer.startswith("expire "):
            self._expire(timer.removeprefix("expire "), out)
        elif timer == PARTICIPANT:
            self.participant.ring(timer, out)
        else:
            out.set_timer(timer, 0)  # no session expires by the voter's own clock here

    def down(self, peer: ProcessId, out: Outbox[Any]) -> None:
        """Take the report of a crash for the end of all patience with that process."""
        out.now = self.time
        self.gone.add(peer)
        if self.voter is not None:
            for name in [n for n, link in self.voter.sessions.items() if link.peer == peer]:
                self._end(name, out)
        self._give_up(peer, out)

    def _lapse(self, out: Outbox[Any]) -> None:
        self.lapses -= 1
        self.time += self.participant.settings.lease + 1
        out.now = self.time
        name = self.participant.sessions.name
        out.broadcast(range(1, self.voters + 1), Mark(name))
        self.participant.ring(PARTICIPANT, out)
        if self.lapses:
            out.set_timer(LAPSE, 0)

    def _take_mark(self, name: str, out: Outbox[Any]) -> None:
        assert self.voter is not None
        self.marks.add(name)
        if name in self.voter.sessions:
            out.set_timer(f"expire {name}", 0)
        if self.voter.abstains() and len(self.marks) == self.participants:
            out.set_timer(MARKS_END, 0)

    def _end(self, name: str, out: Outbox[Any]) -> None:
        """End the session of a process that has crashed: by an obituary, once, where one comes."""
        assert self.voter is not None
        if not self.witnesses:
            self._expire(name, out)
        elif name in self.voter.sessions and name not in self.voter.buried:
            life = self.voter.sessions[name].life
            self.voter.receive(self.me, Obituary(name, life), out)
            self._note_what_is_saved(out)

    def _hear_of_a_part(self, out: Outbox[Any]) -> None:
        """Hear of the end of one process of each program, which has another one."""
        assert self.voter is not None
        for name, link in list(self.voter.sessions.items()):
            part, _, _ = link.life.partition(",")
            self.voter.receive(self.me, Obituary(name, part), out)

    def _expire(self, name: str, out: Outbox[Any]) -> None:
        assert self.voter is not None
        self.voter.end_session(name, out)

    def _reboot(self, out: Outbox[Any]) -> None:
        """Forget everything but what was saved."""
        assert self.voter is not None
        self.reboots -= 1
        self.starts += 1
        out.saved = self.disk
        for name in self.voter.sessions:
            out.cancel_timer(f"expire {name}")
        self.marks.clear()
        self.voter = Voter(self.origin)
        self.voter.start(f"{self.me}.{self.starts}", out)


def valid(seat: Seat) -> bool:
    """Return whether the lock is this process's own."""
    process = seat.process
    assert isinstance(process, Timeless)
    return process.participant.valid(LOCK, process.time)


def alone(seat: Seat) -> bool:
    """Return whether the lock is this process's own, and no other may share it."""
    assert isinstance(seat.process, Timeless)
    return valid(seat) and not seat.process.shared


def alone_or_shared(seats: object) -> bool:
    """Return whether a process that asked for the lock alone is alone."""
    assert isinstance(seats, list | tuple)
    holders = [seat for seat in seats if seat is not None and valid(seat)]
    return len(holders) == 1 or not any(alone(seat) for seat in holders)


def largest_is_in_force(seats: object) -> bool:
    """Return whether every hold that a quorum of voters has on record has the largest token of all.

    Among those that share there is no order, and they may have the same one.
    """
    assert isinstance(seats, list | tuple)
    processes = [seat.process for seat in seats if seat is not None]
    holds = {
        process.participant.sessions.name: bid
        for process in processes
        if (bid := process.participant.bids.get(LOCK)) and bid.state is State.HELD
    }
    for name, bid in holds.items():
        owned = [process.me for process in processes if _supports(process, name, bid.number)]
        quorums = next(
            process.participant.quorums
            for process in processes
            if process.participant.sessions.name == name
        )
        rivals = [b for b in holds.values() if b is not bid and not (b.shared and bid.shared)]
        if any(bid.token == rival.token for rival in rivals):
            return False
        overtaken = any(bid.token < rival.token for rival in rivals)
        if overtaken and quorums.contains_quorum(owned):
            return False
    return True


def dead_are_gone(seats: object) -> bool:
    """Return whether no voter serves a process of whose end it has heard."""
    assert isinstance(seats, list | tuple)
    voters = [seat.process.voter for seat in seats if seat is not None and seat.process.voter]
    return not any(name in voter.sessions for voter in voters for name in voter.buried)


def _supports(process: Timeless, name: str, number: int) -> bool:
    ballot = process.voter.ballots.get(LOCK) if process.voter else None
    return bool(ballot and ballot.owned_by(name, number))


SAFETY: tuple[Property, ...] = (
    Always("mutual exclusion", (at_most(1, valid),), "two hold the lock"),
    Always("fencing", (Together(largest_is_in_force),), "a token is used twice or out of order"),
    Sometimes("a hold", (at_least(1, valid),)),
)
SHARING: tuple[Property, ...] = (
    Always(
        "alone or shared", (Together(alone_or_shared),), "a process that should be alone is not"
    ),
    Always("fencing", (Together(largest_is_in_force),), "a token is used twice or out of order"),
    Sometimes("two share", (at_least(2, valid),)),
    Sometimes("one is alone", (at_least(1, alone),)),
)
BURIED = Always("the dead ask for nothing", (Together(dead_are_gone),), "one has a session again")
ENTRY = CanAlwaysStill("entry stays possible", not_waiting, "enter")


def cluster(
    settings: Settings,
    *,
    clients: int = 2,
    lapses: dict[ProcessId, int] | None = None,
    reboots: dict[ProcessId, int] | None = None,
    watchful: bool = False,
    witnesses: bool = False,
    sharers: Container[ProcessId] = (),
    announcers: Container[ProcessId] = (),
) -> list[Timeless]:
    """Build voters 1 to N and clients after them, of which some share, with a writer behind them."""
    return [
        Timeless(
            me,
            participant(founding(settings), (me - 1) % settings.voters + 1),
            Voter(founding(settings)) if me <= settings.voters else None,
            lapses=(lapses or {}).get(me, 0),
            reboots=(reboots or {}).get(me, 0),
            participants=clients,
            voters=settings.voters,
            origin=founding(settings) if me <= settings.voters else None,
            watchful=watchful,
            witnesses=witnesses,
            shared=me in sharers,
            announces=me in announcers,
        )
        for me in range(1, settings.voters + clients + 1)
    ]
