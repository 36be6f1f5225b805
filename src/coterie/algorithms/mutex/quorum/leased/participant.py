"""A participant: the part of a program that asks for locks, holds them and keeps their votes.

It counts by one configuration at a time. When it hears of a newer one it asks the voters of that one
as well, and moves as soon as every hold is valid by both.

Numbers such as 5.4 in this package are sections of docs/protocol/leased.md, 19 of changes.md there.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec
from msgspec import field

from coterie.algorithms.mutex.quorum.leased.bid import Bid, Share, State
from coterie.algorithms.mutex.quorum.leased.claimed import ClaimedValue, Writing
from coterie.algorithms.mutex.quorum.leased.configuration import Configuration
from coterie.algorithms.mutex.quorum.leased.frames import (
    Ack,
    Answer,
    Behind,
    DownBody,
    Downward,
    Fetch,
    Forget,
    Frame,
    Grant,
    Inquire,
    Look,
    Nack,
    NewConfiguration,
    Raise,
    Raised,
    Release,
    Reply,
    Report,
    Request,
    Revoke,
    Seen,
    Settle,
    Stale,
    Write,
    Written,
    Yield,
)
from coterie.algorithms.mutex.quorum.leased.free_read import FreeRead
from coterie.algorithms.mutex.quorum.leased.sessions import Sessions
from coterie.algorithms.mutex.quorum.leased.settings import Settings
from coterie.algorithms.mutex.quorum.leased.stored import VALUES_PROTOCOL, StoredValue
from coterie.algorithms.mutex.quorum.leased.votes import Interval, fit, voters_to_ask
from coterie.errors import MisuseError
from coterie.process import Entered, Event, Outbox, ProcessId

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.algorithms.mutex.quorum.leased.configuration import Rule
    from coterie.algorithms.mutex.quorum.leased.sessions import Loss
    from coterie.coteries import Coterie

PARTICIPANT = "participant"  # the one timer of this part
VALUES_PER_STEP = 64  # that are sent or asked for: a frame has room for them


class Acquired(Entered, frozen=True):
    """The lock is ours. A resource that compares tokens accepts no smaller one after this."""

    lock: str
    token: int


class Lost(Event, frozen=True):
    """The hold has lapsed, for good: stop, then release. Another process may hold the lock now."""

    lock: str
    token: int
    revoked: bool = False  # by an operator, and not by the end of its lease


class Unwanted(Event, frozen=True):
    """No other participant waits any more for the lock that we share: local tasks may join it."""

    lock: str


class ValueRead(Event, frozen=True):
    """The value, as the holder with this token finds it: no write of an earlier hold takes effect any more."""

    lock: str
    token: int
    value: StoredValue


class ValueWritten(Event, frozen=True):
    """A quorum has it on disk: the next holder finds it."""

    lock: str
    token: int
    value: StoredValue


class ValueRefused(Event, frozen=True):
    """There is no room for it at so many voters that no quorum can have it. Some may have it."""

    lock: str
    token: int
    reason: str


class ValueForsaken(Event, frozen=True):
    """What was being read or written is left as it is, for its hold has ended."""

    lock: str
    token: int


class ValueSeen(Event, frozen=True):
    """The value, as a quorum has it that was asked without the lock."""

    lock: str
    question: int
    value: StoredValue


class Learnt(Event, frozen=True):
    """There is a newer configuration: its voters have to be called, to ask them for our holds."""

    configuration: Configuration


class Forgotten(Event, frozen=True):
    """There is nothing more to say to a voter of an earlier configuration."""

    voter: ProcessId


class Moved(Event, frozen=True):
    """From now on votes are counted by this configuration."""

    configuration: Configuration


def participant(
    configuration: Configuration, home: ProcessId, lease: float | None = None
) -> Participant:
    """Make a participant that asks the quorum of the voter `home` first.

    `lease`, if given, is shorter than that of the configuration: its holds lapse sooner, and its
    voters give its votes to others sooner.
    """
    own = _own_settings(configuration.settings, lease)
    sessions = Sessions(own, shortened=lease is not None)
    return Participant(configuration, own, sessions, home, None if lease is None else own.lease)


def _own_settings(settings: Settings, lease: float | None) -> Settings:
    return settings if lease is None or lease > settings.lease else settings.shortened(lease)


class Participant(msgspec.Struct, array_like=True):
    """Any number of locks, one request at a time for each, over one session per voter."""

    configuration: Configuration  # by which it counts
    settings: Settings  # of that, with its own lease
    sessions: Sessions
    home: ProcessId  # the voter whose quorum is asked first
    lease: float | None = None  # its own, if it is shorter than that of all; it never grows
    next: Configuration | None = None  # the newest it knows, if it cannot count by it yet
    requests: int = 0  # made so far, over all locks
    bids: dict[str, Bid] = field(default_factory=dict)  # locks that are not idle
    cached: set[str] = field(default_factory=set)  # those of them that are kept unused
    sound_until: float = math.inf  # up to then no hold can have lapsed since it was last looked at
    unwinds_at: float = math.inf  # when votes of a lost hold are to be given back at the latest
    armed: float = math.inf  # when the timer rings
    trust: list[int] = []  # of the voters, when the locks were last looked at
    engaged: set[str] = field(default_factory=set)  # locks whose values are being read or written
    readings: dict[int, FreeRead] = field(default_factory=dict)  # without the lock, by question

    def start(self, name: str, out: Outbox[Frame]) -> None:
        """Begin under a name that no other start of any process has had."""
        self.sessions.start(name, self.configuration.number, self.configuration.seats)

    # What the user does

    def live(self, life: str, out: Outbox[Frame]) -> None:
        """Say of which processes this program consists, so that voters may hear of its end (20)."""
        self.sessions.live(life, out)

    def acquire(
        self, lock: str, out: Outbox[Frame], *, shared: bool = False, age: int = 0, writer: int = 0
    ) -> None:
        """Ask for a lock, alone or shared; `Acquired` is told once, maybe within this step.

        `age` is that of a task that has waited in the line of this process; 0: it asks just now.
        `writer` is what `announce` tells.
        """
        token = self.try_reacquire(lock, out.now, shared=shared)
        if token:
            out.tell(Acquired(lock, token))
            return
        self._check_clock(out)
        self._acquire(lock, out, shared=shared, age=age, writer=writer)
        self._finish_call(lock, out)

    def release(self, lock: str, out: Outbox[Frame]) -> None:
        """Leave; a hold that was lost ends with this, too."""
        if self.try_release(lock, out.now):
            return
        self._check_clock(out)
        self._release(lock, out)
        self._finish_call(lock, out)

    def reenter(
        self, lock: str, out: Outbox[Frame], *, shared: bool = False, age: int = 0, writer: int = 0
    ) -> None:
        """Leave, and ask again for another task of this process: one frame to each voter."""
        self._check_clock(out)
        self._release(lock, out)
        self._acquire(lock, out, shared=shared, age=age, writer=writer)
        self._finish(out)

    def announce(self, lock: str, writer: int, out: Outbox[Frame]) -> None:
        """17: say that a task of this process waits behind what is shared, to be alone.

        `writer` is its age; 0: none waits any more. No younger request to share passes it then.
        """
        self._check_clock(out)
        bid = self.bids.get(lock)
        if bid is None or not bid.shared or bid.state is State.CACHED:
            raise MisuseError(f"lock {lock!r} is neither waited for nor held in shared mode")
        # Older than the request that it waits behind it must not be: by that the oldest request of
        # all waits for no task that is only announced (11.6).
        bid.writer = max(writer, bid.age + 1) if writer else 0
        for voter in self.sessions.asked(lock):
            self._request(lock, [voter], bid.share(voter).repair)
        self._finish(out)

    def withdraw(self, lock: str, out: Outbox[Frame]) -> None:
        """Give up waiting; nothing is told about this request any more."""
        self._check_clock(out)
        bid = self.bids.get(lock)
        if bid is None or bid.state is not State.WAIT:
            raise MisuseError(f"lock {lock!r} is not waited for")
        self._release_all(lock)
        self._finish(out)

    def close(self, out: Outbox[Frame]) -> None:
        """End in good order, so that voters need not wait for a lease to lapse."""
        self._check_clock(out)
        if set(self.bids) != self.cached:
            raise MisuseError("release all locks, and withdraw from those waited for, before close")
        for lock in sorted(self.cached):
            self._release_all(lock)
        self.sessions.flush(out)
        self.sessions.close(out)

    def read(self, lock: str, out: Outbox[Frame]) -> None:
        """Read the value of a lock that is held alone; `ValueRead` is told, maybe within this step."""
        self._check_clock(out)
        value = self._claimed(lock)
        if value is not None:
            value.is_wanted = True
            self.engaged.add(lock)
        self._finish(out)

    def write(self, lock: str, value: StoredValue, out: Outbox[Frame]) -> None:
        """Write the value of a lock that is held alone; `ValueWritten` or `ValueRefused` is told.

        Neither is told once the hold is lost: it may have been written then, or not.
        """
        self._check_clock(out)
        claimed = self._claimed(lock)
        if claimed is not None:
            claimed.write(self.bids[lock].token, value, settles=False)
            self.engaged.add(lock)
        self._finish(out)

    def look(
        self,
        lock: str,
        question: int,
        known: StoredValue,
        out: Outbox[Frame],
        *,
        settles: bool = False,
    ) -> None:
        """21.7: ask what the value is, without the lock; `ValueSeen` is told when the answers show it.

        A read has a question of its own, and may ask it again: all answers count together, as long as the
        configuration stays; then it needs another question. What is `known` need not come again. `settles`
        asks who has the lock to decide it: voters have differed.
        """
        mine = self.configuration
        if question not in self.readings:
            self.readings[question] = FreeRead(lock, mine.number, known)
        token, sequence = known.version
        look = Look(question, lock, mine.number, self.sessions.known, token, sequence, settles)
        out.broadcast(mine.seats, look)

    def forget_look(self, question: int) -> None:
        """Wait for no answer to a question any more."""
        self.readings.pop(question, None)

    @property
    def keeps_values(self) -> bool:
        """Whether locks have values, by the configuration in which we count."""
        return self.configuration.protocol >= VALUES_PROTOCOL

    def _claimed(self, lock: str) -> ClaimedValue | None:
        """Return the value of a lock that is held; None if the hold was lost."""
        bid = self.bids.get(lock)
        if bid is None or bid.state is not State.HELD or bid.shared or not self.keeps_values:
            raise MisuseError(f"lock {lock!r} is not held alone, or no values are kept")
        if bid.lost:
            return None
        if bid.value is None:
            bid.value = ClaimedValue(has_entered=True)
        return bid.value

    def _acquire(
        self, lock: str, out: Outbox[Frame], *, shared: bool, age: int, writer: int
    ) -> None:
        bid = self.bids.get(lock)
        if bid is None:
            self._start_request(lock, out, shared=shared, age=age, writer=writer)
        elif bid.state is State.CACHED:
            self._reacquire(lock, out, shared=shared, age=age, writer=writer)
        else:
            raise MisuseError(f"lock {lock!r} is already waited for or held")

    def _release(self, lock: str, out: Outbox[Frame]) -> None:
        bid = self.bids.get(lock)
        if bid is None or bid.state is not State.HELD:
            raise MisuseError(f"lock {lock!r} is not held")
        if lock in self.engaged and bid.value is not None and bid.value.is_pending:
            self._forsake(lock, bid, out)
        self._leave(lock, out)

    # Without an outbox: votes in hand decide alone (5.2, 5.7, 5.11)
    #
    # A program that works on an uncontended lock takes it many thousand times a second. As long as
    # nothing has happened to the votes in hand, a short look at them shows that the full rules
    # would come to the same result: nothing to send, no timer to arm, no hold that has lapsed.
    # Where it does not show that, these return 0 or False, have changed nothing, and the caller
    # takes the full rule.

    def try_reacquire(self, lock: str, now: float, *, shared: bool = False) -> int:
        """Reacquire a cached lock without messages; return the token, or 0."""
        bid = self.bids.get(lock)
        # 17: votes cached in the other mode do not serve. Shared ones do not keep others out, and
        # exclusive ones would keep out participants that may share.
        if bid is None or bid.state is not State.CACHED or bid.shared is not shared:
            return 0
        token = bid.token + 1
        if not self._supports(bid, token, now):
            return 0
        self._begin(lock, token)
        return token

    def try_release(self, lock: str, now: float) -> bool:
        """Leave a hold and cache its votes without messages; return False if that is not possible."""
        bid = self.bids.get(lock)
        if bid is None or bid.state is not State.HELD or self._must_give_back(bid):
            return False
        if len(self.cached) >= self.settings.cached_max or lock in self.engaged:
            return False
        enough = bid.token + self.settings.interval // 2  # tokens are left; else more are fetched
        if not self._supports(bid, enough, now):
            return False
        self._cache(lock, now)
        return True

    def try_pass_on(self, lock: str, now: float, *, shared: bool = False) -> int:
        """End a hold and begin the next with the same votes, for another task of this process.

        Return the token, or 0. Other participants may wait meanwhile (5.11), so the caller has to
        bound how often and for how long it does this.
        """
        bid = self.bids.get(lock)
        if bid is None or bid.state is not State.HELD or bid.lost or bid.repaired:
            return 0
        if lock in self.engaged:
            return 0
        if bid.shared is not shared:
            return 0
        token = bid.token + 1
        if not self._supports(bid, token, now):
            return 0
        self._begin(lock, token)
        return token

    def _supports(self, bid: Bid, token: int, now: float) -> bool:
        """Return whether no hold has lapsed, and a quorum of the votes in hand supports the token.

        The votes counted last at least until `sound_until`, so that time stays right, and the
        timer need not be armed again.
        """
        sound_until = self.sound_until
        # 19.7: tokens up to the floor may have been used by a number that is finished. And before a
        # hold can move to the next configuration, voters of that have to be asked for it.
        if now >= sound_until or token <= self.configuration.floor or self.next is not None:
            return False
        shares, sound = bid.shares, []
        for place, uplink in enumerate(self.sessions.uplinks):
            share = shares[place]
            vote = share.vote
            # With now < sound_until <= lease, the vote is leased now (lease lemma, 11.2). This is
            # what stops a process that has slept past its leases from using a cached lock.
            if vote and vote.low <= token <= vote.high and uplink.lease >= sound_until:
                sound.append(share.voter)
        return len(sound) == len(shares) or self.quorums.contains_quorum(sound)

    # What it can be asked

    @property
    def quorums(self) -> Coterie:
        """The coterie by which it counts."""
        return self.configuration.rule.quorums

    def valid(self, lock: str, now: float) -> bool:
        """Return whether the lock is ours at this time of our own clock.

        No two participants get True for a lock at the same real instant, as long as clocks keep
        their rate bound, unless both share it. It is computed from the clock, not from a flag that
        may be late.
        """
        return self.remaining(lock, now) > 0

    def remaining(self, lock: str, now: float) -> float:
        """Return how long the lock stays ours even if no further frame comes; 0 if it is not ours."""
        bid = self.bids.get(lock)
        if bid is None:
            return 0.0
        return max(0.0, self._valid_until(bid) - now)

    def is_wanted(self, lock: str) -> bool:
        """Return whether another participant is known to wait for what we hold or keep."""
        bid = self.bids.get(lock)
        return bid is not None and bid.wanted

    def is_shared(self, lock: str) -> bool:
        """Return whether what we ask for, hold or keep is in shared mode."""
        bid = self.bids.get(lock)
        return bid is not None and bid.shared

    # What happens to it

    def receive(self, voter: ProcessId, frame: Downward, out: Outbox[Frame]) -> None:
        """Handle a frame from a voter, or a configuration that any process has sent."""
        self._check_clock(out)
        # Frames of a voter that was forgotten may still be on their way, and mean nothing any more.
        is_known = voter in self.sessions.voters
        match frame:
            case Reply() | Ack() | Answer() | Nack():
                if is_known:
                    self._take(voter, frame, out)
            case NewConfiguration(configuration):
                self._learn(configuration, out)
            case Stale(configuration):
                self._learn(configuration, out)
                if is_known and configuration.number <= self.configuration.number:
                    # sometimes: a program has moved while its frame was on the way
                    self.sessions.send_again(voter, out)  # we have moved since
            case Behind(number):
                if is_known:
                    self._bring_up(voter, number, out)
            case Seen():
                self._take_look(voter, frame, out)
        self._finish(out)

    def _take(
        self, voter: ProcessId, frame: Reply | Ack | Answer | Nack, out: Outbox[Frame]
    ) -> None:
        arrival = self.sessions.receive(voter, frame, out)
        if arrival.lost is not None:
            self._lose_session(voter, arrival.lost, out)
        for body in arrival.bodies:
            self._handle(voter, body, out)
        if arrival.renewed:
            self._retry(voter, out)

    def connected(self, voter: ProcessId, out: Outbox[Frame]) -> None:
        """Go on over a new connection to a voter."""
        self._check_clock(out)
        self.sessions.connected(voter, out)
        self._finish(out)

    def down(self, voter: ProcessId, out: Outbox[Frame]) -> None:
        """Count a voter as out of reach at once, in a world that is told of crashes."""
        self.sessions.uplink(voter).silent = True
        self._finish(out)

    def ring(self, timer: str, out: Outbox[Frame]) -> None:
        """Handle the timer: heartbeats, silence, suspicion, repair, and the end of patience."""
        self.armed = math.inf
        self._check_clock(out)
        self.sessions.beat(out)
        self._finish(out)

    def _handle(self, voter: ProcessId, body: DownBody, out: Outbox[Frame]) -> None:
        lock = body.lock
        bid = self.bids.get(lock)
        # A vote for an earlier request must not be counted: its Release is on the way already, in
        # this very session, so the voter may give it to another participant (11.1, I2).
        if bid is None or body.number != bid.number:
            # sometimes: a word about a request comes when it is over
            return
        if lock not in self.sessions.uplink(voter).locks:
            return
        match body:
            case Grant(_, _, low, high, more):
                self._take_grant(lock, voter, Interval(low, high), more, out)
            case Raised(_, _, _, high):
                self._take_raised(lock, voter, high, out)
            case Inquire(_, _, level):
                self._take_inquiry(lock, voter, level, out)
            case Revoke(_, _, token):
                self._take_revocation(lock, token, out)
            case Report(_, _, value, whole):
                if bid.value is None:
                    bid.value = ClaimedValue(has_entered=bid.state is not State.WAIT)
                bid.value.hear(voter, value, whole=whole)
            case Written():
                self._take_receipt(bid, voter, body)
            case Settle():
                if bid.state is State.HELD and not bid.lost and not bid.shared:
                    bid.value = bid.value or ClaimedValue(has_entered=True)
                    bid.value.settle_for(self.quorums)
                    self.engaged.add(lock)

    def _take_grant(
        self, lock: str, voter: ProcessId, vote: Interval, more: bool, out: Outbox[Frame]
    ) -> None:
        """5.4: a vote has come."""
        bid = self.bids[lock]
        bid.take(voter, vote)
        bid.hear(voter, wanted=more)
        if bid.state is State.WAIT:
            self._try_to_enter(lock, out)
        elif bid.state is State.CACHED and bid.wanted:
            self._release_all(lock)

    def _take_raised(self, lock: str, voter: ProcessId, high: int, out: Outbox[Frame]) -> None:
        """5.5: an interval reaches further up."""
        bid = self.bids[lock]
        vote = bid.share(voter).vote
        if vote is None:
            return
        # The lower end stays where it was, although the voter has moved its own. A hold may have
        # begun with a token below the new lower end since the Raise was sent; the vote still
        # supports it, since those tokens were above the floor when the vote was given and the
        # tenure has not ended. With the new lower end the hold would lose a vote that it has.
        bid.take(voter, Interval(vote.low, high))
        if bid.state is State.WAIT:
            self._try_to_enter(lock, out)

    def _take_inquiry(self, lock: str, voter: ProcessId, level: int, out: Outbox[Frame]) -> None:
        """5.6: others wait. A participant that waits itself yields to an older one, at once.

        A lock that is only kept goes back as a whole at the first sign of a waiter.
        """
        bid = self.bids[lock]
        if bid.share(voter).vote is None:
            return
        bid.hear(voter, wanted=level > 0)
        if not level:
            if bid.state is State.HELD and not bid.wanted:
                # sometimes: no other waits any more for a lock that is shared
                out.tell(Unwanted(lock))
        elif bid.state is State.CACHED:
            self._release_all(lock)
        elif bid.state is State.WAIT and level == 2:
            # Forget the vote first: it must not be counted once the Yield is on its way. A holder
            # never yields; that is what keeps a hold exclusive (11.3).
            # sometimes: a vote is given back to an older request (level 2)
            bid.drop(voter)
            self.sessions.post(voter, Yield(lock, bid.number, bid.token))

    def _take_revocation(self, lock: str, token: int, out: Outbox[Frame]) -> None:
        """8.2: an operator has ended the hold. All votes go back at once, also if the user goes on.

        The tokens of later holds lie above ours, so a resource that compares them refuses the user.
        A later hold made with the same votes is not the one that the operator saw, and goes on.
        """
        bid = self.bids[lock]
        if bid.state is State.CACHED:
            # sometimes: an operator ends a hold that is only kept
            self._release_all(lock)
        elif bid.state is State.HELD and bid.token <= token:
            if not bid.lost:
                # sometimes: an operator ends a hold
                self._lose(lock, bid, out, revoked=True)
            self._withdraw_votes(lock)

    def _lose(self, lock: str, bid: Bid, out: Outbox[Frame], *, revoked: bool = False) -> None:
        bid.lost = True
        bid.since = out.now
        self.unwinds_at = min(self.unwinds_at, out.now + self.settings.unwind)
        out.tell(Lost(lock, bid.token, revoked))

    def _retry(self, voter: ProcessId, out: Outbox[Frame]) -> None:
        """5.9: votes of a voter whose lease runs again count for requests that wait."""
        for lock in sorted(self.sessions.uplink(voter).locks):
            bid = self.bids[lock]
            if bid.state is State.WAIT and bid.share(voter).vote:
                # sometimes: a lease that had lapsed runs again while its vote waits
                self._try_to_enter(lock, out)

    # Asking

    def _start_request(
        self, lock: str, out: Outbox[Frame], *, shared: bool, age: int, writer: int
    ) -> None:
        """5.1: make a request that is younger than all requests heard of, unless it has an age."""
        self.sessions.clock += 1
        self.requests += 1
        stamp = self.sessions.clock
        shares = [Share(voter) for voter in self.sessions.voters]
        age = age or stamp
        writer = max(writer, age + 1) if writer else 0
        self.bids[lock] = Bid(self.requests, age, stamp, shares, shared=shared, writer=writer)
        self._reconsider(lock, out)

    def _reconsider(self, lock: str, out: Outbox[Frame]) -> None:
        """10: ask others in place of suspects; park where no quorum can be reached, and resume."""
        bid = self.bids[lock]
        if not self.quorums.contains_quorum(self.sessions.reachable()):
            # sometimes: a request is parked for want of a quorum
            self._withdraw_votes(lock)
            bid.parked = True
        elif bid.parked:
            # sometimes: a parked request is made again
            self._start_request(lock, out, shared=bid.shared, age=bid.age, writer=bid.writer)
        else:
            self._ask(lock, out)
            self._try_to_enter(lock, out)

    def _ask(self, lock: str, out: Outbox[Frame]) -> None:
        """Send the request to the voters of a quorum that have not got it."""
        asked = self.sessions.asked(lock)
        suspects = self.sessions.suspects(out.now)
        voters = voters_to_ask(self.configuration.rule, self.home, asked, suspects)
        if voters:
            self._request(lock, voters)

    def _request(self, lock: str, voters: Sequence[ProcessId], hold: int = 0) -> None:
        bid = self.bids[lock]
        stamp = bid.token if hold else bid.stamp
        request = Request(lock, bid.number, bid.age, stamp, hold, bid.shared, bid.writer)
        for voter in voters:
            uplink = self.sessions.uplink(voter)
            uplink.locks.add(lock)
            uplink.pending.append(request)

    # Entering

    def _try_to_enter(self, lock: str, out: Outbox[Frame]) -> None:
        """5.4: enter if a quorum of leased votes has a common token; else make it have one."""
        token = self._fit(lock, out)
        if token:
            self._enter(lock, token, out)
        elif token == 0:
            self._raise(lock, out)

    def _reacquire(
        self, lock: str, out: Outbox[Frame], *, shared: bool, age: int, writer: int
    ) -> None:
        """5.2: the votes are in hand, so no message is needed unless they have lapsed.

        17: nor are they of use in the other mode. Exclusive ones would keep out others that share.
        """
        bid = self.bids[lock]
        token = self._fit(lock, out) if bid.shared is shared else None
        if token:
            self._enter(lock, token, out)
        elif token == 0:
            # sometimes: a kept lock needs new tokens before it is used again
            bid.state = State.WAIT
            self.cached.discard(lock)
            self._raise(lock, out)
        else:
            self._release_all(lock)
            self._start_request(lock, out, shared=shared, age=age, writer=writer)

    def _fit(self, lock: str, out: Outbox[Frame]) -> int | None:
        # 19.7: a number that the next configuration does not leave open uses no token above the floor
        # of that. Our clock may be there since we know it. Such a number is finished, or a voter that
        # was given up by force still runs (19.11).
        if self.next is not None and self.next.rule_of(self.configuration.number) is None:
            # sometimes: votes in hand belong to a number that the next one does not leave open
            return None
        used = max(self.bids[lock].token, self.configuration.floor)
        return fit(self._leased_votes(lock, out), used, self.quorums)

    def _leased_votes(self, lock: str, out: Outbox[Frame]) -> dict[ProcessId, Interval]:
        # A vote whose lease is over may have been given away: the voter expires the session some
        # time after (11.2), and nothing tells us before we ask.
        pairs = zip(self.bids[lock].shares, self.sessions.uplinks, strict=True)
        return {
            share.voter: share.vote
            for share, uplink in pairs
            if share.vote and uplink.lease > out.now
        }

    def _enter(self, lock: str, token: int, out: Outbox[Frame]) -> None:
        """5.3: the lock is granted here, with a token of its own, above all used before."""
        self._begin(lock, token)
        self.sound_until = min(self.sound_until, self._valid_until(self.bids[lock]))
        out.tell(Acquired(lock, token))

    def _begin(self, lock: str, token: int) -> None:
        self.bids[lock].enter(token)
        self.cached.discard(lock)
        self.sessions.merge(token)  # so that our next stamp lies above it

    def _raise(self, lock: str, out: Outbox[Frame]) -> None:
        """5.4: ask the voters whose intervals end too early to move them up; the votes stay ours."""
        bid = self.bids[lock]
        votes = self._leased_votes(lock, out)
        used = max(bid.token, self.configuration.floor)
        token = max([used + 1, *(vote.low for vote in votes.values())])
        for voter, vote in votes.items():
            share = bid.share(voter)
            if vote.high < token and share.raising != token:
                # sometimes: an interval has to move up before an entry
                share.raising = token
                self.sessions.post(voter, Raise(lock, bid.number, token))

    def _fetch_ahead(self, lock: str, bid: Bid) -> None:
        """7: have intervals moved up when half of them is used, so that no entry waits for it."""
        for voter, vote in bid.votes.items():
            share = bid.share(voter)
            is_short = vote.high - bid.token < self.settings.interval // 2
            if is_short and not share.raising:
                share.raising = bid.token
                self.sessions.post(voter, Raise(lock, bid.number, bid.token))

    # Giving back

    def _leave(self, lock: str, out: Outbox[Frame]) -> None:
        """5.7: keep the votes for next time, if no other has asked and nothing went wrong."""
        bid = self.bids[lock]
        if self._must_give_back(bid) or not self.quorums.contains_quorum(bid.votes):
            self._release_all(lock)
            return
        self._cache(lock, out.now)
        self._fetch_ahead(lock, bid)
        if len(self.cached) > self.settings.cached_max:
            self._evict()

    def _must_give_back(self, bid: Bid) -> bool:
        return bid.wanted or bid.lost or bid.repaired or bid.writer > 0 or not self.settings.lazy

    def _cache(self, lock: str, now: float) -> None:
        bid = self.bids[lock]
        bid.state = State.CACHED
        bid.since = now
        self.cached.add(lock)

    def _evict(self) -> None:
        """5.7: give back the eighth of the kept locks that was used longest ago, in few frames."""
        oldest = sorted([(self.bids[lock].since, lock) for lock in self.cached])
        for _, lock in oldest[: 1 + len(oldest) // 8]:
            # sometimes: too many locks are kept, and the oldest go back
            self._release_all(lock)

    def _withdraw_votes(self, lock: str) -> None:
        # What goes back says which tokens were used: the voter's floor rises to that number, so
        # that the next owner begins above it (11.4). Then we count none of these votes any more.
        bid = self.bids[lock]
        release = Release(lock, bid.number, bid.token)
        for uplink in self.sessions.uplinks:
            if lock in uplink.locks:
                uplink.locks.remove(lock)
                uplink.pending.append(release)
                bid.drop(uplink.voter)

    def _release_all(self, lock: str) -> None:
        """5.7: all votes go back together, and every request is withdrawn."""
        self._withdraw_votes(lock)
        self.cached.discard(lock)
        del self.bids[lock]

    # Validity and loss

    def _valid_until(self, bid: Bid) -> float:
        return bid.valid_until(self.sessions.lease, self.quorums)

    def _check_clock(self, out: Outbox[Frame]) -> None:
        """8.1: before any input, find out which holds have lapsed; no later frame revives them.

        Leases only grow while a session lives, so nothing needs a look before the earliest end.
        """
        # This comes first in every step, since a process may have been stopped past its leases. A
        # frame in its socket could renew a lease, or lead to a repair, and either would revive a
        # hold whose user may have seen `valid` turn false. A repair also vouches that the hold was
        # valid all the time (8.4), which would not be so.
        self.sessions.check(out.now)
        if out.now < self.sound_until:
            return
        self.sound_until = math.inf
        for lock, bid in self._holds():
            until = self._valid_until(bid)
            if until <= out.now:
                # sometimes: a hold lapses
                self._lose(lock, bid, out)
            else:
                self.sound_until = min(self.sound_until, until)

    def _holds(self) -> list[tuple[str, Bid]]:
        """List what is held and not lost, in the order of the names."""
        return [
            (lock, bid)
            for lock, bid in sorted(self.bids.items())
            if bid.state is State.HELD and not bid.lost
        ]

    def _unwind(self, out: Outbox[Frame]) -> None:
        """8.2: give back the votes of lost holds whose users take too long."""
        self.unwinds_at = math.inf
        for lock, bid in sorted(self.bids.items()):
            if bid.lost and bid.since + self.settings.unwind <= out.now:
                # sometimes: the votes of a lost hold go back before its user releases
                self._withdraw_votes(lock)
            elif bid.lost:
                self.unwinds_at = min(self.unwinds_at, bid.since + self.settings.unwind)

    def _lose_session(self, voter: ProcessId, loss: Loss, out: Outbox[Frame]) -> None:
        """5.8: a voter has forgotten all our requests, and the votes it gave us."""
        for lock in loss.locks:
            bid = self.bids[lock]
            vote = bid.share(voter).vote
            bid.drop(voter)
            if bid.state is State.WAIT:
                # sometimes: a session is lost while its request waits
                self._request(lock, [voter])
            elif bid.state is State.CACHED:
                self._release_without_quorum(lock, bid, out)
            elif not bid.lost:
                # 8.3: for the hold that is under way, and for no other, the vote counts up to the
                # lease it had. Until then the voter gives it to no other participant: it abstains
                # after a restart, or has expired the session and then that lease is over.
                if vote is not None and vote.supports(bid.token):
                    # sometimes: a session is lost while its vote supports a hold
                    bid.share(voter).frozen = loss.lease
                self._repair(lock, bid, out)

    def _release_without_quorum(self, lock: str, bid: Bid, out: Outbox[Frame]) -> None:
        """5.8: a kept lock is of no use without a quorum.

        Nor with one that rests on a voter in doubt: the next hold would begin without repair, and
        be lost when that voter's lease ends.
        """
        suspects = self.sessions.suspects(out.now)
        if not self.quorums.contains_quorum(set(bid.votes) - set(suspects)):
            # sometimes: a kept lock has lost its quorum
            self._release_all(lock)

    def _repair(self, lock: str, bid: Bid, out: Outbox[Frame]) -> None:
        """8.4: get votes for the same token elsewhere, or again, before the old ones lapse.

        A repair vote lies above the floor of its voter, so no larger token can have been used
        there; or it rests on the quorum that supports the hold anyway (level 2).
        """
        suspects = self.sessions.suspects(out.now)
        supporters = [voter for voter in bid.supporters() if voter not in suspects]
        if not self.quorums.contains_quorum(supporters):
            rule = self.configuration.rule
            for voter in voters_to_ask(rule, self.home, supporters, suspects):
                # sometimes: a hold is repaired by a vote that it needs
                self._request_repair(lock, bid, voter, 1)
        elif self.settings.policy == "all":
            for voter in bid.frozen():
                # sometimes: a hold is repaired although a quorum supports it
                self._request_repair(lock, bid, voter, 2)

    def _request_repair(self, lock: str, bid: Bid, voter: ProcessId, level: int) -> None:
        share = bid.share(voter)
        if share.repair < level and share.vote is None:
            share.repair = level
            bid.repaired = True
            self._request(lock, [voter], level)

    # Values: section 21

    def _take_receipt(self, bid: Bid, voter: ProcessId, receipt: Written) -> None:
        """21.5: a voter has what was written, or no room for it."""
        writing = bid.value.writing if bid.value is not None else None
        # Of an earlier write, or of a hold that has ended: what comes late counts nothing.
        if writing is None or writing.value.version != (receipt.token, receipt.sequence):
            return
        answered = writing.refused if receipt.refusal else writing.kept
        if voter not in answered:
            answered.append(voter)

    def _pursue_values(self, out: Outbox[Frame]) -> None:
        """Go on with what is being read and written, as far as answers and votes allow."""
        budget = VALUES_PER_STEP
        for lock in sorted(self.engaged):
            bid = self.bids.get(lock)
            value = bid.value if bid is not None else None
            if bid is None or value is None:
                self.engaged.discard(lock)
                continue
            if bid.state is not State.HELD or bid.lost:
                self._pursue_unheld(lock, bid, value, out)
                continue
            if value.is_wanted and (value.writing is None or value.writing.is_done):
                budget -= self._pursue_read(lock, bid, value, out)
            if value.writing is not None:
                budget -= self._pursue_write(lock, bid, value, value.writing, out)
            if not value.is_wanted and value.writing is None:
                self.engaged.discard(lock)
            if budget <= 0:
                return

    def _pursue_unheld(self, lock: str, bid: Bid, value: ClaimedValue, out: Outbox[Frame]) -> None:
        """21.9: with votes that are kept a deleted value may still be forgotten; all else is over."""
        writing = value.writing
        if bid.state is State.CACHED and writing is not None and writing.is_done:
            self._forget_deleted(lock, bid, value, writing)
            if value.writing is None:
                self.engaged.discard(lock)
        else:
            self._forsake(lock, bid, out)

    def _forsake(self, lock: str, bid: Bid, out: Outbox[Frame]) -> None:
        """Leave what is being read or written as it is, at the end of the hold.

        A write may be on the disk of some voters: the next holder settles it, one with the same votes as well.
        """
        if bid.value is not None:
            bid.value.stop()
        self.engaged.discard(lock)
        out.tell(ValueForsaken(lock, bid.token))

    def _pursue_read(self, lock: str, bid: Bid, value: ClaimedValue, out: Outbox[Frame]) -> int:
        """21.6: return what is known; else get its data, and settle it unless all voters agree."""
        if not value.is_known and value.is_whole and self._is_agreed(lock, bid, value, out):
            value.is_known, value.spread = True, list(self.configuration.seats)
        if value.is_known:
            value.is_wanted = False
            out.tell(ValueRead(lock, bid.token, value.base))
        elif value.is_whole:
            value.write(bid.token, value.base, settles=True)
        else:
            return self._fetch(lock, bid, value)
        return 0

    def _is_agreed(self, lock: str, bid: Bid, value: ClaimedValue, out: Outbox[Frame]) -> bool:
        # Of a number that is open a copy may still be on its way.
        if self.next is not None or self.configuration.open:
            return False
        return value.is_agreed(self.configuration.seats, self._leased_votes(lock, out))

    def _fetch(self, lock: str, bid: Bid, value: ClaimedValue) -> int:
        """Ask for the data of the base where it was reported: each voter once, as sessions lose nothing."""
        if value.asked:
            return 0
        for voter in sorted(value.reports):
            if value.reports[voter].version == value.base.version and bid.share(voter).vote:
                value.asked.append(voter)
                self.sessions.post(voter, Fetch(lock, bid.number))
                return 1
        return 0

    def _pursue_write(
        self, lock: str, bid: Bid, value: ClaimedValue, writing: Writing, out: Outbox[Frame]
    ) -> int:
        """21.5: send to all votes in hand, also to those that came since; done when a quorum has it."""
        sent = 0
        for share in bid.shares:
            # Behind a repair that is not answered the voter would refuse it; and with a vote that ends
            # below the token as well, until that is raised.
            vote = share.vote
            is_able = vote is not None and vote.high >= bid.token
            if is_able and share.voter not in writing.sent and share.voter not in writing.kept:
                writing.sent.append(share.voter)
                self.sessions.post(share.voter, Write(lock, bid.number, writing.value))
                sent += 1
        # The hold has to be valid still: its number may be finished since, and its values carried without
        # this one.
        if not writing.is_done and self.quorums.contains_quorum(writing.kept):
            if self._valid_until(bid) <= out.now:
                return sent
            value.complete()
            if not writing.settles:
                out.tell(ValueWritten(lock, bid.token, writing.value))
            if value.is_wanted:
                value.is_wanted = False
                out.tell(ValueRead(lock, bid.token, value.base))
        elif not writing.is_done and self._is_refused(writing):
            value.writing, value.is_wanted = None, False
            out.tell(ValueRefused(lock, bid.token, "there is no room for it"))
            return sent
        if writing.is_done:
            self._forget_deleted(lock, bid, value, writing)
        return sent

    def _is_refused(self, writing: Writing) -> bool:
        """Return whether no quorum can have it, of any number by which programs read."""
        is_alone = self.next is None and not self.configuration.open
        return is_alone and self.configuration.rule.is_blocked_by(writing.refused)

    def _forget_deleted(self, lock: str, bid: Bid, value: ClaimedValue, writing: Writing) -> None:
        """21.9: let voters forget a deleted value, once all of them know that it was deleted."""
        mine, token, sequence = self.configuration, writing.value.token, writing.value.sequence
        if writing.value.data is not None or self.next is not None or mine.open:
            value.writing = None
        elif all(voter in writing.kept for voter in mine.seats):
            value.writing = None
            for voter in bid.votes:
                self.sessions.post(voter, Forget(lock, bid.number, token, sequence))

    def _take_look(self, voter: ProcessId, seen: Seen, out: Outbox[Frame]) -> None:
        """21.7: a voter has said what is on its disk."""
        reading = self.readings.get(seen.question)
        # Answers by the number before say nothing about a quorum of this one.
        if reading is None or reading.number != self.configuration.number:
            return
        reading.take(voter, seen.value, whole=seen.whole)
        agreed = reading.agreed(self.quorums)
        if agreed is not None:
            self.forget_look(seen.question)
            out.tell(ValueSeen(reading.lock, seen.question, agreed))

    # Configurations: section 19

    def _learn(self, configuration: Configuration, out: Outbox[Frame]) -> None:
        """19.4: hear of a configuration; to know it binds to nothing."""
        newest = self.configuration if self.next is None else self.next
        if configuration.number <= newest.number:
            return
        self.next = configuration
        self.sessions.merge(configuration.floor)
        seats = {*self.configuration.seats, *configuration.seats}
        self.sessions.know(configuration.number, configuration.seats, sorted(seats))
        for bid in self.bids.values():
            known = {share.voter for share in bid.shares}
            bid.shares += [Share(voter) for voter in self.sessions.voters if voter not in known]
        out.tell(Learnt(configuration))

    def _bring_up(self, voter: ProcessId, number: int, out: Outbox[Frame]) -> None:
        """19.4: give a voter that is behind what we know, and then what it has not taken."""
        newest = self.configuration if self.next is None else self.next
        uplink = self.sessions.uplink(voter)
        # Every frame on the way is refused alike. One answer suffices; heartbeats repeat it.
        if number < newest.number and uplink.informed + self.settings.hedge / 2 <= out.now:
            # sometimes: a program brings a voter up to its number
            uplink.informed = out.now
            out.send(voter, NewConfiguration(newest))
            self.sessions.send_again(voter, out)

    def _gather(self, rule: Rule, out: Outbox[Frame]) -> None:
        """19.4: ask the voters of the next rule for what we hold and wait for.

        A request keeps its number and its age, and so its place in every queue. A hold is vouched
        for by the quorum that supports it now, and comes before all that wait.
        """
        suspects = self.sessions.suspects(out.now)
        for lock, bid in sorted(self.bids.items()):
            if bid.state is State.WAIT and not bid.parked:
                asked = self.sessions.asked(lock)
                self._request(lock, voters_to_ask(rule, self.home, asked, suspects))
            elif bid.state is State.HELD and not bid.lost:
                supporters = [voter for voter in bid.supporters() if voter not in suspects]
                if not rule.quorums.contains_quorum(supporters):
                    for voter in voters_to_ask(rule, self.home, supporters, suspects):
                        self._request_support(lock, bid, voter)

    def _request_support(self, lock: str, bid: Bid, voter: ProcessId) -> None:
        """Ask a voter of the next rule to support the hold."""
        vote = bid.share(voter).vote
        if vote is not None and not vote.supports(bid.token):
            # It was meant for the request from which the hold came, and does not serve it.
            # sometimes: a vote for the request does not fit the hold that came of it
            self.sessions.post(voter, Release(lock, bid.number, 0))
            bid.drop(voter)
        self._request_repair(lock, bid, voter, 2)

    def _try_to_move(self, following: Configuration, out: Outbox[Frame]) -> None:
        """19.4: move if every hold is valid by the next configuration as well.

        Nothing forces us before that but the end of the leases, after the number was closed.
        """
        for _, bid in self._holds():
            # A hold that counted by the new rule alone could meet one that others count by the old.
            if bid.valid_until(self.sessions.lease, following.quorums) <= out.now:
                # sometimes: a program cannot move yet: a hold is not valid by the next number
                return
        self._move(following, out)

    def _move(self, following: Configuration, out: Outbox[Frame]) -> None:
        """19.4: count by the next configuration from now on, for all locks at once."""
        self.configuration, self.next = following, None
        self.settings = _own_settings(following.settings, self.lease)
        if self.lease is not None:
            # Voters that were told of a lease expire the session by it, whatever the lease of all
            # becomes. So one that had to become shorter stays so.
            self.lease = self.settings.lease
        self.sessions.know(following.number, following.seats, following.seats)
        in_use = {voter for bid in self.bids.values() for voter in bid.votes}
        self.sessions.move(self.settings, in_use, out.now)
        for lock, bid in sorted(self.bids.items()):
            self._leave_voters(lock, bid)
            bid.cut(out.now + self.settings.lease)
        until = [self._valid_until(bid) for _, bid in self._holds()]
        self.sound_until = min(until, default=math.inf)
        self.trust = []  # all locks are looked at again, by the new rule
        for voter in self.sessions.voters:
            self.sessions.send_again(voter, out)
        out.tell(Moved(following))

    def _leave_voters(self, lock: str, bid: Bid) -> None:
        """Give back what lies with voters that vote no more."""
        for voter in self.sessions.asked(lock):
            if voter not in self.sessions.seats:
                # sometimes: votes go back to a voter that was removed
                self.sessions.post(voter, Release(lock, bid.number, bid.token))
                self.sessions.uplink(voter).locks.remove(lock)
                bid.drop(voter)

    def _forget_strangers(self, out: Outbox[Frame]) -> None:
        """Forget voters of earlier configurations, as soon as nothing is left to say to them."""
        strangers = self.sessions.forget_strangers()
        for bid in self.bids.values() if strangers else ():
            bid.shares = [share for share in bid.shares if share.voter not in strangers]
        for voter in strangers:
            out.tell(Forgotten(voter))

    # The end of a step

    def _check_voters(self, out: Outbox[Frame]) -> None:
        """8.4, 10: if voters stand otherwise than before, requests may have to go elsewhere."""
        trust = self.sessions.trust(out.now)
        if trust == self.trust:
            return
        self.trust = trust
        for lock, bid in sorted(self.bids.items()):
            if bid.state is State.WAIT:
                self._reconsider(lock, out)
            elif bid.state is State.CACHED:
                self._release_without_quorum(lock, bid, out)
            elif not bid.lost:
                self._repair(lock, bid, out)

    def _finish(self, out: Outbox[Frame]) -> None:
        """End a step: send what it created, and arm the timer if it has to ring earlier."""
        if out.now >= self.unwinds_at:
            self._unwind(out)
        if self.next is not None:
            self._gather(self.next.rule, out)
            self._try_to_move(self.next, out)
        if self.engaged:
            self._pursue_values(out)
        self._check_voters(out)
        self.sessions.flush(out)
        if len(self.sessions.voters) > len(self.sessions.seats):
            self._forget_strangers(out)
        self._arm(self.sessions.deadline(out.now, self.armed), out)

    def _finish_call(self, lock: str, out: Outbox[Frame]) -> None:
        """End a call; one that sends nothing and waits for nothing leaves all else as it was."""
        bid = self.bids.get(lock)
        is_quiet = self.sessions.is_quiet() and self.next is None
        if is_quiet and (bid is None or bid.state is not State.WAIT):
            self._arm(math.inf, out)
        else:
            self._finish(out)

    def _arm(self, due: float, out: Outbox[Frame]) -> None:
        due = min(due, self.sound_until, self.unwinds_at)
        if due < self.armed:
            self.armed = due
            out.set_timer(PARTICIPANT, due - out.now)
