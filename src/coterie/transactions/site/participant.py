"""A site as it takes part in transactions, whoever coordinates them.

It carries out requests, votes, and obeys decisions. Before its vote it may end a transaction by
itself; after it, it may not: it asks the coordinator and then the other sites what has become of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from coterie.transactions.scheduler import (
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
from coterie.transactions.site.events import Installed
from coterie.transactions.site.keeper import Keeper, coordinator_of, time_of
from coterie.transactions.site.messages import (
    Acknowledge,
    Ask,
    Decide,
    Inquire,
    Message,
    Pending,
    Prepare,
    Read,
    Reply,
    Scan,
    Validate,
    Vote,
    Write,
)
from coterie.transactions.site.records import Decided, Ended, Ready, Settled, Wrote

if TYPE_CHECKING:
    from coterie.process import Outbox, ProcessId

FORGOTTEN = "the site has forgotten it"
STALE = "what it has read was written since"
ABANDONED = "its coordinator does not answer"
DOUBTED = "another site is in doubt about it"

RINGS_MAX = 4  # of silence, after which whoever did not vote is taken for gone
REFUSED_MAX = 1000  # remembered, to help others out of doubt


class Part(msgspec.Struct, array_like=True):
    """A transaction at one site."""

    attempt: Attempt
    count: int = 0  # requests so far
    reply: Found | Listed | Accepted | None = None  # to the last one; None while it waits
    sites: tuple[int, ...] = ()  # that take part, once it is to be prepared
    silence: int = 0  # rings since anything was heard of it


class Participant(Keeper):
    """Takes part in transactions that begin at any site."""

    parts: dict[Name, Part] = {}
    refused: dict[Name, None] = {}  # ended here before a vote, the last ones

    def start(self, out: Outbox[Message]) -> None:
        """Begin with those in doubt."""
        super().start(out)
        for name, ready in self.ready.items():
            self.parts[name] = Part(ready.attempt, sites=ready.sites)

    # Requests

    def _asked(self, sender: ProcessId, message: Ask, out: Outbox[Message]) -> None:
        name, count, opening = message.name, message.count, message.opening
        part = self.parts.get(name)
        answers: list[Answer] = []
        if part is None:
            if opening is None or name in self.refused or not self._admits(opening):
                self._reply(name, count, Refused(name, FORGOTTEN, (), ()), sender, out)
                return
            part = self.parts[name] = Part(opening)
            self.scheduler.begin(opening, answers)
        elif count <= part.count:
            self._repeat(part, sender, out)
            return
        elif (
            count > part.count + 1 or part.sites
        ):  # one in between is lost, or it has been voted on
            self._give_up(name, FORGOTTEN, out)
            return
        part.count, part.reply, part.silence = count, None, 0
        self._carry_out(name, message, answers)
        self._pass_on(answers, out)

    def _admits(self, opening: Attempt) -> bool:
        """Tell whether a transaction may begin here."""
        return True

    def _carry_out(self, name: Name, message: Ask, answers: list[Answer]) -> None:
        match message.request:
            case Read(key, update):
                self.scheduler.read(name, key, answers, update=update)
            case Scan(span, limit):
                self.scheduler.scan(name, span, limit, answers)
            case Write(key, value):
                self.scheduler.write(name, key, value, answers)
            case Validate():
                if self.scheduler.valid(name):
                    answers.append(Accepted(name))
                else:
                    self.scheduler.refuse(name, STALE, (), (), answers)
            case None:
                pass

    def _repeat(self, part: Part, sender: ProcessId, out: Outbox[Message]) -> None:
        """Answer again: the request, or the answer to it, may have been lost."""
        name = part.attempt.name
        if part.reply is None:
            out.send(sender, Pending(self.clock, name))
        else:
            self._reply(name, part.count, part.reply, sender, out)

    def _reply(
        self,
        name: Name,
        count: int,
        answer: Found | Listed | Accepted | Refused,
        coordinator: ProcessId,
        out: Outbox[Message],
    ) -> None:
        out.send(coordinator, Reply(self.clock, name, count, answer))

    def _pass_on(self, answers: list[Answer], out: Outbox[Message]) -> None:
        """Send each answer to whoever coordinates its transaction; some make more answers."""
        for answer in answers:
            name = answer.transaction
            match answer:
                case Found() | Listed() | Accepted():
                    part = self.parts[name]
                    part.reply = answer
                    self._reply(name, part.count, answer, coordinator_of(name), out)
                case Prepared():
                    self._vote(self.parts[name], answer, answers, out)
                case Refused():
                    part = self.parts.pop(name)
                    self._remember_refusal(name)
                    self._reply(name, part.count, answer, coordinator_of(name), out)
                case Committed():
                    pass

    def _give_up(self, name: Name, rule: str, out: Outbox[Message]) -> None:
        """End a transaction before its vote, so that a late prepare finds nothing to vote for."""
        answers: list[Answer] = []
        self.scheduler.refuse(name, rule, (), (), answers)
        self._pass_on(answers, out)

    def _remember_refusal(self, name: Name) -> None:
        self.refused[name] = None
        if len(self.refused) > REFUSED_MAX:
            del self.refused[next(iter(self.refused))]

    # Votes

    def _prepare(self, sender: ProcessId, message: Prepare, out: Outbox[Message]) -> None:
        name = message.name
        self._forget_outcomes(sender, message.settled)
        part = self.parts.get(name)
        if part is None and name in self.decided:
            out.send(sender, Decide(self.clock, name, self.decided[name].number))
        elif part is None:
            refused = Refused(name, FORGOTTEN, (), ())
            self._reply(name, message.count, refused, sender, out)
        elif name in self.ready:
            out.send(sender, Vote(self.clock, name, self.ready[name].number))
        elif part.sites:  # asked before, and waits
            out.send(sender, Pending(self.clock, name))
        elif message.count != part.count:
            self._give_up(name, FORGOTTEN, out)
        else:
            part.sites, part.silence = message.sites, 0
            answers: list[Answer] = []
            self.scheduler.prepare(name, answers)
            self._pass_on(answers, out)

    def _vote(
        self, part: Part, prepared: Prepared, answers: list[Answer], out: Outbox[Message]
    ) -> None:
        name, number = prepared.transaction, prepared.number
        coordinator = coordinator_of(name)
        if len(part.sites) == 1:
            self._commit_alone(prepared, answers, out)
        elif not prepared.writes and self.scheduler.lets_readers_go:
            self._end(name)
            self.scheduler.commit(name, number, answers)
            out.send(coordinator, Vote(self.clock, name, number, leaves=True))
        else:
            ready = Ready(part.attempt, number, prepared.writes, prepared.reads, part.sites)
            self.log(ready, out)
            self.ready[name] = ready
            out.send(coordinator, Vote(self.clock, name, number))

    def _commit_alone(
        self, prepared: Prepared, answers: list[Answer], out: Outbox[Message]
    ) -> None:
        """Decide by ourselves, since nobody else takes part; the coordinator has to learn of it."""
        name, number = prepared.transaction, prepared.number
        coordinator = coordinator_of(name)
        self._end(name)
        if prepared.writes:
            self.log(Wrote(name, number, prepared.writes), out)
            if coordinator != self.me:
                self.decided[name] = Decided(name, number, (coordinator,))
                self.log(self.decided[name], out)
            out.tell(Installed(name, number, tuple(prepared.writes.items())))
        self.scheduler.commit(name, number, answers)
        out.send(coordinator, Decide(self.clock, name, number))

    # Decisions

    def _decide(
        self, sender: ProcessId, name: Name, number: Number | None, out: Outbox[Message]
    ) -> None:
        answers: list[Answer] = []
        if name in self.ready:
            self._settle_doubt(name, number, answers, out)
        elif name in self.parts:  # which never voted: whoever committed did so without it
            self._end(name)
            self._remember_refusal(name)
            self.scheduler.abort(name, answers)
        if number is not None:  # also of one that we do not know any more: it is on disk
            out.send(sender, Acknowledge(self.clock, name))
        self._pass_on(answers, out)

    def _settle_doubt(
        self, name: Name, number: Number | None, answers: list[Answer], out: Outbox[Message]
    ) -> None:
        self.log(Settled(name, number), out)
        writes = self.ready.pop(name).writes
        self._end(name)
        if number is None:
            self._remember_refusal(name)
            self.scheduler.abort(name, answers)
        else:
            self.outcomes[name] = number
            self.scheduler.commit(name, number, answers)
            out.tell(Installed(name, number, tuple(writes.items())))

    def _acknowledged(self, sender: ProcessId, name: Name, out: Outbox[Message]) -> None:
        decided = self.decided.get(name)
        if decided is None:
            return
        left = tuple(site for site in decided.sites if site != sender)
        if left:
            self.decided[name] = Decided(name, decided.number, left)
        else:
            del self.decided[name]
            self.log(Ended(name), out)

    def _end(self, name: Name) -> None:
        del self.parts[name]

    # Doubt

    def _inquired(self, sender: ProcessId, name: Name, out: Outbox[Message]) -> None:
        """Tell what has become of a transaction, if that is certain here.

        Somebody in doubt may rely on a site that has not voted: it ends the transaction, and will
        refuse to vote. One that knows nothing may have left early because it had only read.
        """
        if name in self.decided or name in self.outcomes:
            number = self.decided[name].number if name in self.decided else self.outcomes[name]
            out.send(sender, Decide(self.clock, name, number))
        elif coordinator_of(name) == self.me or name in self.refused:  # presumed to be aborted
            out.send(sender, Decide(self.clock, name))
        elif name in self.parts and name not in self.ready:
            self._give_up(name, DOUBTED, out)
            out.send(sender, Decide(self.clock, name))
        else:
            out.send(sender, Pending(self.clock, name))

    def _forget_outcomes(self, coordinator: ProcessId, settled: int) -> None:
        """Nobody asks about transactions that are over at all sites."""
        over = [
            n for n in self.outcomes if coordinator_of(n) == coordinator and time_of(n) < settled
        ]
        for name in over:
            del self.outcomes[name]

    def _remind_coordinators(self, out: Outbox[Message]) -> None:
        """Ask what has become of transactions of which nothing was heard for a while."""
        for name, part in list(self.parts.items()):
            if name not in self.parts:  # ended meanwhile, because of another one
                continue
            part.silence += 1
            if name in self.ready:
                self._ask_around(name, part, out)
            elif part.silence > RINGS_MAX:
                self._give_up(name, ABANDONED, out)
            elif part.silence > 1:
                out.send(coordinator_of(name), Inquire(self.clock, name))

    def _ask_around(self, name: Name, part: Part, out: Outbox[Message]) -> None:
        """Ask the coordinator, then the other sites: we have voted, so we may not decide."""
        coordinator = coordinator_of(name)
        out.send(coordinator, Inquire(self.clock, name))
        if part.silence > 2:  # it was asked before, and did not answer
            peers = [site for site in part.sites if site not in (self.me, coordinator)]
            out.broadcast(peers, Inquire(self.clock, name))
