"""Voters and participants of the leased lock, with what time and crashes may do to them as timers.

The explorer has no clock, and rings a timer at any moment. So a session expires, a lease lapses and an
abstention ends whenever they like, and a voter crashes between any two steps and comes back with its
disk. Where the page takes the lease lemma for granted they are *lawful*: a participant whose leases have
lapsed leaves a mark on its links, and until it comes its sessions last, and abstention goes on.

Each process votes, asks, or changes the voters, and notes what its fields forget: votes in the order in
which they were given, holds in the order in which they were entered, and numbers reported as finished.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import msgspec

from coterie.algorithms.mutex.quorum.leased.changer import CHANGER, Changer, Goal
from coterie.algorithms.mutex.quorum.leased.configuration import Configuration, Part, Rule, founding
from coterie.algorithms.mutex.quorum.leased.frames import Beat, Behind, Closed, Data, Stale
from coterie.algorithms.mutex.quorum.leased.participant import PARTICIPANT, Acquired, participant
from coterie.algorithms.mutex.quorum.leased.process import LOCK, Leased
from coterie.algorithms.mutex.quorum.leased.settings import Settings
from coterie.algorithms.mutex.quorum.leased.voter import VOTER, Voter
from coterie.process import Payload, ProcessId

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from coterie.algorithms.mutex.quorum.leased.ballot import Tenure
    from coterie.algorithms.mutex.quorum.leased.frames import SessionName
    from coterie.lab.prove.plain import Things
    from coterie.process import Outbox

LAPSE = "lapse"  # of some time at a participant
REBOOT = "reboot"  # a voter
EXPIRE = "expire"  # a session, at its voter
VOTE_AGAIN = "vote again"  # the end of an abstention


class Given(msgspec.Struct, frozen=True, array_like=True):
    """A vote, as it was when it was given, but for the upper end, which may have moved."""

    participant: ProcessId
    session: str  # by its nonce, which no other session has
    opened_as: int  # the session's number at the participant
    request: int
    low: int
    high: int
    is_repair: bool


class Hold(msgspec.Struct, frozen=True, array_like=True):
    """A hold, as it was when it began."""

    token: int
    supporters: tuple[ProcessId, ...]


class Mark(Payload, frozen=True):
    """All leases that stem from frames sent before this have lapsed."""

    name: str  # of the participant


class Watched(Leased):
    """A voter, a participant or a changer."""

    lapses: int = 0  # that may still happen here, as may the next two
    reboots: int = 0
    expiries: int = 0
    time: float = 0.0
    starts: int = 0
    origin: Configuration | None = None  # of its voter, before anything was saved
    disk: bytes = b""
    given: list[Given] = []
    owners: list[int] = []  # the numbers of the votes that are on record, from 1 on
    holds_made: list[Hold] = []
    reported: list[int] = []  # numbers, as finished
    voters: tuple[ProcessId, ...] = ()  # that a lawful participant leaves a mark for; () for others
    lawful: bool = False
    polls: int = 0  # that a changer may still make
    asking: int = 0  # how many processes leave marks
    marks: set[str] = set()  # that came since the last start
    silent: set[str] = set()  # participants of which nothing came after a mark
    shares: bool = False  # with others that share
    rate: tuple[int, int] | None = None  # of its clock, where one time passes for all

    def start(self, out: Outbox[Any]) -> None:
        """Begin, and let happen what may."""
        super().start(out)
        if self.lapses:
            out.set_timer(LAPSE, 0)
        if self.reboots:
            out.set_timer(REBOOT, 0)

    def acquire(self, out: Outbox[Any]) -> None:
        """Ask for the lock."""
        self._step(out, lambda: self.participant.acquire(LOCK, out, shared=self.shares))

    def release(self, out: Outbox[Any]) -> None:
        """Leave."""
        self._step(out, lambda: Leased.release(self, out))

    def receive(self, sender: ProcessId, message: Any, out: Outbox[Any]) -> None:
        """Handle a frame."""
        if isinstance(message, Mark):
            self._take_mark(message.name, out)
            return
        self._step(out, lambda: Leased.receive(self, sender, message, out))
        refused = any(isinstance(frame, Stale | Behind) for _, frame in out.sends)
        if isinstance(message, Data | Beat) and not refused:
            self.silent.discard(message.session.participant)

    def ring(self, timer: str, out: Outbox[Any]) -> None:
        """Do what a clock would have done, or a crash."""
        self._step(out, lambda: self._ring(timer, out))

    def _ring(self, timer: str, out: Outbox[Any]) -> None:
        match timer:
            case "lapse":
                self._lapse(out)
            case "reboot":
                self._reboot(out)
            case "expire":
                self._expire(out)
            case "vote again":
                assert self.voter is not None
                self.voter.abstains_until = out.now
                self.voter.ring(VOTER, out)
            case _ if timer == VOTER and self.rate is not None:
                assert self.voter is not None
                self.voter.ring(timer, out)
            case _ if timer == PARTICIPANT:
                self.participant.ring(timer, out)
            case _ if timer == CHANGER and self.polls:
                self.polls -= 1
                self.time += POLL_SECONDS
                out.now = self.time
                Leased.ring(self, timer, out)

    def restart(self, out: Outbox[Any]) -> None:
        """Begin again after a crash."""
        self._step(out, lambda: self._begin_again(out))

    def reads(self, now: Fraction) -> float:
        """Return what its clock shows at a moment, and go on by that."""
        assert self.rate is not None
        self.time = float(now * Fraction(*self.rate))
        return self.time

    def moment(self, shown: float) -> Fraction:
        """Return the moment at which its clock shows this."""
        assert self.rate is not None
        return Fraction(shown) / Fraction(*self.rate)

    def _step(self, out: Outbox[Any], handler: Callable[[], None]) -> None:
        """Run a handler, and note which votes it gave and which hold it began."""
        before, events = self._tenures(), len(out.events)
        out.now = self.time
        handler()
        for number, tenure in zip(self.owners, before, strict=True):
            self._lift(number, tenure)
        self.owners = [self._number(tenure, before) for tenure in self._tenures()]
        for event in out.events[events:]:
            if isinstance(event, Acquired):
                supporters = tuple(self.participant.bids[LOCK].supporters())
                self.holds_made = [*self.holds_made, Hold(event.token, supporters)]
        for _, frame in out.sends:
            if isinstance(frame, Closed) and frame.finished and frame.number not in self.reported:
                self.reported = [*self.reported, frame.number]
        if out.to_save is not None:
            self.disk = out.to_save
        may_expire = self.silent if self.lawful else self.voter and self.voter.sessions
        if may_expire and self.expiries:
            out.set_timer(EXPIRE, 0)

    def _tenures(self) -> Sequence[Tenure]:
        ballot = self.voter.ballots.get(LOCK) if self.voter is not None else None
        return tuple(ballot.owners) if ballot is not None else ()

    def _number(self, tenure: Tenure, before: Sequence[Tenure]) -> int:
        for number, known in zip(self.owners, before, strict=True):
            if tenure is known:
                return number
        return self._note(tenure)

    def _lift(self, number: int, tenure: Tenure) -> None:
        """Note how far up the interval of an owner reaches, or reached when it was taken back."""
        place = number - 1
        lifted = msgspec.structs.replace(self.given[place], high=tenure.high)
        self.given = [*self.given[:place], lifted, *self.given[place + 1 :]]

    def _note(self, tenure: Tenure) -> int:
        """Note a vote, and return its number."""
        assert self.voter is not None
        claim = tenure.claim
        session = self.voter.sessions[claim.participant].session
        self.given = [
            *self.given,
            Given(
                int(claim.participant.partition(".")[0]),
                session.nonce or "",
                session.number,
                claim.number,
                tenure.low,
                tenure.high,
                claim.hold == 2,
            ),
        ]
        return len(self.given)

    def _lapse(self, out: Outbox[Any]) -> None:
        """Let time pass at a participant: all of a lease where it is lawful, else a third."""
        self.lapses -= 1
        lease = self.participant.settings.lease
        self.time += lease + 1 if self.lawful else lease / 3
        out.now = self.time
        out.broadcast(self.voters, Mark(self.participant.sessions.name))
        self.participant.ring(PARTICIPANT, out)
        if self.lapses:
            out.set_timer(LAPSE, 0)

    def _expire(self, out: Outbox[Any]) -> None:
        """Forget the first session that may be forgotten."""
        assert self.voter is not None
        self.expiries -= 1
        for name in sorted(self.silent if self.lawful else self.voter.sessions)[:1]:
            self.voter.end_session(name, out)
            self.silent.discard(name)

    def _take_mark(self, name: str, out: Outbox[Any]) -> None:
        assert self.voter is not None
        self.marks.add(name)
        if name in self.voter.sessions and self.expiries:
            self.silent.add(name)
            out.set_timer(EXPIRE, 0)
        if self.voter.abstains() and len(self.marks) == self.asking:
            out.set_timer(VOTE_AGAIN, 0)

    def _begin_again(self, out: Outbox[Any]) -> None:
        """Forget everything but what was saved."""
        self.starts += 1
        out.saved = self.disk
        self.voter = Voter(self.origin)
        self.voter.start(f"{self.me}.{self.starts}", out)

    def _reboot(self, out: Outbox[Any]) -> None:
        self.reboots -= 1
        self.marks, self.silent = set(), set()
        self._begin_again(out)
        assert self.voter is not None
        out.cancel_timer(EXPIRE)
        if self.voter.abstains() and not self.lawful:
            out.set_timer(VOTE_AGAIN, 0)
        if self.reboots:
            out.set_timer(REBOOT, 0)


def is_of(session: SessionName, given: Given) -> bool:
    """Return whether a session, as either end names it, is the one in which a vote was given."""
    return session.nonce == given.session or (
        session.nonce is None and session.number == given.opened_as
    )


POLLS, POLL_SECONDS = 14, 0.09

TIMES: dict[str, Any] = {
    "policy": "all",
    "lease": 1.0,
    "heartbeat": 0.25,
    "hedge": 0.016,
    "unwind": 1.0,
    "interval": 2,
    "reserve": 3,
}


def things_of(processes: Sequence[Any]) -> Things:
    """Return the voters, the participants and the quorums, which a page takes for its sorts of that name."""
    quorums = processes[0].participant.quorums.quorums
    return {
        "Voter": [process.me for process in processes if process.voter is not None],
        "Participant": [process.me for process in processes if process.voter is None],
        "Quorum": [tuple(sorted(quorum)) for quorum in quorums],
    }


def watched(voters: int, participants: int, restarts: int) -> list[Watched]:
    """Make voters 1 and up, and participants after them, with short intervals of tokens."""
    configuration = founding(Settings(voters, **TIMES))
    made = []
    for me in range(1, voters + participants + 1):
        votes = me <= voters
        made.append(
            Watched(
                me,
                participant(configuration, (me - 1) % voters + 1),
                Voter(configuration) if votes else None,
                lapses=0 if votes else 4 * restarts,
                reboots=restarts if votes else 0,
                expiries=restarts if votes else 0,
                origin=configuration if votes else None,
            )
        )
    return made


def changed(voters: int, participants: int, restarts: int) -> list[Watched]:
    """Make voters 1 and up with a spare, participants, and a changer that puts it in the place of voter 1."""
    old, new = tuple(range(1, voters + 1)), tuple(range(2, voters + 2))
    parts = [Part(seats, Settings(voters, **TIMES)) for seats in (old, new)]
    configuration = Configuration(Rule(1, (parts[0],)), last_seat=voters + 1)
    size = voters + participants + 2
    made = []
    for me in range(1, size + 1):
        votes, asks = me <= voters + 1, voters + 1 < me < size
        made.append(
            Watched(
                me,
                participant(configuration, (me - 1) % voters + 1),
                Voter(configuration if me in old else None) if votes else None,
                Changer("", configuration, Goal(1, parts[1])) if me == size else None,
                lapses=restarts if asks else 0,
                reboots=restarts if votes else 0,
                expiries=participants * restarts if votes else 0,
                origin=configuration if me in old else None,
                voters=tuple(range(1, voters + 2)) if asks else (),
                lawful=True,
                polls=POLLS,
                asking=participants,
            )
        )
    return made
