"""A site as transactions use it: their requests for its keys, its votes, decisions and doubt.

Each request is carried out once, however often it comes, and none is left out. What a scan has found
goes to another site in parts, each when it is asked for. A site that has forgotten a transaction says
so.

At the end this is the participant of two-phase commit (docs/transactions/several-sites.md, "The
protocol"). Before its vote a site may end a transaction by itself; after it, it may not: it asks the
coordinator and then the other sites what has become of the transaction.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from coterie.clocks import LogicalTime
from coterie.errors import ProtocolError
from coterie.process import ProcessId
from coterie.transactions.schemes.scheduler import (
    Accepted,
    Answer,
    Attempt,
    Committed,
    Found,
    Listed,
    Name,
    Number,
    Prepared,
    Refused,
)
from coterie.transactions.site.chunks import divided
from coterie.transactions.site.events import Installed
from coterie.transactions.site.messages import (
    Ask,
    Decide,
    Inquire,
    More,
    Pending,
    Prepare,
    Read,
    Reply,
    Request,
    Scan,
    Validate,
    Vote,
    Waiter,
    Write,
    coordinator_of,
    time_of,
)
from coterie.transactions.site.records import Decided, Ready, Settled, Wrote
from coterie.transactions.site.step import RINGS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.transactions.site.step import Step

FORGOTTEN = "the site has forgotten it"
STALE = "what it has read was written since"
ABANDONED = "its coordinator does not answer"
DOUBTED = "another site is in doubt about it"
MUST_NOT_WAIT = "older ones are in its way, which could not wound it where it has voted"

ENDED_MAX = 1000  # remembered, to help others out of doubt


class Part(msgspec.Struct, array_like=True):
    """A transaction at one site."""

    attempt: Attempt
    life: int = 0  # of this site, in which it has begun here
    count: int = 0  # requests so far
    # Those of them that came with the one that waits, and follow it; None: it is to be prepared.
    queue: list[Request | None] = []
    reply: Found | Listed | Accepted | None = None  # to the last one; None while it waits
    rest: Listed | None = None  # of the answer to a scan, what has not been asked for yet
    sites: tuple[ProcessId, ...] = ()  # that take part, once it is to be prepared
    silence: int = 0  # rings since anything was heard of it

    def is_meant(self, life: int | None) -> bool:
        """Return whether a request means the life in which it has begun here; None means any.

        Otherwise the coordinator has answers from before a crash. This site has forgotten what it
        promised with them, such as a lock, and must not let the transaction go on.
        """
        return life in (None, self.life)

    def is_busy(self, *, announced: bool) -> bool:
        """Return whether a request has no answer yet, or no more may come; announcements get none."""
        return bool(self.sites) or (self.reply is None and self.count > announced)


class Resource(msgspec.Struct, array_like=True):
    """Carries out what transactions ask for, votes on them, and obeys decisions."""

    parts: dict[Name, Part] = {}
    ended: dict[Name, bool] = {}  # here, the last ones; True: without a vote, so they are aborted
    settled: list[LogicalTime] = []  # what began at each site before this is over at all sites
    life: int = 0  # the number of this start of the site

    def start(self, step: Step) -> None:
        """Begin with those in doubt, and without having heard of any end.

        All others that were under way here are forgotten. That is safe, since none of them has
        voted: their next request, or their prepare, means another life, and is refused.
        """
        self.settled = [0] * step.sites
        self.life = step.out.incarnation
        for name, ready in step.journal.ready.items():
            self.parts[name] = Part(ready.attempt, ready.life, sites=ready.sites, silence=1)

    def waiters(self, step: Step) -> tuple[Waiter, ...]:
        """Return the requests that wait here, and for which transactions."""
        found = []
        for name, targets in sorted(step.scheduler.waits().items()):
            part = self.parts[name]
            count = part.count - len(part.queue) + bool(part.sites)
            found.append(Waiter(step.me, part.attempt, count, targets))
        return tuple(found)

    # Requests

    def on_ask(
        self,
        sender: ProcessId,
        message: Ask,
        admits: Callable[[Attempt, Step], bool],
        step: Step,
    ) -> None:
        """Carry out a request; `admits` says whether a transaction may begin here."""
        name, count, opening = message.name, message.count, message.opening
        part = self.parts.get(name)
        answers: list[Answer] = []
        if part is None:
            if opening is None or name in self.ended or not admits(opening, step):
                self._reply(name, count, Refused(name, FORGOTTEN, (), ()), sender, step)
                return
            part = self.parts[name] = Part(opening, self.life)
            step.scheduler.begin(opening, answers)
        elif name in step.journal.ready:
            self._repeat(part, sender, step)
            return
        elif not part.is_meant(message.life) or count > part.count + 1 + len(message.writes):
            # one in between is lost
            self.refuse(name, FORGOTTEN, step)
            return
        elif count <= part.count:
            self._repeat(part, sender, step)
            return
        elif part.is_busy(announced=step.scheduler.announced):
            raise ProtocolError(f"{name} asks for more before it has an answer")
        part.count, part.reply, part.silence = count, None, 0
        if message.request is not None:
            part.queue = [*message.writes, message.request]
            self._go_on(part, answers, step)
        self.pass_on(answers, step)

    def _go_on(self, part: Part, answers: list[Answer], step: Step) -> None:
        """Carry out the next request of those that came together, and at last the prepare."""
        name, scheduler = part.attempt.name, step.scheduler
        match part.queue.pop(0):
            case None:
                scheduler.prepare(name, answers)
            case Read(key, update):
                scheduler.read(name, key, answers, update=update)
            case Scan(span, limit):
                scheduler.scan(name, span, limit, answers)
            case More():
                answers.append(self._left_over(name))
            case Write(key, value):
                scheduler.write(name, key, value, answers)
            case Validate():
                if scheduler.valid(name):
                    answers.append(Accepted(name))
                else:
                    scheduler.refuse(name, STALE, (), (), answers)

    def _left_over(self, name: Name) -> Listed:
        rest = self.parts[name].rest
        if rest is None:
            raise ProtocolError(f"{name} asks for more of a scan that has nothing more")
        return rest

    def _repeat(self, part: Part, sender: ProcessId, step: Step) -> None:
        """Answer again: the request, or the answer to it, may have been lost."""
        name = part.attempt.name
        if part.reply is None:
            self._say_pending(part, sender, step)
        else:
            more = part.rest is not None
            self._reply(name, part.count, part.reply, sender, step, more=more)

    def _reply(
        self,
        name: Name,
        count: int,
        answer: Found | Listed | Accepted | Refused,
        coordinator: ProcessId,
        step: Step,
        *,
        more: bool = False,
    ) -> None:
        step.out.send(coordinator, Reply(step.clock, name, count, answer, more, self.life))

    def pass_on(self, answers: list[Answer], step: Step) -> None:
        """Send each answer to the coordinator of its transaction; some make more answers."""
        for answer in answers:
            name = answer.transaction
            match answer:
                case Listed():
                    self._hand_out(self.parts[name], answer, step)
                case Found() | Accepted():
                    self._answer(self.parts[name], answer, answers, step)
                case Prepared():
                    self._vote(self.parts[name], answer, answers, step)
                case Refused():
                    count = self.parts[name].count
                    self._end(name, aborted=True)
                    self._reply(name, count, answer, coordinator_of(name), step)
                case Committed():
                    pass

    def _answer(
        self, part: Part, answer: Found | Accepted, answers: list[Answer], step: Step
    ) -> None:
        """Send an answer, unless other requests came with this one: then go on with those."""
        name = part.attempt.name
        if part.queue:
            # What this request did may have ended its own transaction: an older one that waits is in
            # the way of the new lock, and wounds it. Its refusal stands behind this answer then.
            if name in step.scheduler.active:
                self._go_on(part, answers, step)
            return
        part.reply = answer
        self._reply(name, part.count, answer, coordinator_of(name), step)

    def _hand_out(self, part: Part, listed: Listed, step: Step) -> None:
        """Send what a scan has found as far as a message may carry it, or to ourselves all of it."""
        name = part.attempt.name
        coordinator = coordinator_of(name)
        first, part.rest = (listed, None) if coordinator == step.me else divided(listed)
        part.reply = first
        more = part.rest is not None
        self._reply(name, part.count, first, coordinator, step, more=more)

    def refuse(self, name: Name, rule: str, step: Step, others: tuple[Name, ...] = ()) -> None:
        """End a transaction before its vote, so that a late prepare finds nothing to vote for."""
        answers: list[Answer] = []
        step.scheduler.refuse(name, rule, (), others, answers)
        self.pass_on(answers, step)

    def _end(self, name: Name, *, aborted: bool) -> None:
        """Forget a transaction, but not so soon that it could begin here once more."""
        del self.parts[name]
        self.ended[name] = aborted
        if len(self.ended) > ENDED_MAX:
            # Many at a time: a dict looks for its first entry among all that were deleted before it.
            for oldest in list(islice(self.ended, ENDED_MAX // 4)):
                del self.ended[oldest]

    # Votes

    def on_prepare(self, sender: ProcessId, message: Prepare, step: Step) -> None:
        """Vote, or say what keeps the transaction from being voted on."""
        name, journal = message.name, step.journal
        self._forget_outcomes(sender, message.settled, step)
        part = self.parts.get(name)
        if part is None and name in journal.decided:
            # sometimes: a prepare comes again after the only site has decided
            step.out.send(sender, Decide(step.clock, name, journal.decided[name].number))
        elif part is None:
            refused = Refused(name, FORGOTTEN, (), ())
            self._reply(name, message.count, refused, sender, step)
        elif name in journal.ready:
            vote = Vote(step.clock, name, journal.ready[name].number, life=part.life)
            # sometimes: a prepare comes again after the vote
            step.out.send(sender, vote)
        elif part.sites:  # asked before, and waits
            self._say_pending(part, sender, step)
        elif message.writes and message.count == part.count and part.is_meant(message.life):
            # Asked before, and it became a request. The coordinator knows or learns now, and may call
            # it off: this copy of what it asked for then must not commit it.
            self._repeat(part, sender, step)
        elif not part.is_meant(message.life) or message.count != part.count + len(message.writes):
            # Some requests came before a crash of this site. A vote for the rest would let the
            # transaction commit without them.
            # sometimes: requests came before a crash of their site, which is asked to vote
            self.refuse(name, FORGOTTEN, step)
        else:
            part.sites, part.silence = message.sites, 0
            part.count, part.queue = message.count, [*message.writes, None]
            answers: list[Answer] = []
            self._go_on(part, answers, step)
            self.pass_on(answers, step)
            if part.queue and name in self.parts:
                self._delay_vote(part, sender, step)

    def _delay_vote(self, part: Part, coordinator: ProcessId, step: Step) -> None:
        """Decide what becomes of a prepare whose writes have to wait for the locks of others."""
        name, scheduler = part.attempt.name, step.scheduler
        if len(part.sites) > 1:
            if not scheduler.voters_may_wait:
                self.refuse(name, MUST_NOT_WAIT, step, scheduler.waits()[name])
        elif coordinator != step.me:
            # This site alone would decide. A commit that another site decides about cannot be called
            # off, so it must not wait for the locks of others: the prepare is taken for a request. The
            # coordinator hears now that nothing is decided, and may abort; it asks again when the
            # writes are accepted.
            part.sites, part.reply = (), None
            part.queue.pop()  # it is not to be prepared
            self._say_pending(part, coordinator, step)

    def _say_pending(self, part: Part, coordinator: ProcessId, step: Step) -> None:
        name, count = part.attempt.name, 0 if part.sites else part.count
        others = step.scheduler.waits().get(name, ())
        step.out.send(coordinator, Pending(step.clock, name, others, count))

    def _vote(self, part: Part, prepared: Prepared, answers: list[Answer], step: Step) -> None:
        name, number = prepared.transaction, prepared.number
        coordinator = coordinator_of(name)
        if len(part.sites) == 1:
            self._commit_alone(prepared, answers, step)
        elif not prepared.writes and step.scheduler.lets_readers_go:
            # There is nothing to undo or redo here, so either outcome is the same to this site.
            self._end(name, aborted=False)
            step.scheduler.commit(name, number, answers)
            vote = Vote(step.clock, name, number, leaves=True, life=part.life)
            step.out.send(coordinator, vote)
        else:
            ready = Ready(
                part.attempt, number, prepared.writes, prepared.reads, part.sites, part.life
            )
            if coordinator == step.me:
                # This vote leaves nowhere: who counts it is this site, and its decision goes to the
                # same log, after this record and in one write with it. Until then nothing rests on
                # the vote: a crash forgets it together with the transaction, which is aborted by
                # presumption (several-sites.md, "The protocol", 2).
                step.journal.overdue.append(ready)
            else:
                # The vote is a promise to be able to commit, whatever happens: the coordinator may
                # commit on it while this site is down. So all that a commit needs is on disk before
                # the vote leaves (Gray, 1978; several-sites.md, "The protocol", 2).
                step.log(ready)
            step.journal.ready[name] = ready
            step.out.send(coordinator, Vote(step.clock, name, number, life=part.life))

    def _commit_alone(self, prepared: Prepared, answers: list[Answer], step: Step) -> None:
        """Decide as the only site that takes part; the coordinator has to learn of it."""
        name, number, journal = prepared.transaction, prepared.number, step.journal
        coordinator = coordinator_of(name)
        self._end(name, aborted=False)
        if prepared.writes:
            # The record is the commit: in the log it has happened, and otherwise it never has.
            step.log(Wrote(name, number, prepared.writes))
            if coordinator != step.me:
                # Kept until it is acknowledged, since the coordinator asks again after a crash of
                # this site, and must not be told that the transaction is forgotten.
                journal.decided[name] = Decided(name, number, (coordinator,))
                step.log(journal.decided[name])
            step.out.tell(Installed(name, number, tuple(prepared.writes.items())))
        step.scheduler.commit(name, number, answers)
        step.out.send(coordinator, Decide(step.clock, name, number))

    # Decisions

    def on_decide(self, sender: ProcessId, name: Name, number: Number | None, step: Step) -> None:
        """Commit a transaction by this number; without one, abort it."""
        answers: list[Answer] = []
        is_news = name in step.journal.ready
        if is_news:
            self._settle_doubt(name, number, answers, step)
        elif name in self.parts:  # without a vote: if it commits, then without this site
            self._end(name, aborted=number is None)
            step.scheduler.abort(name, answers)
        if number is not None:
            # Also of a commit that is not known any more, which is on disk.
            step.acknowledge(sender, name, again=not is_news)
        self.pass_on(answers, step)

    def _settle_doubt(
        self, name: Name, number: Number | None, answers: list[Answer], step: Step
    ) -> None:
        # No sync of its own: a crash that loses this record brings the transaction back as it was,
        # in doubt and with its locks, and the same decision ends it. The coordinator has a commit on
        # disk until it is acknowledged, and presumes an abort. Whatever rests on what is installed
        # here and must last is a record of this log, and comes after this one.
        step.log_late(Settled(name, number))
        writes = step.journal.ready.pop(name).writes
        self._end(name, aborted=number is None)
        if number is None:
            step.scheduler.abort(name, answers)
        else:
            step.journal.outcomes[name] = number
            step.scheduler.commit(name, number, answers)
            step.out.tell(Installed(name, number, tuple(writes.items())))

    # Doubt

    def on_inquire(self, sender: ProcessId, name: Name, step: Step) -> None:
        """Answer what has become of another coordinator's transaction, if that is certain here.

        A site in doubt may rely on one that has not voted: that one ends the transaction, and will
        refuse to vote. One that knows nothing may have left early because it had only read there.
        """
        number = step.journal.commit_number(name)
        if number is not None:
            step.out.send(sender, Decide(step.clock, name, number))
        elif self.ended.get(name):
            step.out.send(sender, Decide(step.clock, name))
        elif name in self.parts and name not in step.journal.ready:
            self.refuse(name, DOUBTED, step)
            step.out.send(sender, Decide(step.clock, name))
        else:
            step.out.send(sender, Pending(step.clock, name))

    def on_pending(self, sender: ProcessId, name: Name) -> None:
        """Take note that the coordinator still works on a transaction."""
        part = self.parts.get(name)
        if part is not None and sender == coordinator_of(name):
            part.silence = 0

    def _forget_outcomes(self, coordinator: ProcessId, settled: LogicalTime, step: Step) -> None:
        """Drop the outcomes of transactions that are over at all sites: no site asks about them."""
        if settled <= self.settled[coordinator - 1]:
            return
        self.settled[coordinator - 1] = settled
        outcomes = step.journal.outcomes
        for name in list(outcomes):
            if coordinator_of(name) == coordinator and time_of(name) < settled:
                del outcomes[name]

    def remind_coordinators(self, step: Step) -> None:
        """Ask what has become of transactions of which nothing was heard for a while."""
        for name, part in list(self.parts.items()):
            if name not in self.parts:  # ended meanwhile, because of another one
                continue
            part.silence += 1
            if part.silence == 1:
                continue
            if name in step.journal.ready:
                self._ask_around(name, part, step)
            elif part.silence > RINGS_MAX:
                self.refuse(name, ABANDONED, step)
            else:
                step.out.send(coordinator_of(name), Inquire(step.clock, name))

    def _ask_around(self, name: Name, part: Part, step: Step) -> None:
        """Ask the coordinator, then the other sites: this one has voted, so it may not decide."""
        coordinator = coordinator_of(name)
        step.out.send(coordinator, Inquire(step.clock, name))
        if part.silence > 2:  # it was asked before, and did not answer
            peers = [site for site in part.sites if site not in (step.me, coordinator)]
            step.out.broadcast(peers, Inquire(step.clock, name))
