"""A voter: for each lock it gives its vote to one participant at a time, or to several that share.

Sessions and expiry are section 4 of docs/protocol/leased.md, the rules for a lock 6, tokens and
what is saved 7, abstention after a restart 9.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec
from msgspec import field

from coterie.mutex.quorum.leased.ballot import Ballot, Claim, Tenure
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
    Term,
    UpBody,
    Upward,
    Yield,
)
from coterie.mutex.quorum.leased.sessions import Downlink, Letter
from coterie.mutex.quorum.leased.settings import Settings
from coterie.mutex.quorum.leased.votes import NEVER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coterie.process import Outbox, ProcessId

VOTER = "voter"  # the one timer of this part
NEAR = 1 << 24  # how far numbers that participants send may lead the clock, in any frame
FAR = 1 << 40  # the same for one frame after LEAP_PAUSE, so that a clock that is behind catches up
LEAP_PAUSE = 1.0


class Voter(msgspec.Struct, array_like=True):
    """The votes of one process for any number of locks."""

    settings: Settings
    clock: int = 0  # Lamport's
    bound: int = 0  # on stable storage: no token above it was ever handed out
    floor: int = 0  # of the locks that have no ballot
    abstains_until: float = NEVER  # after a restart
    sessions: dict[str, Downlink] = field(default_factory=dict)  # by participant
    ballots: dict[str, Ballot] = field(default_factory=dict)  # of the locks that are not idle
    dirty: list[str] = field(default_factory=list)  # participants with something pending
    delayed: dict[str, float] = field(default_factory=dict)  # locks, and until when
    cautious: bool = False  # nothing on stable storage means that it was lost, not never written
    name: str = ""  # no other start of any process has had it
    opened: int = 0  # sessions so far
    armed: float = math.inf  # when the timer rings
    leapt: float = NEVER  # when a frame last moved the clock further than NEAR

    def start(self, name: str, out: Outbox[Frame]) -> None:
        """Begin, and abstain if votes may have been given before: a lease of them may still run."""
        self.name = name
        # What was handed out before is forgotten, except that no token lies above the saved bound.
        # So every token up to it counts as used, for every lock.
        self.bound = self.floor = self.clock = int(out.saved or b"0")
        # 9: a participant may still count a vote given before the crash. It does so for at most a
        # lease on its own clock, and `expiry` is longer than that on ours (11.2). A voter gives no
        # vote before it has saved a bound, so without one there is nothing to wait for.
        if out.saved or self.cautious:
            self.abstains_until = out.now + self.settings.expiry + self.settings.lock_delay
            self._arm(self.abstains_until, out)

    def receive(self, participant: ProcessId, frame: Upward, out: Outbox[Frame]) -> None:
        """Handle a frame that came from this process."""
        match frame:
            case Data() | Beat():
                self._take_frame(participant, frame, out)
            case Probe(session):
                out.send(participant, Answer(session, self._knows(session)))
            case Term(session, lease):
                self._shorten(session, lease, out)
            case Bye(session):
                if self._knows(session):
                    self.end_session(session.participant, out)

    def connected(self, participant: str, out: Outbox[Frame]) -> None:
        """Go on over a new connection: what is not acknowledged may have been lost with the old."""
        link = self.sessions.get(participant)
        if link is not None:
            self._send(link, link.unacked, out)

    def ring(self, timer: str, out: Outbox[Frame]) -> None:
        """Handle the timer: sessions that have expired, and the end of abstention.

        A world that has slept delivers what has arrived before it lets the timer ring.
        """
        self.armed = math.inf
        touched = self._end_delays(out)
        delay = self.settings.lock_delay
        for participant in sorted(self.sessions):
            if self._expires(self.sessions[participant]) <= out.now:
                touched += self._drop(participant, out.now + delay if delay else NEVER)
        if self.abstains() and self.abstains_until <= out.now:
            self.abstains_until = NEVER
            touched += sorted(self.ballots)
        self._finish(touched, out)
        ends = [*([self.abstains_until] if self.abstains() else []), *self.delayed.values()]
        self._arm(min([*ends, *map(self._expires, self.sessions.values())], default=math.inf), out)

    def abstains(self) -> bool:
        """Return whether it gives no votes yet."""
        return self.abstains_until > NEVER

    def end_session(self, participant: str, out: Outbox[Frame]) -> None:
        """Forget the session of a participant that counts its votes no more, and give them on."""
        self._finish(self._drop(participant), out)

    # Sessions: section 4

    def _take_frame(self, sender: ProcessId, frame: Data | Beat, out: Outbox[Frame]) -> None:
        """Handle what comes in its turn; a frame that brings nothing new is acknowledged."""
        opening = frame.session.nonce is None
        touched = self._open(frame.session, sender, out) if opening else []
        # A frame of a session that was forgotten renews nothing. Were it acknowledged, votes that
        # belong to another participant by now would seem to be leased again.
        if not self._knows(frame.session):
            if not opening:
                out.send(sender, Nack(frame.session))
            return
        link = self.sessions[frame.session.participant]
        link.peer = sender
        link.accept(frame, out.now)
        ceiling = self._ceiling(out.now)
        before = self.clock
        self._merge(min(frame.clock, ceiling))
        if link.is_overdue(out.now - self.settings.hedge):
            self._send(link, link.unacked, out)
        taken = False
        if isinstance(frame, Data) and link.takes(frame.seq):
            taken = True
            for body in frame.bodies:
                self._apply(link, body, ceiling, out)
                touched.append(body.lock)
        if self.clock > before + NEAR:
            self.leapt = out.now
        self._finish(touched, out, None if taken and not opening else link)

    def _knows(self, session: SessionName) -> bool:
        link = self.sessions.get(session.participant)
        if link is None or link.session.number != session.number:
            return False
        return session.nonce in (None, link.session.nonce)

    def _open(self, session: SessionName, sender: ProcessId, out: Outbox[Frame]) -> list[str]:
        """Replace an older session of the participant; a frame older than the session opens none."""
        known = self.sessions.get(session.participant)
        if known is not None and known.session.number >= session.number:
            return []
        touched = self._drop(session.participant)
        self.opened += 1
        nonce = f"{self.name}/{self.opened}"
        named = SessionName(session.participant, session.number, nonce)
        self.sessions[session.participant] = Downlink(named, sender)
        self._arm(out.now + self.settings.expiry, out)
        return touched

    def _drop(self, participant: str, delayed_until: float = NEVER) -> list[str]:
        """6.6: forget a session, and return the locks that are to be scheduled.

        No other participant gets a vote that it had before the time `delayed_until`.
        """
        link = self.sessions.pop(participant, None)
        if link is None:
            return []
        for lock in link.locks:
            ballot = self.ballots[lock]
            ballot.remove(participant)
            for tenure in ballot.tenures(participant):
                # The owner cannot be asked what it has used, so its whole interval counts as used.
                self._take_back(ballot, tenure, tenure.high)
                if delayed_until > NEVER:
                    self.delayed[lock] = delayed_until
        return sorted(link.locks)

    def _expires(self, link: Downlink) -> float:
        expiry = self.settings.expiry
        return link.heard + (expiry if link.lease is None else self.settings.expiry_of(link.lease))

    def _shorten(self, session: SessionName, lease: float, out: Outbox[Frame]) -> None:
        """Expire a session sooner, as its participant counts a shorter lease than all others.

        A longer one would outlast the abstention after a restart, and is not believed.
        """
        if self._knows(session) and 0 < lease <= self.settings.lease:
            link = self.sessions[session.participant]
            link.lease = lease
            self._arm(self._expires(link), out)

    def _end_delays(self, out: Outbox[Frame]) -> list[str]:
        over = sorted(lock for lock, until in self.delayed.items() if until <= out.now)
        for lock in over:
            del self.delayed[lock]
        return over

    # Lock messages: section 6

    def _apply(self, link: Downlink, body: UpBody, ceiling: int, out: Outbox[Frame]) -> None:
        """Handle one lock message; the vote is given when all of the frame are handled.

        Numbers above the ceiling are cut.
        """
        participant = link.session.participant
        ballot = self.ballots.get(body.lock)
        if ballot is None:
            ballot = self.ballots[body.lock] = Ballot(self.floor)
        tenure = ballot.owned_by(participant, body.number)
        match body:
            case Request():
                link.locks.add(body.lock)
                stamp = min(body.stamp, ceiling)
                ballot.put(
                    Claim(
                        participant,
                        body.number,
                        body.age,
                        stamp,
                        body.hold,
                        body.shared,
                        body.writer,
                    )
                )
            case Yield(_, _, used) if tenure is not None:
                self._take_back(ballot, tenure, used)
                ballot.put(tenure.claim)
            case Release(lock, number, used):
                if tenure is not None:
                    self._take_back(ballot, tenure, used)
                elif ballot.has_queued(participant, number):
                    ballot.remove(participant)
                if not ballot.concerns(participant):
                    link.locks.discard(lock)
            case Raise(lock, number, token) if tenure is not None:
                self._raise(tenure, min(token, ceiling), out)
                self._post(participant, Raised(lock, number, tenure.low, tenure.high))
            case Yield() | Raise():
                pass  # the vote was taken back before: the participant will hear of it

    def _take_back(self, ballot: Ballot, tenure: Tenure, floor: int) -> None:
        ballot.take_back(tenure, floor)
        self._merge(ballot.floor)

    def _raise(self, tenure: Tenure, token: int, out: Outbox[Frame]) -> None:
        """6.4: move the interval up."""
        tenure.low = max(tenure.low, token)
        tenure.high = max(tenure.high, tenure.low + self.settings.interval - 1)
        self._cover(tenure, out)

    def _schedule(self, locks: list[str], out: Outbox[Frame]) -> None:
        """6.5, 6.7: give each free vote to the next in its queue; forget what is idle."""
        for lock in dict.fromkeys(locks):
            ballot = self.ballots.get(lock)
            if ballot is None:
                continue
            if not self.abstains():
                self._elect_or_inquire(lock, ballot, out)
            if ballot.is_idle():
                # A name that comes back begins above the floors of all forgotten ones.
                self.floor = max(self.floor, ballot.floor)
                del self.ballots[lock]

    def _elect_or_inquire(self, lock: str, ballot: Ballot, out: Outbox[Frame]) -> None:
        """6.5, 17: give the vote to all that may have it now; tell owners of those that wait."""
        granted = []
        while ballot.queue and self._is_free(lock, ballot):
            tenure = ballot.elect(self.settings.interval)
            self._cover(tenure, out)
            granted.append(tenure)
        for tenure in granted:
            self._grant(lock, ballot, tenure)
        for tenure in ballot.owners:
            if ballot.queue or tenure.told or len(ballot.owners) > 1:
                self._inquire(lock, ballot, tenure)

    def _is_free(self, lock: str, ballot: Ballot) -> bool:
        """Return whether the next may have the vote; forget repairs that would be in vain."""
        head = ballot.next()
        if head is not None and head.hold:  # repairs are before all others
            for claim in ballot.discard_hopeless():
                self.sessions[claim.participant].locks.discard(lock)
            head = ballot.next()
        return head is not None and not self._is_delayed(lock, head)

    def _is_delayed(self, lock: str, claim: Claim) -> bool:
        """13: keep back for a while a vote that ended by expiry; a repair belongs to the same hold."""
        return lock in self.delayed and not claim.hold

    def _inquire(self, lock: str, ballot: Ballot, tenure: Tenure) -> None:
        """6.5: tell an owner that another waits, and tell it again if an older one comes.

        17: an owner that shares is also told when none waits any more, for then further local
        tasks may join its hold.
        """
        level = ballot.level(tenure)
        is_over = tenure.claim.shared and not level and tenure.told
        if level > tenure.told or is_over:
            tenure.told = level
            claim = tenure.claim
            self._post(claim.participant, Inquire(lock, claim.number, level))

    def _grant(self, lock: str, ballot: Ballot, tenure: Tenure) -> None:
        claim, more = tenure.claim, ballot.level(tenure) > 0
        tenure.told = 1 if more else 0
        grant = Grant(lock, claim.number, tenure.low, tenure.high, more)
        self._post(claim.participant, grant)

    # Numbers: section 7

    def raise_floor(self, floor: int) -> None:
        """7: count numbers up to this one as used: a lost disk may have known of such votes."""
        self.floor = max(self.floor, floor)
        for ballot in self.ballots.values():
            ballot.floor = max(ballot.floor, floor)
        self._merge(floor)

    def advance(self, clock: int) -> None:
        """3: let the logical clock follow the time, in a world where ages do."""
        self._merge(clock)

    def _cover(self, tenure: Tenure, out: Outbox[Frame]) -> None:
        """7: the bound on stable storage covers what is handed out, before it leaves."""
        # The world carries out an outbox in the order save, send: the bound is on disk before the
        # Grant or Raised of this step leaves. A voter that crashes in between has saved too much,
        # which is harmless. In the other order it could come back with a floor below a token that
        # is in use, and hand it out a second time.
        self._merge(tenure.low)
        if tenure.high > self.bound:
            self.bound = tenure.high + self.settings.reserve
            out.save(str(self.bound).encode())

    def _merge(self, clock: int) -> None:
        if clock > self.clock:
            self.clock = clock

    def _ceiling(self, now: float) -> int:
        """7: return the largest number that a frame may bring.

        All that participants send moves the clock by little more than FAR in each LEAP_PAUSE, so no
        program whose clock is broken can use up the numbers.
        """
        return self.clock + (FAR if now >= self.leapt + LEAP_PAUSE else NEAR)

    # The end of a step

    def _post(self, participant: str, body: DownBody) -> None:
        """Put a lock message into the frame that this step will send."""
        link = self.sessions[participant]
        if not link.pending:
            self.dirty.append(participant)
        link.pending.append(body)

    def _finish(
        self, touched: list[str], out: Outbox[Frame], answer: Downlink | None = None
    ) -> None:
        """End a step: give the votes that are free, and send; `answer` gets a frame in any case."""
        self._schedule(touched, out)
        if answer is not None and not answer.pending:
            ack, grace = answer.delivered, self.abstains()
            out.send(answer.peer, Ack(answer.session, ack, self.clock, answer.echo, grace))
        for participant in self.dirty:
            link = self.sessions[participant]
            while link.pending:
                self._send(link, [link.pack(out.now)], out)
        self.dirty.clear()

    def _send(self, link: Downlink, letters: Iterable[Letter], out: Outbox[Frame]) -> None:
        for letter in letters:
            letter.sent = out.now
            reply = Reply(
                link.session,
                letter.seq,
                link.delivered,
                self.clock,
                link.echo,
                self.abstains(),
                letter.bodies,
            )
            out.send(link.peer, reply)

    def _arm(self, due: float, out: Outbox[Frame]) -> None:
        """Arm the timer if it would ring too late; one that rings early finds nothing to do."""
        if due < self.armed:
            self.armed = due
            out.set_timer(VOTER, due - out.now)
