"""Voters and participants of the leased lock, with what time and crashes may do to them as timers.

The explorer has no clock, and rings a timer at any moment. So a session expires, a lease lapses and an
abstention ends whenever they like, and a voter crashes between any two steps and comes back with its
disk. Each process votes or asks, and notes what its fields forget: votes in the order in which they
were given, and holds in the order in which they were entered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from coterie.algorithms.mutex.quorum.leased.configuration import Configuration, founding
from coterie.algorithms.mutex.quorum.leased.participant import PARTICIPANT, Acquired, participant
from coterie.algorithms.mutex.quorum.leased.process import LOCK, Leased
from coterie.algorithms.mutex.quorum.leased.settings import Settings
from coterie.algorithms.mutex.quorum.leased.voter import VOTER, Voter
from coterie.process import ProcessId

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from coterie.algorithms.mutex.quorum.leased.ballot import Tenure
    from coterie.algorithms.mutex.quorum.leased.frames import SessionName
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


class Watched(Leased):
    """A voter or a participant."""

    lapses: int = 0  # that may still happen here, as may the next two
    reboots: int = 0
    expiries: int = 0
    time: float = 0.0
    starts: int = 0
    origin: Configuration | None = None  # of its voter, before anything was saved
    disk: bytes = b""
    given: list[Given] = []
    owner: int = 0  # the number of the vote that is on record, from 1 on; 0: none is
    holds_made: list[Hold] = []

    def start(self, out: Outbox[Any]) -> None:
        """Begin, and let happen what may."""
        super().start(out)
        if self.lapses:
            out.set_timer(LAPSE, 0)
        if self.reboots:
            out.set_timer(REBOOT, 0)

    def acquire(self, out: Outbox[Any]) -> None:
        """Ask for the lock."""
        self._step(out, lambda: Leased.acquire(self, out))

    def release(self, out: Outbox[Any]) -> None:
        """Leave."""
        self._step(out, lambda: Leased.release(self, out))

    def receive(self, sender: ProcessId, message: Any, out: Outbox[Any]) -> None:
        """Handle a frame."""
        self._step(out, lambda: Leased.receive(self, sender, message, out))

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
            case _ if timer == PARTICIPANT:
                self.participant.ring(timer, out)

    def _step(self, out: Outbox[Any], handler: Callable[[], None]) -> None:
        """Run a handler, and note which votes it gave and which hold it began."""
        before, events = self._tenures(), len(out.events)
        out.now = self.time
        handler()
        after = self._tenures()
        for tenure in before:
            self._lift(tenure)
        if not after:
            self.owner = 0
        for tenure in after:
            if not any(tenure is known for known in before):
                self._note(tenure)
        for event in out.events[events:]:
            if isinstance(event, Acquired):
                supporters = tuple(self.participant.bids[LOCK].supporters())
                self.holds_made = [*self.holds_made, Hold(event.token, supporters)]
        if out.to_save is not None:
            self.disk = out.to_save
        if self.voter is not None and self.voter.sessions and self.expiries:
            out.set_timer(EXPIRE, 0)

    def _tenures(self) -> Sequence[Tenure]:
        ballot = self.voter.ballots.get(LOCK) if self.voter is not None else None
        return tuple(ballot.owners) if ballot is not None else ()

    def _lift(self, tenure: Tenure) -> None:
        """Note how far up the interval of the owner reaches, or reached when it was taken back."""
        place = self.owner - 1
        lifted = msgspec.structs.replace(self.given[place], high=tenure.high)
        self.given = [*self.given[:place], lifted, *self.given[place + 1 :]]

    def _note(self, tenure: Tenure) -> None:
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
        self.owner = len(self.given)

    def _lapse(self, out: Outbox[Any]) -> None:
        """Let time pass at a participant: after the fourth time all leases of before have lapsed."""
        self.lapses -= 1
        self.time += self.participant.settings.lease / 3
        out.now = self.time
        self.participant.ring(PARTICIPANT, out)
        if self.lapses:
            out.set_timer(LAPSE, 0)

    def _expire(self, out: Outbox[Any]) -> None:
        """Forget the session that gave signs of life least lately: the first one, then others."""
        assert self.voter is not None
        self.expiries -= 1
        for name in list(self.voter.sessions)[:1]:
            self.voter.end_session(name, out)

    def _reboot(self, out: Outbox[Any]) -> None:
        """Forget everything but what was saved."""
        self.reboots -= 1
        self.starts += 1
        out.saved = self.disk
        self.voter = Voter(self.origin)
        self.voter.start(f"{self.me}.{self.starts}", out)
        if self.voter.abstains():
            out.set_timer(VOTE_AGAIN, 0)
        if self.reboots:
            out.set_timer(REBOOT, 0)


def is_of(session: SessionName, given: Given) -> bool:
    """Return whether a session, as either end names it, is the one in which a vote was given."""
    return session.nonce == given.session or (
        session.nonce is None and session.number == given.opened_as
    )


def watched(voters: int, participants: int, *, restarts: int, policy: str = "all") -> list[Watched]:
    """Make voters 1 and up, and participants after them, with short intervals of tokens."""
    settings = Settings(
        voters,
        policy="all" if policy == "all" else "quorum",
        lease=1000.0,
        heartbeat=250.0,
        hedge=16.0,
        unwind=1000.0,
        interval=2,
        reserve=3,
    )
    configuration = founding(settings)
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
