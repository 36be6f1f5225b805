"""A site as it takes part in transactions, whoever coordinates them: votes, decisions, doubt.

Before its vote it may end a transaction by itself; after it, it may not: it asks the coordinator and
then the other sites what has become of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.transactions.schemes.scheduler import Answer, Name, Number, Prepared, Refused
from coterie.transactions.site.events import Installed
from coterie.transactions.site.keeper import coordinator_of, time_of
from coterie.transactions.site.messages import (
    Acknowledge,
    Decide,
    Inquire,
    Message,
    Pending,
    Prepare,
    Vote,
)
from coterie.transactions.site.records import Decided, Ended, Ready, Settled, Wrote
from coterie.transactions.site.serving import FORGOTTEN, Part, Serving

if TYPE_CHECKING:
    from coterie.process import Outbox, ProcessId

ABANDONED = "its coordinator does not answer"
DOUBTED = "another site is in doubt about it"

RINGS_MAX = 4  # of silence, after which whoever did not vote is taken for gone


class Participant(Serving):
    """Takes part in transactions that begin at any site."""

    settled: list[int] = []  # what began at each site before this is over everywhere

    def start(self, out: Outbox[Message]) -> None:
        """Begin without having heard of any end."""
        super().start(out)
        self.settled = [0] * self.sites

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
            out.send(sender, Pending(self.clock, name, self._blockers(name)))
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
            self._end(name, aborted=False)
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
        self._end(name, aborted=False)
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
            self._end(name, aborted=number is None)
            self.scheduler.abort(name, answers)
        if number is not None:  # also of one that we do not know any more: it is on disk
            out.send(sender, Acknowledge(self.clock, name))
        self._pass_on(answers, out)

    def _settle_doubt(
        self, name: Name, number: Number | None, answers: list[Answer], out: Outbox[Message]
    ) -> None:
        self.log(Settled(name, number), out)
        writes = self.ready.pop(name).writes
        self._end(name, aborted=number is None)
        if number is None:
            self.scheduler.abort(name, answers)
        else:
            self.outcomes[name] = number
            self.scheduler.commit(name, number, answers)
            out.tell(Installed(name, number, tuple(writes.items())))

    def _acknowledged(self, sender: ProcessId, name: Name) -> None:
        decided = self.decided.get(name)
        if decided is None:
            return
        left = tuple(site for site in decided.sites if site != sender)
        if left:
            self.decided[name] = Decided(name, decided.number, left)
        else:
            del self.decided[name]
            self.overdue.append(Ended(name))  # a crash before that repeats a decision, and no more

    # Doubt

    def _inquired(self, sender: ProcessId, name: Name, out: Outbox[Message]) -> None:
        """Tell what has become of a transaction, if that is certain here.

        Somebody in doubt may rely on a site that has not voted: it ends the transaction, and will
        refuse to vote. One that knows nothing may have left early because it had only read.
        """
        if name in self.decided or name in self.outcomes:
            number = self.decided[name].number if name in self.decided else self.outcomes[name]
            out.send(sender, Decide(self.clock, name, number))
        elif coordinator_of(name) == self.me or self.ended.get(name):  # presumed to be aborted
            out.send(sender, Decide(self.clock, name))
        elif name in self.parts and name not in self.ready:
            self._give_up(name, DOUBTED, out)
            out.send(sender, Decide(self.clock, name))
        else:
            out.send(sender, Pending(self.clock, name))

    def _forget_outcomes(self, coordinator: ProcessId, settled: int) -> None:
        """Nobody asks about transactions that are over at all sites."""
        if settled <= self.settled[coordinator - 1]:
            return
        self.settled[coordinator - 1] = settled
        for name in list(self.outcomes):
            if coordinator_of(name) == coordinator and time_of(name) < settled:
                del self.outcomes[name]

    def _remind_coordinators(self, out: Outbox[Message]) -> None:
        """Ask what has become of transactions of which nothing was heard for a while."""
        for name, part in list(self.parts.items()):
            if name not in self.parts:  # ended meanwhile, because of another one
                continue
            part.silence += 1
            if part.silence == 1:
                continue
            if name in self.ready:
                self._ask_around(name, part, out)
            elif part.silence > RINGS_MAX:
                self._give_up(name, ABANDONED, out)
            else:
                out.send(coordinator_of(name), Inquire(self.clock, name))

    def _ask_around(self, name: Name, part: Part, out: Outbox[Message]) -> None:
        """Ask the coordinator, then the other sites: we have voted, so we may not decide."""
        coordinator = coordinator_of(name)
        out.send(coordinator, Inquire(self.clock, name))
        if part.silence > 2:  # it was asked before, and did not answer
            peers = [site for site in part.sites if site not in (self.me, coordinator)]
            out.broadcast(peers, Inquire(self.clock, name))
