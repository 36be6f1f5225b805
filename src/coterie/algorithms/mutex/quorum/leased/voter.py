"""A voter: for each lock it gives its vote to one participant at a time, or to several that share.

Sessions and expiry are section 4 of docs/protocol/leased.md, the rules for a lock 6, tokens and
what is saved 7, abstention after a restart 9; numbered configurations are 19, in changes.md beside it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec
from msgspec import field

from coterie.algorithms.mutex.quorum.leased.ballot import Ballot, Claim, Tenure
from coterie.algorithms.mutex.quorum.leased.configuration import FORCED_LEAP, Configuration, Rule
from coterie.algorithms.mutex.quorum.leased.frames import (
    LISTED_MAX,
    NUMBER_MAX,
    Accept,
    Ack,
    Answer,
    Beat,
    Behind,
    Bye,
    Close,
    Closed,
    Condition,
    CopyValue,
    Data,
    DownBody,
    Fetch,
    Forget,
    Frame,
    GetValue,
    Grant,
    Inquire,
    ListValues,
    Look,
    Nack,
    NewConfiguration,
    Obituary,
    Prepare,
    Probe,
    Query,
    Raise,
    Raised,
    Release,
    Reply,
    Report,
    Request,
    Revoke,
    Seen,
    SessionName,
    Settle,
    Stale,
    Term,
    UpBody,
    Upward,
    ValueCopied,
    ValueFound,
    ValueList,
    Write,
    Written,
    Yield,
    is_whole,
)
from coterie.algorithms.mutex.quorum.leased.register import Note, Register
from coterie.algorithms.mutex.quorum.leased.saved import Saved, read_saved
from coterie.algorithms.mutex.quorum.leased.sessions import Downlink, UnackedFrame
from coterie.algorithms.mutex.quorum.leased.stored import INLINE_BYTES_MAX, VALUES_PROTOCOL
from coterie.algorithms.mutex.quorum.leased.succession import Succession
from coterie.algorithms.mutex.quorum.leased.votes import NEVER

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from coterie.algorithms.mutex.quorum.leased.frames import Ask, Carriage
    from coterie.algorithms.mutex.quorum.leased.settings import Settings
    from coterie.process import Outbox, ProcessId

VOTER = "voter"  # the one timer of this part
NEAR = 1 << 24  # how far numbers that participants send may lead the clock, in any frame
FAR = 1 << 40  # the same for one frame after LEAP_PAUSE, so that a clock that is behind catches up
LEAP_PAUSE = 1.0
BURIED_MAX = 1000  # participants whose late frames are refused


class Delay(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """13: the rest of a lock whose vote ended by expiry."""

    until: float
    number: int  # the lowest in which a participant may have counted such a vote


class Voter(msgspec.Struct, array_like=True):
    """The votes of one process for any number of locks."""

    configuration: Configuration | None  # the newest it has adopted; None: it is a spare
    clock: int = 0  # Lamport's
    bound: int = 0  # on stable storage: no token above it was ever handed out
    floor: int = 0  # of the locks that have no ballot
    abstains_until: float = NEVER  # after a restart
    sessions: dict[str, Downlink] = field(default_factory=dict)  # by participant
    ballots: dict[str, Ballot] = field(default_factory=dict)  # of the locks that are not idle
    dirty: list[str] = field(default_factory=list)  # participants with something pending
    delayed: dict[str, Delay] = field(default_factory=dict)  # by lock
    cautious: bool = False  # nothing on stable storage means that it was lost, not never written
    name: str = ""  # no other start of any process has had it
    opened: int = 0  # sessions so far
    armed: float = math.inf  # when the timer rings
    leapt: float = NEVER  # when a frame last moved the clock further than NEAR
    closed: int = -1  # numbers up to it are served no more
    succession: Succession = field(default_factory=Succession)  # to its configuration
    abstention: float = 0.0  # for how long it gives no votes after a start; on stable storage
    identity: str = ""  # of its disk
    protocol: int = 0  # the highest version that its software speaks, and its participants
    slowest: str = ""  # the participant that speaks no higher one; empty: it is its own software
    is_old: bool = False  # its disk was written before disks had identities
    buried: dict[str, str] = field(default_factory=dict)  # lives that have ended, by participant
    is_witness: bool = False  # its node says which programs of its machine have ended
    register: Register = field(default_factory=Register)  # the values of locks

    @property
    def settings(self) -> Settings:
        """Times and policy, by its own configuration."""
        assert self.configuration is not None, "a spare has no sessions, and gives no votes"
        return self.configuration.rule.parts[0].settings

    @property
    def number(self) -> int:
        """The number of its configuration; -1 if it is a spare."""
        return -1 if self.configuration is None else self.configuration.number

    def start(self, name: str, out: Outbox[Frame]) -> None:
        """Begin, and abstain if votes may have been given before: a lease of them may still run."""
        self.name = name
        # What was handed out before is forgotten, except that no token lies above the saved bound.
        # So every token up to it counts as used, for every lock.
        saved = self.register.restore(read_saved(out.saved), tuple(out.log))
        self.bound = self.floor = self.clock = saved.bound
        self._restore(saved)
        # 9: a participant may still count a vote given before the crash. It does so for at most a
        # lease on its own clock, and `expiry` is longer than that on ours (11.2). A voter gives no
        # vote before it has saved a bound, so without one there is nothing to wait for.
        if (out.saved or self.cautious) and self.configuration is not None:
            self.abstains_until = out.now + self.abstention
            self._arm(self.abstains_until, out)
        # The last records may have been written and not synced. No message has told of them, but from now on
        # others are, so all has to last: a snapshot takes the place of the log.
        if out.log and self.configuration is not None:
            self._save_all(out)

    def recall(self, out: Outbox[Frame]) -> None:
        """Take the values from stable storage, where all else was remembered over an orderly end."""
        self.register.restore(read_saved(out.saved), tuple(out.log))
        if out.log:
            self._save_all(out)

    def _restore(self, saved: Saved) -> None:
        """Take back what was decided, promised and accepted before this start."""
        if saved.configuration is not None:
            self.configuration = saved.configuration
        self.succession = Succession(saved.promised, saved.accepted)
        self.abstention = saved.abstention
        if self.configuration is None:
            return
        self.abstention = max(self.abstention, _abstention(self.configuration.rule))
        # A voter that is new has a bound far below the tokens that others use, which lie above the
        # floor; from there its clock would follow a frame only FAR at a time.
        self._merge(self.configuration.floor)
        # Which numbers were closed is forgotten, so only its own is served. Sessions of earlier ones
        # are gone anyway, and a number that was reported as finished stays so (19.6).
        self.closed = self.number - 1

    def receive(self, participant: ProcessId, frame: Upward, out: Outbox[Frame]) -> None:
        """Handle a frame that came from this process."""
        match frame:
            case Data() | Beat():
                rule = self._rule_for(participant, frame, out)
                if rule is not None:
                    self._take_frame(participant, frame, rule.settings, out)
                    self._pass_on_news(participant, frame, out)
            case Probe(session):
                if self._rule_for(participant, frame, out) is not None:
                    out.send(participant, Answer(session, self._knows(session)))
                    self._pass_on_news(participant, frame, out)
            case Term(session, lease):
                self._shorten(session, lease, out)
            case Bye(session):
                if self._knows(session):
                    self.end_session(session.participant, out)
            case NewConfiguration(configuration):
                self.adopt(configuration, out)
            case Obituary(dead, life):
                self._bury(dead, life, out)
            case Look():
                self._show(participant, frame, out)
            case Query() | Close() | Prepare() | Accept() | ListValues() | GetValue() | CopyValue():
                self._answer_changer(participant, frame, out)

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
        if self.configuration is None:
            return  # it has stood aside since, and nothing is left that could end
        touched = self._end_delays(out)
        delay = self.settings.lock_delay
        for participant in sorted(self.sessions):
            if self.sessions[participant].expires <= out.now:
                # sometimes: a session expires
                touched += self._drop(participant, out.now + delay if delay else NEVER)
        if self.abstains() and self.abstains_until <= out.now:
            self.abstains_until = NEVER
            # sometimes: an abstention ends
            touched += sorted(self.ballots)
        self._finish(touched, out)
        ends = [self.abstains_until] if self.abstains() else []
        ends += [delay.until for delay in self.delayed.values()]
        ends += [link.expires for link in self.sessions.values()]
        self._arm(min(ends, default=math.inf), out)

    def abstains(self) -> bool:
        """Return whether it gives no votes yet."""
        return self.abstains_until > NEVER

    def end_session(self, participant: str, out: Outbox[Frame]) -> None:
        """Forget the session of a participant that counts its votes no more, and give them on."""
        self._finish(self._drop(participant), out)

    # Sessions: section 4

    def _take_frame(
        self, sender: ProcessId, frame: Data | Beat, settings: Settings, out: Outbox[Frame]
    ) -> None:
        """Handle what comes in its turn; a frame that brings nothing new is acknowledged."""
        # 20: what the dead have sent before their end asks for nothing any more.
        if frame.session.participant in self.buried:
            # sometimes: a frame of a program that has ended comes late
            return
        opening = frame.session.nonce is None
        touched = self._open(frame.session, sender, out) if opening else []
        # A frame of a session that was forgotten renews nothing. Were it acknowledged, votes that
        # belong to another participant by now would seem to be leased again.
        if not self._knows(frame.session):
            if not opening:
                # sometimes: a frame of a session that a voter has forgotten is refused
                out.send(sender, Nack(frame.session))
            return
        link = self.sessions[frame.session.participant]
        link.peer = sender
        link.accept(frame, out.now, settings)
        ceiling = self._ceiling(out.now)
        before = self.clock
        self._merge(min(frame.clock, ceiling))
        if link.is_overdue(out.now - settings.hedge):
            # sometimes: a voter sends again what was not acknowledged for a hedge
            self._send(link, link.unacked, out)
        taken = False
        if isinstance(frame, Data) and link.takes(frame.seq):
            taken = True
            for body in frame.bodies:
                self._apply(link, body, ceiling, out)
                touched.append(body.lock)
        if self.clock > before + NEAR:
            # sometimes: the numbers of a voter leap
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
            # sometimes: a frame older than the session of its program opens none
            return []
        touched = self._drop(session.participant)
        self.opened += 1
        nonce = f"{self.name}/{self.opened}"
        named = SessionName(session.participant, session.number, nonce)
        self.sessions[session.participant] = Downlink(named, sender)
        # A lease of another number may be shorter; the timer that rings then finds the next one.
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
                    # sometimes: a vote that ended by expiry is kept back
                    earlier = self.delayed.get(lock)
                    number = min(link.number, earlier.number) if earlier else link.number
                    self.delayed[lock] = Delay(delayed_until, number)
        return sorted(link.locks)

    def _bury(self, participant: str, life: str, out: Outbox[Frame]) -> None:
        """20: end the session of a participant whose program is gone, and give its votes on.

        It counts no vote any more, as it does nothing any more; so a lease need not pass. What it did
        to resources may still be on its way, so a lock delay is kept.
        """
        link = self.sessions.get(participant)
        # A program may consist of more processes than the witness knew of, and those still live.
        if link is None or link.life != life or not is_whole(life):
            # sometimes: a witness speaks of another life than that of the session
            return
        # Refused before its votes are free: what is still on its way would open a session again, and
        # its request would get the vote until that session has expired. No safety rests on it, so the
        # oldest names are forgotten.
        # sometimes: a witness ends the session of a program
        self.buried[participant] = life
        while len(self.buried) > BURIED_MAX:
            del self.buried[next(iter(self.buried))]
        delay = self.settings.lock_delay
        touched = self._drop(participant, out.now + delay if delay else NEVER)
        if delay and touched:
            self._arm(out.now + delay, out)
        self._finish(touched, out)

    def _shorten(self, session: SessionName, lease: float, out: Outbox[Frame]) -> None:
        """Expire a session sooner, as its participant counts a shorter lease than all others.

        A longer one would outlast the abstention after a restart, and is not believed.
        """
        if self._knows(session) and 0 < lease <= self.settings.lease:
            link = self.sessions[session.participant]
            # sometimes: a session expires by the shorter lease of its program
            link.lease = lease
            link.expires = link.heard + self.settings.expiry_of(lease)
            self._arm(link.expires, out)

    def _end_delays(self, out: Outbox[Frame]) -> list[str]:
        over = sorted(lock for lock, delay in self.delayed.items() if delay.until <= out.now)
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
            case Write() | Fetch() | Forget() if tenure is not None:
                self._apply_to_value(tenure, body, out)
            case Yield() | Raise() | Write() | Fetch() | Forget():
                # sometimes: a program yields or raises a vote that it has no more
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
                # sometimes: a repair comes too late, after a larger token
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
        value = self.register.values.get(lock)
        if value is not None and not claim.shared:
            # 21.3: this is on the disk before the Grant leaves, and until the tenure ends only its owner
            # writes another. So the vote is a promise as in Paxos, and a write its second phase.
            whole = value.size <= INLINE_BYTES_MAX
            shown = value if whole else value.without_data()
            self._post(claim.participant, Report(lock, claim.number, shown, whole))
        grant = Grant(lock, claim.number, tenure.low, tenure.high, more)
        self._post(claim.participant, grant)

    def revocable(self, lock: str, participants: Sequence[str], token: int) -> list[Tenure]:
        """Find the tenures of these participants that may support a token up to this one.

        A vote that was given back with a token is given again above it (7), so what began later is
        not among them.
        """
        ballot = self.ballots.get(lock)
        return [
            tenure
            for tenure in (ballot.owners if ballot is not None else ())
            if tenure.claim.participant in participants and tenure.low <= token
        ]

    def revoke(self, lock: str, tenures: Sequence[Tenure], token: int, out: Outbox[Frame]) -> None:
        """Tell these owners of the vote that an operator has ended their holds up to this token.

        The vote stays theirs until they give it back, or their leases run out: only then have they
        stopped counting it (11.3).
        """
        for tenure in tenures:
            claim = tenure.claim
            self._post(claim.participant, Revoke(lock, claim.number, min(token, NUMBER_MAX)))
        self._finish([], out)

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
            self._save(out)

    def _save(self, out: Outbox[Frame]) -> None:
        """Put on stable storage what must not be forgotten, before anything of this step leaves."""
        # A save takes the place of all values and of the log, so where there are any it is a record, too.
        if self.register.is_used:
            self._append(self.register.encode(Note(self._essence())), out)
        else:
            out.save(self._essence().encode())

    def _save_all(self, out: Outbox[Frame]) -> None:
        """Save what must not be forgotten together with all values, in the place of the log."""
        out.save(self.register.snapshot(self._essence()).encode())

    def _append(self, record: bytes, out: Outbox[Frame]) -> None:
        if self.register.is_long:
            self._save_all(out)
        else:
            out.append(record)

    def _essence(self) -> Saved:
        """Return all that must not be forgotten but the values."""
        self._adjust_abstention()
        # 7: a floor that was raised to what other voters know has to last as long as what is saved
        # here: after a start with something on disk they are not asked again.
        self.bound = max(self.bound, self.floor)
        numbered = self.configuration if self.number > 0 else None
        promised, accepted = self.succession.promised, self.succession.accepted
        return Saved(self.bound, numbered, promised, accepted, self.abstention)

    def _merge(self, clock: int) -> None:
        if clock > self.clock:
            self.clock = clock

    def _ceiling(self, now: float) -> int:
        """7: return the largest number that a frame may bring.

        All that participants send moves the clock by little more than FAR in each LEAP_PAUSE, so no
        program whose clock is broken can use up the numbers.
        """
        return self.clock + (FAR if now >= self.leapt + LEAP_PAUSE else NEAR)

    # Values: section 21

    @property
    def keeps_values(self) -> bool:
        """Whether its configuration says that voters keep values."""
        return self.configuration is not None and self.configuration.protocol >= VALUES_PROTOCOL

    def _apply_to_value(
        self, tenure: Tenure, body: Write | Fetch | Forget, out: Outbox[Frame]
    ) -> None:
        """21.4: let the owner of the vote, and no other, have the value or write it."""
        lock, known = body.lock, self.register.find(body.lock)
        owner = tenure.claim
        match body:
            case Fetch():
                self._post(owner.participant, Report(lock, owner.number, known))
            case Write(_, _, value) if self._may_write(tenure, value.token):
                refusal = ""
                # The same one again is on the disk already. A lower one comes behind a copy, or a repair.
                if value.version < known.version:
                    return
                if value.version > known.version:
                    refusal = self.register.objection(lock, value)
                # A copy of what was on its way here is not loose any more.
                is_new = value.version > known.version or known.loose
                if not refusal and is_new:
                    self._append(self.register.keep(lock, value), out)
                self._post(
                    owner.participant,
                    Written(lock, owner.number, value.token, value.sequence, refusal),
                )
            case Forget(_, _, token, sequence) if self._may_write(tenure, token):
                is_over = known.data is None and known.version == (token, sequence)
                # While a number is open, copies of its values may be on their way, and this voter has
                # to remember why it does not take them.
                if is_over and not self._present().open and lock in self.register.values:
                    self._append(self.register.erase(lock), out)
            case Write() | Forget():
                pass  # no program of ours sends that

    def _may_write(self, tenure: Tenure, token: int) -> bool:
        """Return whether a token is one of the owner's, who has the vote alone.

        The lower end says nothing: it may have been raised above a hold that goes on (5.5).
        """
        return self.keeps_values and not tenure.claim.shared and token <= tenure.high

    def _show(self, reader: ProcessId, frame: Look, out: Outbox[Frame]) -> None:
        """21.7: say what is on the disk. That is true also while no votes are given."""
        if self._rule_for(reader, frame, out) is None:
            return
        value = self.register.find(frame.lock)
        whole = value.version != (frame.token, frame.sequence)
        shown = value if whole else value.without_data()
        out.send(reader, Seen(frame.question, frame.lock, shown, whole))
        ballot = self.ballots.get(frame.lock)
        if frame.settles and ballot is not None and self.keeps_values:
            for owner in ballot.owners:
                if not owner.claim.shared:
                    claim = owner.claim
                    self._post(claim.participant, Settle(frame.lock, claim.number))
            self._finish([], out)

    def _carry(self, changer: ProcessId, frame: Carriage, out: Outbox[Frame]) -> None:
        """21.8: let a changer bring values of a number that is finished to where they are needed."""
        match frame:
            case ListValues(number, after):
                # A disk that is to vote again, under another seat, clears what it has when it adopts that.
                if self.number < number:
                    return
                names = sorted(name for name in self.register.values if name > after)
                listed = tuple(
                    (name, self.register.find(name).without_data()) for name in names[:LISTED_MAX]
                )
                out.send(changer, ValueList(after, listed, len(names) > LISTED_MAX))
            case GetValue(lock):
                out.send(changer, ValueFound(lock, self.register.find(lock)))
            case CopyValue(number, lock, value):
                mine = self.configuration
                # A copy that comes after its number has left `open` may be older than a deletion that
                # is forgotten by now.
                if mine is None or all(rule.number != number for rule in mine.open):
                    return
                if value.version > self.register.find(lock).version:
                    self._append(self.register.keep(lock, value), out)
                token, sequence = self.register.find(lock).version
                out.send(changer, ValueCopied(number, lock, token, sequence))

    # Configurations: section 19

    def adopt(self, configuration: Configuration, out: Outbox[Frame]) -> None:
        """19.5: take over a newer configuration, or what is noted in the same one."""
        mine = self.configuration
        if mine is not None and mine.is_foreign(configuration):
            # sometimes: a voter hears of another installation
            return  # its voters have decided nothing about ours, whatever its number is
        if mine is not None and configuration.number == mine.number:
            if mine.is_same(configuration):
                self._note(mine.noted(configuration), out)
            return
        if configuration.number < self.number:
            return
        if not self._concerns(configuration):
            # sometimes: a voter hears that another disk is meant, and stands aside
            self._stand_aside()
            return
        # A number this far above ours was forced, or follows one that was, and nothing before it was
        # closed. The order goes to one voter after the other, and participants and other voters pass
        # the configuration on meanwhile: whichever way it comes, votes of ours may count together with
        # those of lost voters (19.11). Half of the leap is far more than changes ever take: the
        # operator may not have known the newest number that we have. A spare has given no votes.
        if mine is not None and configuration.number - mine.number >= FORCED_LEAP // 2:
            # Of a number that is open, lost voters alone may support a hold. Here it may be closed,
            # with no session left of it, so its lease is not among those of what is served.
            # sometimes: a forced number reaches a voter by another way than the order
            rules = (configuration.rule, mine.rule, *mine.open)
            self.abstention = max(self.abstention, *map(_abstention, rules))
            self._forget_votes()
            self._abstain(out)
            self.register.doubt()
        seat = self._seat_of(configuration)
        if seat is not None and seat != self._seat_of(mine):
            # 21.8: what it knows is of the time before it was removed, or not its own at all. A dead write
            # among it, or a value that was deleted since, would come back.
            self.register.clear()
        self.configuration = configuration
        self.succession = Succession()
        self._merge(configuration.floor)
        self._save_all(out)

    def _seat_of(self, configuration: Configuration | None) -> ProcessId | None:
        """Return the seat that this disk has, where disks are told apart."""
        members = configuration.members if configuration is not None and self.identity else ()
        return next((each.seat for each in members if each.identity == self.identity), None)

    def impose(self, configuration: Configuration, out: Outbox[Frame]) -> None:
        """19.11: go on by a configuration that was not decided, after a quorum was lost for good.

        Participants may count votes of ours by an earlier number, together with voters that were
        given up and so close nothing. We abstain for the longest lease by which they can.
        """
        self.adopt(configuration, out)
        if self.configuration is not None:  # else it is not for this disk
            self._abstain(out)

    def _abstain(self, out: Outbox[Frame]) -> None:
        """Give no votes until none of before counts; what was to last longer already does."""
        self.abstains_until = max(self.abstains_until, out.now + self.abstention)
        self._arm(self.abstains_until, out)

    def _concerns(self, configuration: Configuration) -> bool:
        """Return whether it is for this disk; one that adopted none yet waits until it is a member.

        A node that has lost its disk is called as before and has another identity, so it is not the
        voter that is meant: it has forgotten what that one has promised and given. That it begins
        by the file, as number 0, says nothing of its disk.
        """
        if self.number > 0 or not self.identity:
            return True
        # All voters of number 0 have to accept number 1, so one that has is a voter of it, also if it
        # never heard that it was decided and is not a member any more. Votes that it gave may count.
        accepted = self.succession.accepted
        members = configuration.members + (accepted.configuration.members if accepted else ())
        return any(member.identity == self.identity for member in members)

    def _stand_aside(self) -> None:
        """Become a spare: the voter that this node was taken for is another one."""
        self.configuration = None
        self.abstains_until = NEVER
        self._forget_votes()

    def end_abstention(self, out: Outbox[Frame]) -> None:
        """9: give votes at once, as an operator vouches that no participant counts any vote of before.

        All that a lease protects is over by that word: what was given before a start, and what sessions
        have that are left of participants which were killed. Tokens go on above the bound, as after a
        start, so they rest on nothing that the operator says.
        """
        self._forget_votes()
        self.abstains_until = NEVER
        self._merge(self.floor)

    def _forget_votes(self) -> None:
        """Forget what was given, as a crash does; no participant gets it counted here again.

        By a forced number the votes that are left may be a quorum, while another participant holds
        the lock with those of lost voters until its lease is over.
        """
        self.sessions.clear()
        self.ballots.clear()
        self.delayed.clear()
        self.floor = max(self.floor, self.bound)

    def _note(self, noted: Configuration, out: Outbox[Frame]) -> None:
        if noted != self.configuration:
            self.configuration = noted
            self._merge(noted.floor)
            self._save(out)

    def _served(self) -> list[Rule]:
        """List the rules by which participants may count our votes.

        The numbers that a configuration leaves open are served, too, also by a voter that is new:
        otherwise participants that have not moved yet could not take their holds along.
        """
        mine = self._present()
        return [mine.rule, *(rule for rule in mine.open if rule.number > self.closed)]

    def _adjust_abstention(self) -> None:
        """19.9: after a crash, wait for the longest lease by which a vote of ours may count.

        It becomes shorter only when no session is left that was renewed by a longer one.
        """
        served = self._served()
        longest = max(map(_abstention, served))
        numbers = [rule.number for rule in served]
        is_clear = not self.abstains() and not self.delayed
        if is_clear and all(link.number in numbers for link in self.sessions.values()):
            self.abstention = longest
        else:
            # sometimes: an abstention stays long, since a vote may count by a longer lease
            self.abstention = max(self.abstention, longest)

    def _rule_for(
        self, sender: ProcessId, frame: Data | Beat | Probe | Look, out: Outbox[Frame]
    ) -> Rule | None:
        """19.3: return the rule that a frame counts by; answer one whose number is not served.

        A frame that is refused renews nothing and does nothing.
        """
        mine = self.configuration
        if mine is not None and frame.number == frame.known == mine.rule.number:
            return mine.rule
        if mine is None or frame.number > mine.number:
            # sometimes: a voter is behind the number of a frame
            out.send(sender, Behind(self.number))
            return None
        # Participants that count by a number that was closed must run out of leases, or move. Were
        # they served here, the number would never be finished.
        rule = None if frame.number <= self.closed else mine.rule_of(frame.number)
        if rule is None:
            # sometimes: a program counts by a number that is closed
            out.send(sender, Stale(mine))
        return rule

    def _pass_on_news(
        self, sender: ProcessId, frame: Data | Beat | Probe, out: Outbox[Frame]
    ) -> None:
        """19.3: tell a participant of a newer configuration, behind the answer to its frame.

        The answer renews its lease only as long as it counts in the number of the frame. Before it,
        the news would make it move and enter with what is left of an old lease.
        """
        if frame.known < self.number:
            out.send(sender, NewConfiguration(self._present()))

    def _answer_changer(self, changer: ProcessId, frame: Ask, out: Outbox[Frame]) -> None:
        match frame:
            case Query():
                out.send(changer, self._condition())
            case Close(number):
                if number < self.number:
                    self.closed = max(self.closed, number)
                    out.send(changer, Closed(number, self._has_finished(number), self.bound))
            case Prepare(number):
                if self._decides(changer, number, out):
                    before = msgspec.structs.replace(self.succession)
                    promise = self.succession.prepare(frame, self._present())
                    self._save_succession(before, out)
                    out.send(changer, promise)
            case Accept(_, successor):
                if self._decides(changer, successor.number - 1, out):
                    before = msgspec.structs.replace(self.succession)
                    answer = self.succession.accept(frame, self._present(), self.protocol)
                    self._save_succession(before, out)
                    out.send(changer, answer)
            case ListValues() | GetValue() | CopyValue():
                self._carry(changer, frame, out)

    def _save_succession(self, before: Succession, out: Outbox[Frame]) -> None:
        """Save what was promised or accepted, unless that is what it was before.

        A changer that lacks an answer asks all voters again and again, and a sync for each of its
        questions would leave a slow disk behind for good. Nothing that a step sends leaves before what
        this step and all earlier ones saved is on the disk: so an answer that changes nothing rests on a
        save that comes before it.
        """
        if self.succession != before:
            self._save(out)

    def _present(self) -> Configuration:
        assert self.configuration is not None, "a spare decides nothing"
        return self.configuration

    def _decides(self, changer: ProcessId, number: int, out: Outbox[Frame]) -> bool:
        """19.8: return whether this is its number; else tell the changer which one is."""
        # A spare decides nothing, and number 0 has none before it.
        if self.configuration is not None and number == self.number:
            return True
        # sometimes: a changer asks about a number that is over
        out.send(changer, self._condition())
        return False

    def _condition(self) -> Condition:
        lagging = sum(link.number < self.number for link in self.sessions.values())
        return Condition(
            self.configuration,
            lagging,
            self.abstains(),
            self.identity,
            self.protocol,
            self.slowest,
            self.is_old,
            self.is_witness,
        )

    def _has_finished(self, number: int) -> bool:
        """19.6: return whether no participant counts a vote of ours by this number, ever again.

        Each one that did has stated a higher number since, or its session has expired, and by then
        its lease was over (11.2). While we abstain there may be others that we do not know. A vote
        that is kept back for a lock delay is not known to new voters, so it has to be over as well;
        but where it was counted by a later number, voters of that one keep the lock back as we do.
        """
        return self.closed >= number and not self.abstains() and self._is_past(number)

    def _is_past(self, number: int) -> bool:
        rests = any(delay.number <= number for delay in self.delayed.values())
        return not rests and all(link.number > number for link in self.sessions.values())

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
            session, ack, number = answer.session, answer.delivered, answer.number
            grace = self.abstains()
            out.send(answer.peer, Ack(session, ack, self.clock, answer.echo, grace, number))
        for participant in self.dirty:
            link = self.sessions[participant]
            while link.pending:
                self._send(link, [link.pack(out.now)], out)
        self.dirty.clear()

    def _send(self, link: Downlink, frames: Iterable[UnackedFrame], out: Outbox[Frame]) -> None:
        for frame in frames:
            frame.sent = out.now
            reply = Reply(
                link.session,
                frame.seq,
                link.delivered,
                self.clock,
                link.echo,
                self.abstains(),
                frame.bodies,
                link.number,
            )
            out.send(link.peer, reply)

    def _arm(self, due: float, out: Outbox[Frame]) -> None:
        """Arm the timer if it would ring too late; one that rings early finds nothing to do."""
        if due < self.armed:
            self.armed = due
            out.set_timer(VOTER, due - out.now)


def _abstention(rule: Rule) -> float:
    """9: return how long a vote given by this rule may still count after a crash of its voter."""
    return max(part.settings.expiry + part.settings.lock_delay for part in rule.parts)
