"""A changer: decides the next configuration with the voters, and sees that the one before it ends.

It keeps nothing over a crash and may stop anywhere. Whatever it leaves is a cluster that works, and
any other changer finishes or takes back what it finds: one that is asked to `finish` has no other
goal. Section 19 (docs/protocol/changes.md) has the steps and the argument.

    changer = Changer(name, configuration, Goal(...))     `name` is new with every changer
    changer.start(out), changer.receive(voter, frame, out), changer.ring(CHANGER, out)

It sends the frames Query, NewConfiguration, Close, Prepare and Accept to voters by their seats, those of
`carry.py` where voters keep values, and tells `Stepped`, and at the end `Settled` or `Conflicted`.
"""

from __future__ import annotations

import enum
import zlib
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from msgspec import field

from coterie.algorithms.mutex.quorum.leased.carry import Carry
from coterie.algorithms.mutex.quorum.leased.configuration import Configuration, Member, Part, Rule
from coterie.algorithms.mutex.quorum.leased.frames import (
    Accept,
    Accepted,
    Attempt,
    Close,
    Closed,
    Condition,
    Frame,
    NewConfiguration,
    Prepare,
    Promise,
    Query,
    Refused,
    Tell,
    ValueCopied,
    ValueFound,
    ValueList,
)
from coterie.algorithms.mutex.quorum.leased.stored import VALUES_PROTOCOL
from coterie.algorithms.mutex.quorum.leased.votes import NEVER
from coterie.process import Event, ProcessId

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coterie.process import Outbox

CHANGER = "changer"  # its one timer
POLLS_PER_HEARTBEAT = 10
POLL_SECONDS_MAX = 0.5  # a lease of an hour is no reason to wait minutes for an answer
FRESH_POLLS = 4  # for so long an answer shows that its voter is there
PATIENCE_HEARTBEATS = 2  # for participants to move by themselves
PAUSES = 8  # of different lengths, after another changer has come first


class Goal(msgspec.Struct, frozen=True, array_like=True):
    """What a changer is to bring about, in the place of the number that the operator has seen."""

    base: int
    part: Part | None = None  # None: whatever is under way is to come to its end
    members: tuple[Member, ...] = ()  # of the part
    protocol: int = 0
    takes_back: bool = False  # the part is the old one of a step under way, which is to be undone


class Phase(enum.IntEnum):
    """What a changer is about."""

    INSTALL = 0  # the newest configuration goes to its voters
    MOVE = 1  # participants move to it
    CLOSE = 2  # the numbers before it come to their end
    DECIDE = 3  # its successor is decided
    OVER = 4


class Stepped(Event, frozen=True):
    """This configuration is the newest now."""

    configuration: Configuration


class Settled(Event, frozen=True):
    """The goal is reached, and voters that are not part of this configuration may be switched off."""

    configuration: Configuration


class Conflicted(Event, frozen=True):
    """Another change came first, and is complete: the goal was meant for an earlier number."""

    configuration: Configuration


class Heard(msgspec.Struct, frozen=True, array_like=True):
    """An answer of a voter, and when it came."""

    voter: ProcessId
    time: float
    condition: Condition


class Finish(msgspec.Struct, frozen=True, array_like=True):
    """A voter has finished a number, and its tokens went no further than the bound."""

    number: int
    voter: ProcessId
    bound: int


class Vow(msgspec.Struct, frozen=True, array_like=True):
    """The promise of a voter."""

    voter: ProcessId
    promise: Promise


class Changer(msgspec.Struct, array_like=True):
    """One change of the voters, their coterie or their times."""

    messages: ClassVar[Any] = Tell

    name: str
    configuration: Configuration  # the newest that it knows
    goal: Goal
    phase: Phase = Phase.INSTALL
    since: float = 0.0  # when it heard of that configuration
    heard: list[Heard] = field(default_factory=list)  # the last answer of each voter
    finished: list[Finish] = field(default_factory=list)
    round: int = 0  # the highest that was seen
    attempt: Attempt | None = None
    vows: list[Vow] = field(default_factory=list)
    proposal: Configuration | None = None
    accepted: list[ProcessId] = field(default_factory=list)
    pauses_until: float = NEVER
    carries: dict[int, Carry] = field(default_factory=dict)  # of values, by number

    def start(self, out: Outbox[Frame]) -> None:
        """Begin to ask."""
        self.since = out.now
        self._poll(out)

    def ring(self, timer: str, out: Outbox[Frame]) -> None:
        """Ask again, and send again what was not answered."""
        self._poll(out)
        self._advance(out)

    def down(self, peer: ProcessId, out: Outbox[Frame]) -> None:
        """Changers watch no process."""
        raise AssertionError(f"a changer watches no process, and heard that {peer} is down")

    def receive(self, voter: ProcessId, frame: Tell, out: Outbox[Frame]) -> None:
        """Handle the answer of a voter."""
        if self.phase is Phase.OVER:
            return
        match frame:
            case Condition():
                self._take_condition(voter, frame, out)
            case Closed(number, finished, bound):
                finish = Finish(number, voter, bound)
                if finished and finish not in self.finished:
                    self.finished.append(finish)
            case Promise():
                self._take_promise(voter, frame, out)
            case Accepted(number, attempt):
                self._take_acceptance(voter, number, attempt, out)
            case Refused(number, promised):
                self._take_refusal(number, promised, out)
            case ValueList() | ValueFound() | ValueCopied():
                self._take_values(voter, frame, out)
        self._advance(out)

    def connected(self, voter: ProcessId, out: Outbox[Frame]) -> None:
        """Ask a voter that can be reached now, as what was sent before may have been lost."""
        if self.phase is not Phase.OVER:
            out.send(voter, Query())

    def seats(self) -> list[ProcessId]:
        """List the voters that it talks to, in order."""
        wanted = self.goal.part.seats if self.goal.part else ()
        return sorted({*self.configuration.all_seats(), *wanted})

    def missing(self, now: float) -> list[ProcessId]:
        """List the voters that have not adopted the newest configuration, as far as it is heard."""
        installed = [heard.voter for heard in self._installed(now)]
        return [seat for seat in self.seats() if seat not in installed]

    # Asking

    def _poll(self, out: Outbox[Frame]) -> None:
        if self.phase is Phase.OVER:
            return
        out.broadcast(self.seats(), Query())
        if self.phase is Phase.CLOSE:
            self._close(out)
            for carry in self.carries.values():
                carry.ask(out)
        if self.phase is Phase.DECIDE and self.attempt is not None:
            self._send_attempt(self.attempt, out)
        out.set_timer(CHANGER, self._pause())

    def _pause(self) -> float:
        return min(self.configuration.settings.heartbeat / POLLS_PER_HEARTBEAT, POLL_SECONDS_MAX)

    def _send_attempt(self, attempt: Attempt, out: Outbox[Frame]) -> None:
        deciders = self.configuration.deciders.members
        if self.proposal is None:
            out.broadcast(deciders, Prepare(self.configuration.number, attempt))
        else:
            out.broadcast(deciders, Accept(attempt, self.proposal))

    def _tell_all(self, seats: Iterable[ProcessId], out: Outbox[Frame]) -> None:
        out.broadcast(seats, NewConfiguration(self.configuration))

    # Hearing

    def _take_condition(self, voter: ProcessId, condition: Condition, out: Outbox[Frame]) -> None:
        self.heard = [heard for heard in self.heard if heard.voter != voter]
        self.heard.append(Heard(voter, out.now, condition))
        theirs = condition.configuration
        if theirs is not None:
            self._learn(theirs, out)
        is_behind = theirs is None or theirs.number < self.configuration.number
        if is_behind and voter in self.configuration.all_seats():
            # sometimes: a changer brings a voter up to its number
            self._tell_all([voter], out)

    def _learn(self, theirs: Configuration, out: Outbox[Frame]) -> None:
        """Take over a newer configuration, or what is noted in the same one."""
        mine = self.configuration
        if mine.is_foreign(theirs):
            # sometimes: a changer hears of another installation
            return
        if theirs.number > mine.number:
            self._take_over(theirs, out)
        elif theirs.number == mine.number and mine.is_same(theirs):
            self.configuration = mine.noted(theirs)

    def _take_over(self, newer: Configuration, out: Outbox[Frame]) -> None:
        seats = self.configuration.all_seats()
        self.configuration = newer
        self.phase = Phase.INSTALL
        self.since = out.now
        self.finished.clear()
        self.carries.clear()
        self._drop_attempt()
        self._tell_all({*seats, *newer.all_seats()}, out)
        out.tell(Stepped(newer))

    def _installed(self, now: float) -> list[Heard]:
        """List what voters have said that were heard lately and have the newest configuration."""
        oldest = now - FRESH_POLLS * self._pause()
        number = self.configuration.number
        return [
            heard
            for heard in self.heard
            if heard.time >= oldest
            and heard.condition.configuration is not None
            and heard.condition.configuration.number == number
        ]

    # Steps

    def _advance(self, out: Outbox[Frame]) -> None:
        """Go as far as what was heard allows."""
        if self.phase is Phase.OVER or not self._is_installed(out.now):
            return
        if self.configuration.open and not self._takes_back():
            if not self._is_ready(out.now):
                self.phase = Phase.MOVE
                return
            if self.phase is not Phase.CLOSE:
                self.phase = Phase.CLOSE
                self._close(out)
            self._note_finished(out)
            if self.configuration.open:
                return
        self._take_next_step(out)

    def _takes_back(self) -> bool:
        """Return whether the present step is to be undone.

        The old part meets the numbers that are open, its own among them, so none of them has to be
        finished before.
        """
        mine = self.configuration
        return self.goal.takes_back and mine.is_joint and mine.number == self.goal.base

    def _is_installed(self, now: float) -> bool:
        """19.10: return whether the newest configuration can be lost no more.

        A quorum of its deciders has it, so a successor is decided by voters that know it; and of
        each number that is open a voter in every quorum, so none is used by a program that starts.
        """
        installed = [heard.voter for heard in self._installed(now)]
        return self.configuration.deciders.contains_quorum(installed) and all(
            rule.is_blocked_by(installed) for rule in self.configuration.open
        )

    def _is_ready(self, now: float) -> bool:
        """19.10: return whether closing the numbers before costs no participant its holds.

        A quorum of the new voters has to be there and vote. Participants get some time to move.
        """
        installed = self._installed(now)
        voting = [heard.voter for heard in installed if not heard.condition.abstains]
        if not self.configuration.quorums.contains_quorum(voting):
            return False
        # Idle participants hear of it with a heartbeat, and those of the numbers before count.
        rules = (self.configuration.rule, *self.configuration.open)
        patience = PATIENCE_HEARTBEATS * max(rule.settings.heartbeat for rule in rules)
        lagging = any(heard.condition.lagging for heard in installed)
        return self.phase is Phase.CLOSE or not lagging or now >= self.since + patience

    def _close(self, out: Outbox[Frame]) -> None:
        # Only voters of a number decide whether it is finished. The others serve it until that is
        # noted: a participant that has entered by it just now needs their votes to move.
        for rule in self.configuration.open:
            out.broadcast(rule.seats, Close(rule.number))

    def _note_finished(self, out: Outbox[Frame]) -> None:
        """19.10: note which numbers no participant can count by any more."""
        before = self.configuration
        for rule in before.open:
            ends = [finish for finish in self.finished if finish.number == rule.number]
            # A quorum needs one of these voters, and none of them lets itself be counted. Of one
            # voter alone this would say nothing of the quorums without it.
            is_finished = rule.is_blocked_by([finish.voter for finish in ends])
            if is_finished and self._is_carried(rule, out):
                floor = max(finish.bound for finish in ends)
                self.configuration = self.configuration.without(rule.number, floor)
        if self.configuration != before:
            self._tell_all(before.all_seats(), out)

    def _is_carried(self, rule: Rule, out: Outbox[Frame]) -> bool:
        """21.8: return whether the voters of now know the values of a number that is finished."""
        mine = self.configuration
        # No participant counts by a later number with an earlier protocol, so there were no values before either.
        if mine.protocol < VALUES_PROTOCOL:
            return True
        carry = self.carries.get(rule.number)
        if carry is None:
            carry = self.carries[rule.number] = Carry(rule.number, mine.number)
            carry.begin({*rule.seats, *mine.seats}, out)
        return carry.is_over

    def _take_values(
        self, voter: ProcessId, frame: ValueList | ValueFound | ValueCopied, out: Outbox[Frame]
    ) -> None:
        mine = self.configuration
        for carry in self.carries.values():
            match frame:
                case ValueList():
                    old = mine.rule_of(carry.number)
                    if old is not None:
                        carry.take_list(voter, frame, old, mine.rule, out)
                case ValueFound():
                    carry.take_value(voter, frame, out)
                case ValueCopied(number):
                    if number == carry.number:
                        carry.take_copy(voter, frame, mine.rule, out)

    def _take_next_step(self, out: Outbox[Frame]) -> None:
        step = self._next_step()
        if step is not None:
            self._decide(step, out)
            return
        reached = self.goal.part is None or self._is_reached()
        self.phase = Phase.OVER
        told = Settled if reached else Conflicted
        out.tell(told(self.configuration))

    def _is_reached(self) -> bool:
        mine, goal = self.configuration, self.goal
        return (mine.rule.parts, mine.members, mine.protocol) == (
            (goal.part,),
            goal.members,
            goal.protocol,
        )

    def _next_step(self) -> Configuration | None:
        """Return what should come next; None if nothing is to be done, or it was meant for another.

        A change that another has begun is brought to its end first. The goal is not applied to what
        comes of it: it was meant for what the operator has seen.
        """
        mine, goal = self.configuration, self.goal
        if mine.is_joint:
            part = mine.rule.parts[0 if self._takes_back() else 1]
            members = tuple(member for member in mine.members if member.seat in part.seats)
            return self._successor((part,), members, mine.protocol)
        if goal.part is None or self._is_reached() or mine.number != goal.base:
            return None
        direct = self._successor((goal.part,), goal.members, goal.protocol)
        if direct.rule.meets(mine.rule):
            return direct
        strangers = [member for member in goal.members if member not in mine.members]
        both = tuple(sorted((*mine.members, *strangers), key=lambda member: member.seat))
        return self._successor((*mine.rule.parts, goal.part), both, mine.protocol)

    def _successor(
        self, parts: tuple[Part, ...], members: tuple[Member, ...], protocol: int
    ) -> Configuration:
        mine = self.configuration
        rule = Rule(mine.number + 1, parts)
        last_seat = max(mine.last_seat, *mine.seats)
        still_open = (*mine.open, mine.rule)
        identity = mine.cluster_identity or self.name
        return Configuration(
            rule, members, mine.floor, still_open, protocol, self.name, last_seat, identity
        )

    # The decision

    def _decide(self, step: Configuration, out: Outbox[Frame]) -> None:
        """19.8: begin an attempt, unless one is under way or another changer has the right of way."""
        self.phase = Phase.DECIDE
        if self.attempt is None and out.now >= self.pauses_until:
            self.round += 1
            self.attempt = Attempt(self.round, self.name)
            self._send_attempt(self.attempt, out)
        elif self.attempt is not None and self.proposal is None:
            self._propose(self.attempt, step, out)

    def _propose(self, attempt: Attempt, step: Configuration, out: Outbox[Frame]) -> None:
        """Propose what may have been decided already, else the step."""
        if not self.configuration.deciders.contains_quorum([vow.voter for vow in self.vows]):
            return
        # What was accepted with the latest attempt may have been chosen, or will be; so it is
        # proposed again, and no other. Two successors of one number would not know of each other.
        proposals = [vow.promise.accepted for vow in self.vows if vow.promise.accepted]
        latest = max(proposals, key=lambda proposal: proposal.attempt, default=None)
        self.proposal = step
        if latest is not None:
            # sometimes: a changer proposes what another may have decided
            self.proposal = latest.configuration
        self._send_attempt(attempt, out)

    def _take_promise(self, voter: ProcessId, promise: Promise, out: Outbox[Frame]) -> None:
        if promise.attempt == self.attempt and promise.number == self.configuration.number:
            if all(vow.voter != voter for vow in self.vows):
                self.vows.append(Vow(voter, promise))
            self._learn(promise.configuration, out)

    def _take_acceptance(
        self, voter: ProcessId, number: int, attempt: Attempt, out: Outbox[Frame]
    ) -> None:
        proposal = self.proposal
        if proposal is None or attempt != self.attempt or number != proposal.number:
            return
        if voter not in self.accepted:
            self.accepted.append(voter)
        if self.configuration.deciders.contains_quorum(self.accepted):
            self._take_over(proposal, out)

    def _take_refusal(self, number: int, promised: Attempt | None, out: Outbox[Frame]) -> None:
        mine = self.configuration.number
        if self.attempt is None or number not in (mine, mine + 1):
            return
        if promised is not None and promised <= self.attempt:
            return  # the answer to an earlier attempt
        # sometimes: a changer gives way to another
        self.round = max(self.round, promised.round if promised else 0)
        self._drop_attempt()
        # Two changers that went on at once could refuse each other in turn for a long time.
        turn = zlib.crc32(f"{self.name}/{self.round}".encode()) % PAUSES
        self.pauses_until = out.now + (1 + turn) * self._pause()

    def _drop_attempt(self) -> None:
        self.attempt = None
        self.proposal = None
        self.vows.clear()
        self.accepted.clear()
