"""A site as it coordinates the transactions of its own users.

At the end all sites that were asked have to vote, unless it was one: then this one decides by itself.
The decision to commit is on disk before anybody hears of it. There is no record of an abort: what a
coordinator knows nothing about is aborted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.transactions.schemes.scheduler import Committed, Name, Refused
from coterie.transactions.site.asking import Asking
from coterie.transactions.site.events import Doubted
from coterie.transactions.site.keeper import coordinator_of, time_of
from coterie.transactions.site.messages import (
    Acknowledge,
    Ask,
    Decide,
    Message,
    Pending,
    Prepare,
    Vote,
)
from coterie.transactions.site.participant import RINGS_MAX
from coterie.transactions.site.records import Decided

if TYPE_CHECKING:
    from coterie.process import Outbox, ProcessId
    from coterie.transactions.schemes.scheduler import Number
    from coterie.transactions.site.course import Course

UNREACHABLE = "a site does not answer"


class Coordinator(Asking):
    """Runs the transactions of its own users over all sites."""

    def commit(self, name: Name, out: Outbox[Message]) -> None:
        """Let it take effect at all sites or at none; the answer is `Committed`."""
        course = self._course(name)
        if not course.visits:
            self._end_course(name, Committed(name, course.attempt.stamp), out)
            return
        course.state, course.silence = "voting", 0
        course.blockers.clear()
        course.awaited = course.sites
        self._send_prepare(course, out)

    # Two phases

    def _send_prepare(self, course: Course, out: Outbox[Message]) -> None:
        name, sites, settled = course.attempt.name, tuple(course.sites), self._settled()
        for visit in course.visits:
            if visit.site in course.awaited:
                prepare = Prepare(self.clock, name, visit.count, sites, settled)
                out.send(visit.site, prepare)

    def _settled(self) -> int:
        """Give a time before which everything that began here is over at all sites."""
        own = [time_of(name) for name in self.decided if coordinator_of(name) == self.me]
        return min((*own, *(time_of(name) for name in self.courses)), default=self.clock)

    def _voted(self, sender: ProcessId, vote: Vote, out: Outbox[Message]) -> None:
        course = self.courses.get(vote.name)
        if course is None or course.state == "running" or sender not in course.awaited:
            return
        course.awaited.remove(sender)
        course.silence = 0
        course.number = vote.number if course.number is None else max(course.number, vote.number)
        if not vote.leaves:
            course.voters.append(sender)
        if not course.awaited:
            self._commit(course, course.number, out)

    def _commit(self, course: Course, number: Number, out: Outbox[Message]) -> None:
        """Decide; whoever has left needs no decision, and if all have there is none."""
        name = course.attempt.name
        if course.voters:
            self.decided[name] = Decided(name, number, tuple(sorted(course.voters)))
            self.log(self.decided[name], out)
            out.broadcast(course.voters, Decide(self.clock, name, number))
        self._end_course(name, Committed(name, number), out)

    def _decide(
        self, sender: ProcessId, name: Name, number: Number | None, out: Outbox[Message]
    ) -> None:
        """Hear from the only site that took part; everything else is for participants."""
        course = self.courses.get(name)
        if course is not None and course.alone and course.state != "running" and number is not None:
            self._end_course(name, Committed(name, number), out)
            if sender != self.me:
                out.send(sender, Acknowledge(self.clock, name))
            return
        super()._decide(sender, name, number, out)

    # Silence

    def _inquired(self, sender: ProcessId, name: Name, out: Outbox[Message]) -> None:
        if name in self.courses:
            out.send(sender, Pending(self.clock, name))
        else:
            super()._inquired(sender, name, out)

    def _heard_of(self, sender: ProcessId, name: Name, others: tuple[Name, ...]) -> None:
        """Take note that a site that has to answer works on it, or that its coordinator does."""
        course = self.courses.get(name)
        if course is not None and sender in course.awaited and sender != self.me:
            course.silence = 0
            course.blockers += [other for other in others if other not in course.blockers]
        part = self.parts.get(name)
        if part is not None and sender == coordinator_of(name):
            part.silence = 0

    def _remind_sites(self, out: Outbox[Message]) -> None:
        """Ask again for what is missing, and give up where that may be done."""
        for name, decided in self.decided.items():
            out.broadcast(decided.sites, Decide(self.clock, name, decided.number))
        for name, course in list(self.courses.items()):
            if course.awaited in ([], [self.me]):  # here everything is known: it waits
                continue
            course.silence += 1
            if course.silence == 1:
                continue
            if course.silence <= RINGS_MAX or (course.alone and course.state != "running"):
                self._ask_again(course, out)
            else:
                out.broadcast(course.sites, Decide(self.clock, name))
                self._end_course(name, Refused(name, UNREACHABLE, (), ()), out)

    def _ask_again(self, course: Course, out: Outbox[Message]) -> None:
        name = course.attempt.name
        if course.state == "running":
            for site in course.awaited:
                visit = course.visit(site)
                opening = course.attempt if visit.count == 1 else None
                out.send(site, Ask(self.clock, name, visit.count, visit.request, opening))
            return
        self._send_prepare(course, out)
        if course.silence > RINGS_MAX and course.state == "voting":
            course.state = "doubted"
            out.tell(Doubted(name))
