"""The session layer: what a participant and a voter know of their link (section 4).

Frames may be lost, doubled or late, and connections may break: both directions are numbered, so
each lock message is handled once and in order, and what is missing is sent again when a later frame
has got through or a new connection stands.

The participant's end is `Sessions`, with an `Uplink` for each voter. The lease runs from the sending
of the latest frame that the voter has answered in this very session. When it lapses, the participant
falls silent and only probes: a participant that cannot hear a voter must not keep its own session
there alive. The voter's end is a `Downlink` for each participant, which `Voter.ring` drops when it has expired.
"""

from __future__ import annotations

import enum
import math
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec import field

from coterie.algorithms.mutex.quorum.leased.frames import (
    BODIES_MAX,
    Ack,
    Answer,
    Beat,
    Bye,
    Data,
    DownBody,
    Frame,
    Nack,
    Probe,
    Reply,
    SessionName,
    Term,
    UpBody,
    is_whole,
)
from coterie.algorithms.mutex.quorum.leased.settings import Settings
from coterie.algorithms.mutex.quorum.leased.votes import NEVER
from coterie.process import Outbox, ProcessId

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

CLOCK_MAX = 1 << 62  # that a voter is believed: as many numbers are left for requests above it

# The participant's end


class Parcel(msgspec.Struct, array_like=True, gc=False):
    """Lock messages under one sequence number, kept until they are acknowledged."""

    seq: int
    bodies: tuple[UpBody, ...]
    first: float  # when they were first handed over for sending
    sent: float  # when they were last sent; never, if the session was silent


class VoterTrust(enum.IntEnum):
    """How far a voter is to be counted on."""

    TRUSTED = 0
    DOUBTFUL = 1  # in grace, or an answer is overdue
    SILENT = 2  # no answer for a whole lease


class Uplink(msgspec.Struct, array_like=True):
    """One session with one voter, or the place for the next one."""

    voter: ProcessId
    number: int = 0  # of the session; rises with each
    is_open: bool = False
    nonce: str | None = None  # the voter's; None while opening
    posted: int = 0  # sequence number of the last parcel
    delivered: int = 0  # sequence number of the last reply taken
    unacked: list[Parcel] = field(default_factory=list)
    pending: list[UpBody] = field(default_factory=list)  # of the present step
    locks: set[str] = field(default_factory=set)  # whose request lies with the voter
    lease: float = NEVER
    silent: bool = False
    grace: bool = False  # the voter says that it gives no votes yet
    resumed: float = NEVER  # when the session began, or went on after a silence or idle
    sent: float = NEVER  # when the last frame was sent
    heard: float = NEVER  # when the last frame came
    asked: float = math.inf  # when the first heartbeat since then was sent
    informed: float = NEVER  # when it was last sent a configuration, as it was behind

    def is_used(self) -> bool:
        """Return whether anything depends on the session."""
        return bool(self.locks or self.unacked)

    def lapses(self, settings: Settings) -> float:
        """Return the time of silence: the end of the lease, or of waiting for a first answer.

        A session that goes on after a silence, or after it was idle, gets a moment to renew its lease.
        """
        resumed = self.resumed + (settings.lease if self.nonce is None else settings.hedge)
        return max(self.lease, resumed)

    def trust(self, now: float, hedge: float) -> VoterTrust:
        """Return how far the voter is to be counted on."""
        if self.silent:
            return VoterTrust.SILENT
        if self.grace:
            return VoterTrust.DOUBTFUL
        return VoterTrust.DOUBTFUL if self.waits_since() + hedge <= now else VoterTrust.TRUSTED

    def waits_since(self) -> float:
        """Return the time since when an answer is due."""
        due = self.asked
        if self.unacked and self.unacked[0].first < due:
            due = self.unacked[0].first
        return max(self.heard, due)

    def begins(self) -> float:
        """Return the time from which the pause before the next heartbeat counts.

        It counts from the first parcel without an answer. Later ones may get none either: those of a
        program that asks again and again for a lock that is held would put the heartbeat off for good.
        After that heartbeat another one is needed only if frames were lost.
        """
        is_first = self.unacked and not self.silent and self.asked == math.inf
        return self.unacked[0].sent if is_first else self.sent

    def open(self, now: float) -> None:
        """Begin the next session, without a round trip: the first frame opens it."""
        self.number += 1
        self.is_open = True
        self.resumed = now

    def close(self) -> None:
        """Forget the session; only its number stays, so that the next one has a larger one."""
        self.is_open = self.silent = self.grace = False
        self.nonce = None
        self.posted = self.delivered = 0
        self.unacked = []
        self.locks = set()
        self.lease = self.resumed = self.sent = self.heard = self.informed = NEVER
        self.asked = math.inf

    def pack(self, now: float) -> Parcel:
        """Give what was posted in this step a number, as far as it fits a frame, and keep it."""
        self.posted += 1
        parcel = Parcel(self.posted, tuple(self.pending[:BODIES_MAX]), now, NEVER)
        del self.pending[:BODIES_MAX]
        self.unacked.append(parcel)
        return parcel

    def accept(self, frame: Reply | Ack, now: float, lease: float, number: int) -> None:
        """Take note of what every frame of the session says; we count in this number."""
        self.nonce = frame.session.nonce
        # The echo is the time at which we sent, by our own clock: the voter restarted its expiry
        # when it handled that frame, which was later. Counted from now, the lease could outlast
        # the voter's patience by as long as the answer was on its way (11.2). What was not sent
        # yet is not believed to be answered.
        # Only a renewal for the number in which we count is one: the lease of an earlier number may
        # be longer than the one for which the voter abstains by now (19.4).
        if frame.number == number:
            self.lease = max(self.lease, min(frame.echo, now) + lease)
        self.heard = now
        self.asked = math.inf
        self.grace = frame.grace
        if self.unacked:
            self.unacked = [parcel for parcel in self.unacked if parcel.seq > frame.ack]

    def overtaken(self, echo: float) -> list[Parcel]:
        """List what the voter has not got, although it has got what was sent later."""
        return [parcel for parcel in self.unacked if parcel.sent < echo]


class Loss(NamedTuple):
    """A session that the voter does not know any more."""

    lease: float  # up to when its votes still count for a hold
    locks: list[str]


class Arrival(msgspec.Struct, frozen=True):
    """What a frame means to the locks."""

    bodies: tuple[DownBody, ...] = ()  # to be handled now, in order
    lost: Loss | None = None
    renewed: bool = False  # a lapsed lease runs again


NOTHING = Arrival()


class Sessions(msgspec.Struct, array_like=True):
    """The sessions of a participant, one per voter, opened when there is something to say."""

    settings: Settings
    name: str = ""  # of this participant: no other start of any process has had it
    shortened: bool = False  # the lease is shorter than that of all, and voters are to know
    clock: int = 0  # Lamport's
    voters: list[ProcessId] = field(default_factory=list)  # that there are sessions with
    uplinks: list[Uplink] = field(default_factory=list)  # in the same order
    number: int = 0  # of the configuration in which we count
    known: int = 0  # of the newest that we know
    seats: tuple[ProcessId, ...] = ()  # the voters of these two
    retired: int = 0  # no session with a voter that was forgotten had a higher number
    life: str = ""  # by which another process can see this one end; empty: by none

    def start(self, name: str, number: int, seats: Sequence[ProcessId]) -> None:
        """Take a name, count in this number, and make a place for each of its voters."""
        self.name = name
        self.number = number
        self.know(number, seats, seats)

    def know(self, number: int, newest: Sequence[ProcessId], seats: Sequence[ProcessId]) -> None:
        """Tell voters from now on that we know this number, which has the voters `newest`.

        `seats` are all voters that matter: also those of the number in which we count.
        """
        self.known = number
        self.seats = tuple(seats)
        # A node that was removed and comes back has its old disk and another seat. It may still have
        # our session of the old one, and would take a number that is not larger for that session.
        gone = [uplink.number for uplink in self.uplinks if uplink.voter not in newest]
        begun = max([self.retired, *gone])
        for voter in seats:
            if voter not in self.voters:
                self.voters.append(voter)
                self.uplinks.append(Uplink(voter, begun))

    def move(self, settings: Settings, in_use: Collection[ProcessId], now: float) -> None:
        """Count in the newest number from now on, by these settings; votes of `in_use` are in hand."""
        self.number = self.known
        self.settings = settings
        for uplink in self.uplinks:
            # What a longer lease of the number before has left counts no more: after a crash the
            # voter may abstain for the shorter one only (19.9).
            uplink.lease = min(uplink.lease, now + settings.lease)
            # A session without votes sends no heartbeats, so its lease may be nearly over. A vote
            # that is on its way comes with a frame of the number before, which renews nothing: an
            # entry with it could be lost before the first answer of this number has come. Nothing
            # rests on that lease, so it ends, and the vote counts as of that answer.
            if uplink.voter not in in_use and uplink.is_open and not uplink.silent:
                # sometimes: a session without votes moves to the next number
                uplink.lease, uplink.resumed = NEVER, now

    def forget_strangers(self) -> list[ProcessId]:
        """Forget voters that vote no more and to which nothing is left to say; return them."""
        strangers = [
            uplink
            for uplink in self.uplinks
            if uplink.voter not in self.seats and not uplink.is_open and not uplink.pending
        ]
        for uplink in strangers:
            self.retired = max(self.retired, uplink.number)
            self.uplinks.remove(uplink)
            self.voters.remove(uplink.voter)
        return [uplink.voter for uplink in strangers]

    def merge(self, clock: int) -> None:
        """Keep Lamport's clock at or above what was seen."""
        if clock > self.clock:
            self.clock = max(self.clock, min(clock, CLOCK_MAX))

    # What the locks ask

    def uplink(self, voter: ProcessId) -> Uplink:
        """Return the session with a voter."""
        return self.uplinks[self.voters.index(voter)]

    def asked(self, lock: str) -> list[ProcessId]:
        """List the voters with which the request for this lock lies."""
        return [uplink.voter for uplink in self.uplinks if lock in uplink.locks]

    def lease(self, voter: ProcessId) -> float:
        """Return the time up to which votes of this voter count."""
        return self.uplink(voter).lease

    def reachable(self) -> list[ProcessId]:
        """List the voters that are not known to be out of reach."""
        return [uplink.voter for uplink in self.uplinks if not uplink.silent]

    def suspects(self, now: float) -> list[ProcessId]:
        """List the voters that are not to be counted on."""
        trust = self.trust(now)
        return [voter for voter, each in zip(self.voters, trust, strict=True) if each]

    def trust(self, now: float) -> list[int]:
        """Return for each voter how far it is to be counted on."""
        hedge = self.settings.hedge
        # The first condition is a short look that mostly suffices: this is asked in every step.
        return [
            VoterTrust.TRUSTED
            if uplink.heard + hedge > now and not uplink.silent and not uplink.grace
            else uplink.trust(now, hedge)
            for uplink in self.uplinks
        ]

    # Sending

    def post(self, voter: ProcessId, body: UpBody) -> None:
        """Put a lock message into the frame that this step will send."""
        self.uplink(voter).pending.append(body)

    def is_quiet(self) -> bool:
        """Return whether this step has nothing to send."""
        return not any(uplink.pending for uplink in self.uplinks)

    def flush(self, out: Outbox[Frame]) -> None:
        """Send what was posted; to a voter that does not answer, later."""
        for voter, uplink in zip(self.voters, self.uplinks, strict=True):
            if not uplink.pending:
                continue
            ends_early = False
            if not uplink.is_open:
                uplink.open(out.now)
            elif not uplink.silent and uplink.sent + self.settings.heartbeat <= out.now:
                # A session that nothing depended on sends no heartbeats, so its lease may be nearly
                # over. It counts as silent a hedge from now at the earliest (4.5). Votes count by the
                # lease alone. A session in use sends at least every heartbeat, so one that gets no
                # answer cannot put its silence off again.
                # sometimes: an idle session is used again after a heartbeat
                uplink.resumed = out.now
                # A voter answers a request that waits only when a heartbeat asks it to. That of half a
                # hedge later is too late if its answer, which may take a hedge, comes after the lease.
                ends_early = uplink.lease < out.now + 1.5 * self.settings.hedge
            while uplink.pending:
                parcel = uplink.pack(out.now)
                if not uplink.silent:
                    self._send(voter, uplink, [parcel], out)
            if ends_early:
                self._beat(voter, uplink, out)

    def connected(self, voter: ProcessId, out: Outbox[Frame]) -> None:
        """Go on over a new connection: what is not acknowledged may have been lost with the old."""
        if voter in self.voters and self.uplink(voter).is_open:
            self._resume(voter, self.uplink(voter), out)

    def send_again(self, voter: ProcessId, out: Outbox[Frame]) -> None:
        """Send what a voter may have refused, as it counted in another number than the voter."""
        uplink = self.uplink(voter)
        if uplink.is_open and not uplink.silent:
            self._send(voter, uplink, uplink.unacked, out)
            self._beat(voter, uplink, out)

    def live(self, life: str, out: Outbox[Frame]) -> None:
        """Say by which processes this program is known to be alive; it can be said once (20).

        Voters take the first that they hear. One that heard of fewer processes than there are would
        take the program for dead too early.
        """
        assert not is_whole(self.life), "a life was said before"
        self.life = life
        for voter, uplink in zip(self.voters, self.uplinks, strict=True):
            if uplink.is_open and not uplink.silent:
                self._beat(voter, uplink, out)

    def close(self, out: Outbox[Frame]) -> None:
        """End all sessions; the caller counts no votes any more."""
        for voter, uplink in zip(self.voters, self.uplinks, strict=True):
            if uplink.is_open:
                out.send(voter, Bye(self._session(uplink)))
            uplink.close()

    def _send(
        self, voter: ProcessId, uplink: Uplink, parcels: Iterable[Parcel], out: Outbox[Frame]
    ) -> None:
        session = self._session(uplink)
        for parcel in parcels:
            parcel.sent = uplink.sent = out.now
            ack, clock = uplink.delivered, self.clock
            out.send(
                voter,
                Data(
                    session,
                    parcel.seq,
                    ack,
                    clock,
                    out.now,
                    parcel.bodies,
                    self.number,
                    self.known,
                    self.life if uplink.nonce is None else "",
                ),
            )
        if self.shortened and uplink.nonce is None:
            out.send(voter, Term(session, self.settings.lease))

    def _resume(self, voter: ProcessId, uplink: Uplink, out: Outbox[Frame]) -> None:
        uplink.silent = False
        uplink.resumed = out.now
        self._send(voter, uplink, uplink.unacked, out)
        self._beat(voter, uplink, out)

    def _beat(self, voter: ProcessId, uplink: Uplink, out: Outbox[Frame]) -> None:
        uplink.sent = out.now
        uplink.asked = min(uplink.asked, out.now)
        session, ack = self._session(uplink), uplink.delivered
        beat = Beat(session, ack, self.clock, out.now, self.number, self.known, self.life)
        out.send(voter, beat)

    def _session(self, uplink: Uplink) -> SessionName:
        return SessionName(self.name, uplink.number, uplink.nonce)

    # Receiving

    def receive(
        self, voter: ProcessId, frame: Reply | Ack | Answer | Nack, out: Outbox[Frame]
    ) -> Arrival:
        """Take a frame of the present session; those of others mean nothing."""
        uplink = self.uplink(voter)
        if not uplink.is_open or not self._is_ours(uplink, frame.session):
            # sometimes: a frame of an earlier session comes late
            return NOTHING
        match frame:
            case Reply() | Ack():
                if frame.ack > uplink.posted:
                    return NOTHING  # no such frame was sent
                return self._accept(voter, uplink, frame, out)
            case Answer(_, alive):
                return self._resume_or_reopen(voter, uplink, alive, out)
            case Nack():
                return self._lose(uplink)

    def _is_ours(self, uplink: Uplink, session: SessionName) -> bool:
        if session.number != uplink.number or session.participant != self.name:
            return False
        return uplink.nonce is None or session.nonce == uplink.nonce

    def _accept(
        self, voter: ProcessId, uplink: Uplink, frame: Reply | Ack, out: Outbox[Frame]
    ) -> Arrival:
        lapsed, silent = uplink.lease <= out.now, uplink.silent
        uplink.accept(frame, out.now, self.settings.lease, self.number)
        self.merge(frame.clock)
        if silent and uplink.lease > out.now:
            # sometimes: a silent voter is heard again
            self._resume(voter, uplink, out)
        elif uplink.unacked and not silent:
            self._send(voter, uplink, uplink.overtaken(frame.echo), out)
        bodies: tuple[DownBody, ...] = ()
        # Once and in order: a Grant that is read again after its Yield would count a vote that
        # another participant has.
        if isinstance(frame, Reply) and frame.seq == uplink.delivered + 1:
            uplink.delivered += 1
            bodies = frame.bodies
        return Arrival(bodies, None, lapsed and uplink.lease > out.now)

    def _resume_or_reopen(
        self, voter: ProcessId, uplink: Uplink, alive: bool, out: Outbox[Frame]
    ) -> Arrival:
        if not alive and uplink.nonce is not None:
            # sometimes: a voter answers that it has forgotten the session
            return self._lose(uplink)
        self._resume(voter, uplink, out)
        return NOTHING

    def _lose(self, uplink: Uplink) -> Arrival:
        lost = Loss(uplink.lease, sorted(uplink.locks))
        uplink.close()
        return Arrival(lost=lost)

    # Time

    def check(self, now: float) -> None:
        """Look at the clock: forget what is over, fall silent where no answer came for a lease."""
        for voter, uplink in zip(self.voters, self.uplinks, strict=True):
            if uplink.lease > now or not uplink.is_open or uplink.lapses(self.settings) > now:
                continue
            # A voter that votes no more may have been switched off, and is not asked after.
            if uplink.locks or (uplink.unacked and voter in self.seats):
                # sometimes: a voter falls silent
                uplink.silent = True
            else:
                uplink.close()

    def beat(self, out: Outbox[Frame]) -> None:
        """Send the heartbeats and probes that are due."""
        for voter, uplink in zip(self.voters, self.uplinks, strict=True):
            if self._due(uplink) > out.now:
                continue
            if uplink.silent:
                uplink.sent = out.now
                out.send(voter, Probe(self._session(uplink), self.number, self.known))
            else:
                self._beat(voter, uplink, out)

    def deadline(self, now: float, armed: float) -> float:
        """Return the next time at which `check` or `beat` has something to do, or `armed` if sooner."""
        deadline = armed
        hedge = self.settings.hedge
        pause = min(hedge / 2, self.settings.heartbeat)
        for uplink in self.uplinks:
            # None of the three times below is before these, which mostly lie after the next alarm.
            is_early = uplink.begins() + pause < deadline or uplink.lease < deadline
            if not (is_early or uplink.heard + hedge < deadline) or not uplink.is_open:
                continue
            due = self._due(uplink)
            if due < deadline:
                deadline = due
            lapses = uplink.lapses(self.settings)
            if now < lapses < deadline:
                deadline = lapses
            suspected = uplink.waits_since() + hedge
            if now < suspected < deadline:
                deadline = suspected
        return deadline

    def _due(self, uplink: Uplink) -> float:
        """Return the time of the next heartbeat: sooner while an answer is missing."""
        if not uplink.is_open or not uplink.is_used():
            return math.inf
        if not uplink.unacked or uplink.silent:
            return uplink.sent + self.settings.heartbeat
        return uplink.begins() + self.settings.hedge / 2


# The voter's end


class UnackedFrame(msgspec.Struct, array_like=True, gc=False):
    """Lock messages under one sequence number, kept until they are acknowledged."""

    seq: int
    bodies: tuple[DownBody, ...]
    sent: float


class Downlink(msgspec.Struct, array_like=True):
    """The session with one participant."""

    session: SessionName
    peer: ProcessId  # where its frames come from
    posted: int = 0  # sequence number of the last frame
    delivered: int = 0  # sequence number of the last data taken
    unacked: list[UnackedFrame] = field(default_factory=list)
    pending: list[DownBody] = field(default_factory=list)  # of the present step
    locks: set[str] = field(default_factory=set)  # that it owns or waits for
    heard: float = NEVER  # when the last frame was processed
    echo: float = NEVER  # the latest sending time, by the participant's clock
    lease: float | None = None  # the participant's own, if it is shorter than that of all
    expires: float = NEVER  # when it is forgotten, if no frame comes
    number: int = 0  # the highest that the participant has stated to count in
    life: str = ""  # the first whole one that it has said

    def accept(self, frame: Data | Beat, now: float, settings: Settings) -> None:
        """Take note of what every frame of the session says; `settings` are of its number.

        Both ends renew for the lease of the number that the frame counts in, and the session expires
        later than the participant stops to count (11.2). So a change to another lease has no moment
        of its own at which one end could be ahead of the other. A participant's numbers only rise,
        so the latest sending time is that of a frame of the highest number.
        """
        self.heard = now
        if frame.time > self.echo:
            self.echo = frame.time
        lease = settings.lease if self.lease is None else min(self.lease, settings.lease)
        expires = now + settings.expiry_of(lease)
        if expires > self.expires:
            self.expires = expires
        if frame.number > self.number:
            self.number = frame.number
        # 20: the first whole one counts. A later frame may come earlier, and one that knows fewer processes
        # would let the program be taken for dead while others of it live.
        if frame.life and not is_whole(self.life):
            self.life = frame.life
        if self.unacked:
            self.unacked = [kept for kept in self.unacked if kept.seq > frame.ack]

    def takes(self, seq: int) -> bool:
        """Return whether this number is the next one, and count it if so."""
        if seq != self.delivered + 1:
            return False
        self.delivered += 1
        return True

    def is_overdue(self, time: float) -> bool:
        """Return whether something sent before that time is still not acknowledged."""
        return bool(self.unacked) and self.unacked[0].sent <= time

    def pack(self, now: float) -> UnackedFrame:
        """Give what was posted in this step a number, as far as it fits a frame, and keep it."""
        self.posted += 1
        packed = UnackedFrame(self.posted, tuple(self.pending[:BODIES_MAX]), now)
        del self.pending[:BODIES_MAX]
        self.unacked.append(packed)
        return packed
