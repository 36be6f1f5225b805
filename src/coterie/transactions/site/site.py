"""A site of a store that is spread over several: two-phase commit with presumed abort.

Its parts, each in its file:

    Journal         what lasts: items, clock, votes and decisions, and their log
    Resource        requests for its keys; the participant of two-phase commit
    Coordinator     the transactions of its own users; the coordinator of two-phase commit
    Promises        null requests, for the schemes that wait for them
    DeadlockSearch  cycles of waits that lead through several sites

Here is what reaches a site, which part it is for, and the three timers. The protocol is described in
docs/transactions/several-sites.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from coterie.process import Channel, Outbox, Process, ProcessId
from coterie.transactions.schemes.scheduler import EVERYTHING, Attempt, Declaration, Name
from coterie.transactions.site.coordinator import Coordinator
from coterie.transactions.site.deadlock_search import DeadlockSearch
from coterie.transactions.site.events import Answered
from coterie.transactions.site.journal import Journal
from coterie.transactions.site.messages import (
    Acknowledge,
    Aside,
    Ask,
    Collect,
    Collected,
    Decide,
    Inquire,
    Message,
    Pending,
    Prepare,
    Promise,
    Reply,
    Sacrifice,
    Vote,
    Want,
    coordinator_of,
)
from coterie.transactions.site.promises import Promises, heeds_promises
from coterie.transactions.site.resource import Resource
from coterie.transactions.site.step import Step
from coterie.transactions.site.validity import LEAP_MAX, check_message

if TYPE_CHECKING:
    from coterie.clocks import LogicalTime, Stamp
    from coterie.transactions.schemes.scheduler import Value
    from coterie.transactions.schemes.span import Span
    from coterie.transactions.site.events import UserAnswer

SILENCE = "silence"  # nothing was heard about something that is under way
BLOCKED = "blocked"  # a request waits for long
OVERDUE = "overdue"  # acknowledgements have waited long enough for another record

OVERDUE_SECONDS = 0.2


class Site(Process[Message]):
    """One of several sites. Links are reliable and in order as long as both ends live.

    Transactions are serializable by the site's scheme, and atomic over all sites, whatever crashes,
    pauses or gets lost, as long as stable storage is stable. What they cannot be is live: a site
    that has voted waits for its coordinator, or for another site that knows the outcome.
    """

    messages: ClassVar[Any] = Message
    channel: ClassVar[Channel] = Channel.FIFO  # promises must not overtake what they are about

    sites: int
    scheduler: Any  # a Scheduler of any scheme, of this site
    journal: Journal = msgspec.field(default_factory=Journal)
    resource: Resource = msgspec.field(default_factory=Resource)
    coordinator: Coordinator = msgspec.field(default_factory=Coordinator)
    promises: Promises = msgspec.field(default_factory=Promises)
    deadlock_search: DeadlockSearch = msgspec.field(default_factory=DeadlockSearch)
    patience: float | None = 1.0  # None: there are no timers, so no site is ever taken for gone
    search_after: float = 0.2  # of waiting
    minding: bool = False  # SILENCE is set
    blocked: bool = False  # BLOCKED is set
    is_late: bool = False  # OVERDUE is set

    # The user's verbs; the answers are told

    def begin(
        self,
        out: Outbox[Message],
        declaration: Declaration = EVERYTHING,
        *,
        age: Stamp | None = None,
        failures: int = 0,
        above: Stamp | None = None,
    ) -> Attempt:
        """Begin a transaction, or another attempt of one that was refused."""
        step = self._step(out)
        attempt = self.coordinator.begin(declaration, step, age=age, failures=failures, above=above)
        self._follow_up(step)
        return attempt

    def read(self, name: Name, key: str, out: Outbox[Message], *, update: bool = False) -> None:
        """Read a key; the answer is `Found`."""
        self.coordinator.read(name, key, self._step(out), update=update)

    def scan(self, name: Name, span: Span, limit: int | None, out: Outbox[Message]) -> None:
        """Read the keys of a span, or the first few of them; the answer is `Listed`."""
        self.coordinator.scan(name, span, limit, self._step(out))

    def write(self, name: Name, key: str, value: Value, out: Outbox[Message]) -> None:
        """Set a key when the transaction commits; the answer is `Accepted`."""
        self.coordinator.write(name, key, value, self._step(out))

    def hold(self, name: Name, key: str, value: Value) -> bool:
        """Take a write that no site has to hear of before the end, and return True; else send it.

        This is what `write` does first. It wishes for nothing, so it can be done without a step.
        """
        return self.coordinator.hold(name, key, value, self.scheduler, self.sites)

    def validate(self, name: Name, out: Outbox[Message]) -> None:
        """Make sure that what was read was there at one time; the answer is `Accepted`."""
        self.coordinator.validate(name, self._step(out))

    def commit(self, name: Name, out: Outbox[Message]) -> None:
        """Let it take effect at all sites or at none; the answer is `Committed`."""
        self.coordinator.commit(name, self._step(out))

    def abort(self, name: Name, out: Outbox[Message]) -> bool:
        """End it without effect; return False, and do nothing, if another site decides about it."""
        return self.coordinator.abort(name, self._step(out))

    def close_source(self, source: ProcessId, out: Outbox[Message]) -> None:
        """Wait no more for promises of a site, until it is heard again."""
        self.promises.close(source)
        self._follow_up(self._step(out))

    def write_overdue(self, out: Outbox[Message]) -> None:
        """Write what was put off, at the latest when the site ends."""
        self.journal.catch_up(out)

    def answer(self, answer: UserAnswer, out: Outbox[Message]) -> None:
        """Tell a user how its request has ended. A subclass may react within the same step."""
        out.tell(Answered(answer))

    # What can be seen from outside

    @property
    def clock(self) -> LogicalTime:
        """The clock, as high as any that was heard of."""
        return self.journal.clock

    def is_open(self, name: Name) -> bool:
        """Return whether a transaction of a user here has begun and not ended."""
        return name in self.coordinator.courses

    def open_transactions(self) -> list[Name]:
        """Return the transactions of users here that have not ended, in the order they began."""
        return list(self.coordinator.courses)

    def is_waiting(self, name: Name) -> bool:
        """Return whether a request of an open transaction has no answer so far."""
        return self.is_open(name) and bool(self.coordinator.courses[name].awaited)

    def takes_part(self, name: Name) -> bool:
        """Return whether a transaction, wherever it began, has been here and not ended.

        No part of the store asks: it is for those who inspect a site, such as a test of its promises.
        """
        return name in self.resource.parts

    def blockers(self, name: Name) -> tuple[Name, ...]:
        """Return what a request of a transaction waits for, here or as other sites have said."""
        here: tuple[Name, ...] = self.scheduler.waits().get(name, ())
        course = self.coordinator.courses.get(name)
        return (*here, *(course.blockers if course is not None else ()))

    def in_doubt(self, rings: int = 0) -> set[Name]:
        """Return what waits here for a decision, and has heard nothing for so many rings."""
        parts = self.resource.parts
        return {name for name in self.journal.ready if parts[name].silence >= rings}

    def is_settled(self) -> bool:
        """Return whether no transaction is under way, in doubt or not acknowledged."""
        journal = self.journal
        under_way = self.resource.parts or self.coordinator.courses
        return not (under_way or journal.decided or journal.owed)

    def heeds_promises(self) -> bool:
        """Return whether the scheme waits for promises, or drops versions by them."""
        return heeds_promises(self.scheduler)

    def facts(self) -> dict[str, Any]:
        """Return what is under way, and above all what is in doubt."""
        parts = self.resource.parts
        stamps = {name: part.attempt.stamp for name, part in parts.items()}
        return {
            "in doubt": sorted(self.journal.ready),
            "under way": sorted(parts),
            "oldest": min(stamps, key=stamps.__getitem__, default=""),
            "not acknowledged": sorted(self.journal.decided),
            "waiting": {name: list(others) for name, others in self.scheduler.waits().items()},
        }

    # Inputs

    def start(self, out: Outbox[Message]) -> None:
        """Begin, and settle what a crash has left open."""
        step = self._step(out)
        self.journal.recover(self.sites, self.scheduler, out)
        self.resource.start(step)
        self.promises.start(step)
        self.resource.remind_coordinators(step)
        self.coordinator.start(step)
        self._follow_up(step)

    def receive(self, sender: ProcessId, message: Message, out: Outbox[Message]) -> None:
        """Handle a message; clocks are merged first. One that no correct site sends changes nothing."""
        latest = self.journal.clock + LEAP_MAX
        if message.time > latest:
            # The clock takes a leap toward such a time, and the message is lost: sites ask again.
            # Were it refused for good, a faulty third site could part two correct ones, by moving
            # the clock of one just as far as that one believes.
            self.journal.advance(latest, out)
            return
        if sender != self.me:
            check_message(sender, message, self.me, self.sites, latest)
        if self.promises.closed:
            self.promises.reopen(sender)
        self.journal.tidy(self.scheduler, out)
        if message.time > self.journal.clock:
            self.journal.advance(message.time, out)
        step = self._step(out)
        self._handle(sender, message, step)
        self._follow_up(step)

    def _handle(self, sender: ProcessId, message: Message, step: Step) -> None:
        match message:
            case Ask():
                self.resource.on_ask(sender, message, self.promises.admits, step)
            case Reply():
                self.coordinator.on_reply(sender, message, step)
            case Prepare():
                self.resource.on_prepare(sender, message, step)
            case Vote():
                self.coordinator.on_vote(sender, message, step)
            case Decide():
                self._on_decide(sender, message, step)
            case Acknowledge(_, name, others):
                for each in (name, *others):
                    self.coordinator.on_acknowledge(sender, each, step)
            case Inquire(_, name):
                if coordinator_of(name) == self.me:
                    self.coordinator.on_inquire(sender, name, step)
                else:
                    self.resource.on_inquire(sender, name, step)
            case Pending(_, name):
                self.coordinator.on_pending(sender, message, step)
                self.resource.on_pending(sender, name)
            case Want() | Promise() | Collect() | Collected() | Sacrifice():
                self._receive_aside(sender, message, step)

    def _on_decide(self, sender: ProcessId, message: Decide, step: Step) -> None:
        """Pass a decision to the coordinator, if it left it to the only site, or else to the voter."""
        name, number = message.name, message.number
        if number is not None and self.coordinator.expects_decision(name):
            self.coordinator.on_decide(sender, name, number, step)
        else:
            self.resource.on_decide(sender, name, number, step)

    def _receive_aside(self, sender: ProcessId, message: Aside, step: Step) -> None:
        match message:
            case Want(_, stamp):
                self.promises.on_want(sender, stamp, step)
            case Promise(_, stamp):
                self.promises.on_promise(sender, stamp, self.resource, step)
            case Collect(_, search):
                waiters = self.resource.waiters(step)
                step.out.send(sender, Collected(step.clock, search, waiters))
            case Collected():
                self.deadlock_search.on_collected(sender, message, self.resource, step)
            case Sacrifice():
                self.deadlock_search.on_sacrifice(message, self.resource, step)

    def ring(self, timer: str, out: Outbox[Message]) -> None:
        """Ask for what is missing."""
        step = self._step(out)
        if timer == BLOCKED:
            self.blocked = False
            if self.scheduler.waits():
                self.deadlock_search.ring(self.resource, step)
        elif timer == OVERDUE:
            self.is_late = False
            self.journal.catch_up(out)
        else:
            self.minding = False
            self.resource.remind_coordinators(step)
            self.coordinator.remind_sites(step)
            self.promises.renew(self.resource, step)
        self._follow_up(step)

    def _step(self, out: Outbox[Message]) -> Step:
        return Step(
            self.me,
            self.sites,
            self.scheduler,
            self.journal,
            out,
            self.patience is not None,
            self.answer,
        )

    def _follow_up(self, step: Step) -> None:
        """At the end of a step: promises, and the timers that are needed now."""
        self.promises.ask(self.resource, step)
        if any(self.promises.owed):
            self.promises.pay(self.coordinator, step)
        if self.patience is None:
            return
        if not self.minding and not self.is_settled():
            self.minding = True
            step.out.set_timer(SILENCE, self.patience)
        if not self.is_late and self.journal.owed:
            self.is_late = True
            step.out.set_timer(OVERDUE, min(self.patience, OVERDUE_SECONDS))
        if self.blocked or self.sites == 1:
            return
        if self.scheduler.may_deadlock() and self.scheduler.has_waits():
            self.blocked = True
            step.out.set_timer(BLOCKED, self.search_after)


def typed(kind: type[Site], scheduler: type[msgspec.Struct]) -> type[Any]:
    """Return the class of sites with this kind of scheduler, which can be saved and restored."""
    key = kind, scheduler
    if key not in _TYPED:
        name = f"{kind.__name__}{scheduler.__name__}"
        _TYPED[key] = msgspec.defstruct(
            name, [("scheduler", scheduler)], bases=(kind,), module=kind.__module__, array_like=True
        )
    return _TYPED[key]


_TYPED: dict[tuple[type, type], type[Any]] = {}
