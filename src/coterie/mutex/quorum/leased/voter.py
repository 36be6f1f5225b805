"""A voter: one vote per lock, given to one request at a time (sections 4, 6, 7 and 9)."""

from __future__ import annotations

import math

import msgspec
from msgspec import field

from coterie.mutex.quorum.leased.ballot import Ballot, Claim, Tenure
from coterie.mutex.quorum.leased.downlink import Downlink, Letter
from coterie.mutex.quorum.leased.frames import (
    Ack,
    Answer,
    Beat,
    Bye,
    Data,
    DownBody,
    Frame,
    Grant,
    Inquire,
    Nack,
    Probe,
    Raise,
    Raised,
    Release,
    Reply,
    Request,
    SessionName,
    UpBody,
    Upward,
    Yield,
)
from coterie.mutex.quorum.leased.settings import Settings
from coterie.mutex.quorum.leased.tokens import NEVER
from coterie.process import Outbox, ProcessId

VOTER = "voter"  # the one timer of this part
FAR = (
    1 << 40
)  # stamps further ahead than this are cut: one broken clock must not use up the numbers


class Voter(msgspec.Struct, array_like=True):
    """The votes of one process for any number of locks."""

    settings: Settings
    cautious: bool = False  # nothing on stable storage means that it was lost, not never written
    name: str = ""  # no other start of any process has had it
    clock: int = 0  # Lamport's
    bound: int = 0  # on stable storage: no token above it was ever handed out
    floor: int = 0  # of locks that have no ballot
    abstains_until: float = NEVER
    opened: int = 0  # sessions so far
    sessions: dict[str, Downlink] = field(default_factory=dict)  # by participant
    ballots: dict[str, Ballot] = field(default_factory=dict)  # locks that are not idle
    armed: float = math.inf  # when the timer rings

    def start(self, name: str, out: Outbox[Frame]) -> None:
        """Begin, and abstain if votes may have been given before: a lease of them may still run.

        A voter gives none before it has saved a bound, so without one there is nothing to wait for.
        """
        self.name = name
        self.bound = self.floor = self.clock = int(out.saved or b"0")
        if out.saved or self.cautious:
            self.abstains_until = out.now + self.settings.expiry
        self._finish([], out)

    def receive(self, participant: ProcessId, frame: Upward, out: Outbox[Frame]) -> None:
        """Handle a frame from a participant."""
        touched: list[str] = []
        match frame:
            case Data() | Beat():
                touched = self._take(participant, frame, out)
            case Probe(session):
                alive = self._knows(session)
                out.send(participant, Answer(session, alive))
            case Bye(session):
                touched = self._drop(session.participant) if self._knows(session) else []
        self._finish(touched, out)

    def connected(self, participant: str, out: Outbox[Frame]) -> None:
        """Go on over a new connection: what is not acknowledged may have been lost with the old."""
        if participant in self.sessions:
            link = self.sessions[participant]
            self._send(link, link.unacked, out)

    def ring(self, timer: str, out: Outbox[Frame]) -> None:
        """Handle the timer: sessions that have expired, and the end of grace.

        A world that has slept reads what has arrived before it lets the timer ring.
        """
        self.armed = math.inf
        touched = []
        for participant in sorted(self.sessions):
            if self.sessions[participant].heard + self.settings.expiry <= out.now:
                touched += self._drop(participant)
        if self.abstains_until <= out.now:
            self.abstains_until = NEVER
            touched += self.ballots
        self._finish(touched, out)

    def abstains(self) -> bool:
        """Tell whether it gives no votes yet."""
        return self.abstains_until > NEVER

    # Sessions

    def _knows(self, session: SessionName) -> bool:
        link = self.sessions.get(session.participant)
        if link is None or link.session.number != session.number:
            return False
        return session.nonce in (None, link.session.nonce)

    def _take(self, sender: ProcessId, frame: Data | Beat, out: Outbox[Frame]) -> list[str]:
        """Open a session if this is what the frame wants, and handle what comes in its turn."""
        touched = self._open(frame.session, sender) if frame.session.nonce is None else []
        if not self._knows(frame.session):
            if frame.session.nonce is not None:
                out.send(sender, Nack(frame.session))
            return touched
        link = self.sessions[frame.session.participant]
        link.peer = sender
        link.accept(frame, out.now)
        self._merge(frame.clock)
        taken = link.takes(frame)
        if taken and isinstance(frame, Data):
            for body in frame.bodies:
                self._apply(link, body, out)
            touched += [body.lock for body in frame.bodies]
        self._schedule(touched, out)
        if link.unacked and link.unacked[0].sent + self.settings.hedge <= out.now:
            self._send(link, link.unacked, out)
        if not link.pending and (not taken or frame.session.nonce is None):
            out.send(sender, self._ack(link))
        return []

    def _open(self, session: SessionName, sender: ProcessId) -> list[str]:
        """Replace an older session of the participant; a frame older than the session is void."""
        known = self.sessions.get(session.participant)
        if known is not None and known.session.number >= session.number:
            return []
        touched = self._drop(session.participant)
        self.opened += 1
        named = session._replace(nonce=f"{self.name}/{self.opened}")
        self.sessions[session.participant] = Downlink(named, sender)
        return touched

    def _drop(self, participant: str) -> list[str]:
        """6.6: forget a session; its owner cannot be asked what it used, so all its tokens are."""
        link = self.sessions.pop(participant, None)
        if link is None:
            return []
        for lock in sorted(link.locks):
            ballot = self.ballots[lock]
            ballot.remove(participant)
            if ballot.owner and ballot.owner.claim.participant == participant:
                self._take_back(ballot, ballot.owner.high)
        return sorted(link.locks)
