"""The coordinator of two-phase commit, for the transactions of a site's own users.

A request goes to the site of its key; a scan to every site that may keep keys of its range. A refusal
by one site ends the transaction everywhere.

At the end all sites that were asked have to vote, unless it was one: then that one decides by itself
(docs/transactions/several-sites.md, "The protocol"). The decision to commit is on disk before any site
or user hears of it. There is no record of an abort: what a coordinator knows nothing about is aborted
(presumed abort; Mohan, Lindsay and Obermarck, 1986).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from coterie.errors import MisuseError, ProtocolError
from coterie.transactions.schemes.scheduler import (
    Accepted,
    Attempt,
    Committed,
    Listed,
    Name,
    Refused,
)
from coterie.transactions.site.course import (
    Course,
    Visit,
    insist_on_declared,
    insist_on_size,
    merged,
)
from coterie.transactions.site.events import Doubted
from coterie.transactions.site.messages import (
    Ask,
    Decide,
    More,
    Pending,
    Prepare,
    Read,
    Reply,
    Request,
    Scan,
    Validate,
    Vote,
    Write,
    coordinator_of,
    time_of,
)
from coterie.transactions.site.placement import site_of, sites_of, sites_of_all
from coterie.transactions.site.records import Decided, Ended
from coterie.transactions.site.step import RINGS_MAX

if TYPE_CHECKING:
    from coterie.clocks import LogicalTime, Stamp
    from coterie.process import ProcessId
    from coterie.transactions.schemes.scheduler import Declaration, Number, Scheduler, Value
    from coterie.transactions.schemes.span import Span
    from coterie.transactions.site.step import Step

UNREACHABLE = "a site does not answer"
CALLED_OFF = "its user has called it off"


class Coordinator(msgspec.Struct, array_like=True):
    """Passes on the requests of its users and their answers, and runs their commits over all sites."""

    courses: dict[Name, Course] = {}  # of transactions of users here, until they have ended
    unacknowledged: list[Name] = []  # commits that were so when the timer rang last

    def start(self, step: Step) -> None:
        """Tell all decisions again: what has come of them before a crash is not known."""
        self.unacknowledged = list(step.journal.decided)
        self._repeat_decisions(step)

    # The user's verbs; the answers are told

    def begin(
        self,
        declaration: Declaration,
        step: Step,
        *,
        age: Stamp | None,
        failures: int,
        above: Stamp | None,
    ) -> Attempt:
        """Begin a transaction, or another attempt of one that was refused."""
        insist_on_size(declaration)
        if above is not None:
            step.advance(above.time)
        stamp = step.tick()
        attempt = Attempt(str(stamp), stamp, age or stamp, failures, declaration)
        course = self.courses[attempt.name] = Course(attempt)
        if step.scheduler.announced:
            spans = (*declaration.reads, *declaration.writes)
            for site in sites_of_all(spans, step.sites):
                self._send_request(course, site, None, step)
        return attempt

    def read(self, name: Name, key: str, step: Step, *, update: bool) -> None:
        """Read a key; the answer is `Found`."""
        request = Read(key, update)
        course = self._permit(name, request, step.scheduler)
        self._ask(course, [site_of(key, step.sites)], request, step)

    def scan(self, name: Name, span: Span, limit: int | None, step: Step) -> None:
        """Read the keys of a span, or the first few of them; the answer is `Listed`."""
        request = Scan(span, limit)
        course = self._permit(name, request, step.scheduler)
        self._ask(course, sites_of(span, step.sites), request, step)

    def write(self, name: Name, key: str, value: Value, step: Step) -> None:
        """Set a key when the transaction commits; the answer is `Accepted`."""
        if self.hold(name, key, value, step.scheduler, step.sites):
            step.answer(Accepted(name))
            return
        request = Write(key, value)
        course = self._permit(name, request, step.scheduler)
        self._ask(course, [site_of(key, step.sites)], request, step)

    def hold(self, name: Name, key: str, value: Value, scheduler: Scheduler, sites: int) -> bool:
        """Hold a write back, and return True; False if it has to be sent."""
        course = self.courses.get(name)
        if course is None or not scheduler.write_may_wait:
            return False
        visit = course.find(site_of(key, sites))
        if visit is None or not visit.updated:
            return False
        request = Write(key, value)
        self._permit(name, request, scheduler)
        return visit.holds(request)

    def validate(self, name: Name, step: Step) -> None:
        """Make sure that what was read was there at one time; the answer is `Accepted`."""
        course = self._course(name)
        if course.visits:
            self._ask(course, course.sites, Validate(), step)
        else:
            step.answer(Accepted(name))

    def commit(self, name: Name, step: Step) -> None:
        """Let it take effect at all sites or at none; the answer is `Committed`."""
        course = self._course(name)
        if not course.visits:
            self._end(name, Committed(name, course.attempt.stamp), step)
            return
        growing = course.growing_late() if step.scheduler.prepare_releases_reads else []
        if growing:
            self._write_first(course, growing, step)
        else:
            self._prepare(course, step)

    def _write_first(self, course: Course, visits: list[Visit], step: Step) -> None:
        """Send held writes as requests; the commit goes on when all of them are granted."""
        course.is_last, course.silence = True, 0
        course.blockers.clear()
        course.awaited = [visit.site for visit in visits]
        for visit in visits:
            visit.release()
            course.request = visit.request
            self._send_ask(course, visit, step)

    def _prepare(self, course: Course, step: Step) -> None:
        course.state, course.silence = "voting", 0
        course.blockers.clear()
        course.awaited = course.sites
        self._send_prepare(course, step)

    def abort(self, name: Name, step: Step) -> bool:
        """End it without effect; return False, and do nothing, if another site decides about it.

        Until the decision the coordinator may abort, even if all sites have voted: a vote binds the
        site that gives it, and not the coordinator.
        """
        course = self.courses.get(name)
        if course is None:
            return True
        if not course.is_decided_by(step.me):
            course.is_unwanted = True
            return False
        del self.courses[name]
        step.out.broadcast(course.sites, Decide(step.clock, name))
        return True

    # Requests and their answers

    def _course(self, name: Name) -> Course:
        course = self.courses.get(name)
        if course is None:
            raise MisuseError(f"{name} is not under way here: it has not begun, or has ended")
        if course.state != "running" or course.awaited:
            raise MisuseError(f"{name} has a request under way")
        return course

    def _permit(self, name: Name, request: Request, scheduler: Scheduler) -> Course:
        """Return the transaction, unless it must not make that request."""
        course = self._course(name)
        if scheduler.announced:
            insist_on_declared(course.attempt, request)
        if isinstance(request, Write):
            course.weigh(request.key, request.value)
        return course

    def _ask(self, course: Course, sites: list[ProcessId], request: Request, step: Step) -> None:
        course.request, course.awaited, course.silence = request, list(sites), 0
        course.blockers.clear()
        for site in sites:
            self._send_request(course, site, request, step)

    def _send_request(
        self, course: Course, site: ProcessId, request: Request | None, step: Step
    ) -> None:
        visit = course.visit(site)
        visit.send(request)
        self._send_ask(course, visit, step)

    def _send_ask(self, course: Course, visit: Visit, step: Step) -> None:
        opening = course.attempt if visit.count == 1 else None
        name, life, writes = course.attempt.name, visit.life, visit.writes
        ask = Ask(step.clock, name, visit.count, visit.request, opening, life, writes)
        step.out.send(visit.site, ask)

    def on_reply(self, sender: ProcessId, message: Reply, step: Step) -> None:
        """Answer the user once all sites have answered; a refusal by one of them is enough."""
        course = self.courses.get(message.name)
        if course is None:
            return
        answer = message.answer
        if isinstance(answer, Refused):
            self._refused(course, answer, sender, step)
            return
        if sender not in course.awaited:
            return
        visit = course.visit(sender)
        if course.is_postponed(visit, message.count):
            self._postpone(course, visit, step)
        if course.state != "running" or not visit.takes(message) or course.is_unwanted:
            return
        if isinstance(answer, Listed) != isinstance(course.request, Scan):
            raise ProtocolError(f"{message.name} got an answer to another kind of request")
        course.silence = 0
        if isinstance(answer, Listed):
            course.lists.append(answer)
            if message.more:
                # sometimes: a scan does not fit one message
                self._send_request(course, sender, More(), step)
                return
        course.awaited.remove(sender)
        if course.awaited:
            return
        if isinstance(course.request, Scan):
            answer = merged(course.lists, course.request)
            course.lists.clear()
        if course.is_last:
            self._prepare(course, step)
        else:
            step.answer(answer)

    def _refused(self, course: Course, refused: Refused, sender: ProcessId, step: Step) -> None:
        """End the transaction at all other sites too, since it takes effect at all or at none."""
        name = course.attempt.name
        others = [site for site in course.sites if site != sender]
        step.out.broadcast(others, Decide(step.clock, name))
        self._end(name, refused, step)

    def _end(self, name: Name, answer: Committed | Refused, step: Step) -> None:
        del self.courses[name]
        step.answer(answer)

    # Two phases

    def _send_prepare(self, course: Course, step: Step) -> None:
        name, sites, settled = course.attempt.name, tuple(course.sites), self._settled(step)
        for visit in course.visits:
            if visit.site in course.awaited:
                count, life, writes = visit.count, visit.life, tuple(visit.held)
                prepare = Prepare(step.clock, name, count, sites, settled, life, writes)
                step.out.send(visit.site, prepare)

    def _settled(self, step: Step) -> LogicalTime:
        """Return a time before which everything that began here is over at all sites."""
        own = [time_of(name) for name in step.journal.decided if coordinator_of(name) == step.me]
        return min((*own, *(time_of(name) for name in self.courses)), default=step.clock)

    def on_vote(self, sender: ProcessId, vote: Vote, step: Step) -> None:
        """Count a vote; the last one decides."""
        course = self.courses.get(vote.name)
        if course is None or course.state == "running" or sender not in course.awaited:
            return
        if not course.visit(sender).is_of(vote.life):
            return
        course.awaited.remove(sender)
        course.silence = 0
        course.number = vote.number if course.number is None else max(course.number, vote.number)
        if not vote.leaves:
            course.voters.append(sender)
        if not course.awaited:
            self._commit(course, course.number, step)

    def _commit(self, course: Course, number: Number, step: Step) -> None:
        """Decide. Sites that have left need no decision, and if all have there is none."""
        name = course.attempt.name
        if course.voters:
            # This record is the commit of the whole transaction (Gray, 1978; several-sites.md, "The
            # protocol", 3). Told before it is on disk, a crash would let this site presume an abort
            # for the voters that still ask, while others have committed.
            decided = Decided(name, number, tuple(sorted(course.voters)))
            step.log(decided)
            step.journal.decided[name] = decided
            step.out.broadcast(course.voters, Decide(step.clock, name, number))
        self._end(name, Committed(name, number), step)

    def expects_decision(self, name: Name) -> bool:
        """Return whether the only site that took part decides about it, and has yet to say how."""
        course = self.courses.get(name)
        return course is not None and course.alone and course.state != "running"

    def on_decide(self, sender: ProcessId, name: Name, number: Number, step: Step) -> None:
        """Hear of the commit from the only site that took part."""
        self._end(name, Committed(name, number), step)
        if sender != step.me:
            # sometimes: the only site that took part has decided
            step.acknowledge(sender, name)

    def on_acknowledge(self, sender: ProcessId, name: Name, step: Step) -> None:
        """Forget a commit when all sites have it on disk: none of them will ask about it again."""
        journal = step.journal
        decided = journal.decided.get(name)
        if decided is None:
            return
        left = tuple(site for site in decided.sites if site != sender)
        if left:
            journal.decided[name] = Decided(name, decided.number, left)
        else:
            del journal.decided[name]
            # This record may come late, or be lost: after a crash the decision is repeated, and
            # sites acknowledge a commit that they do not remember.
            journal.overdue.append(Ended(name))

    # Silence

    def on_inquire(self, sender: ProcessId, name: Name, step: Step) -> None:
        """Answer what has become of a transaction that began here; an unknown one is aborted.

        Presumed abort: a commit is in the journal until all voters have acknowledged it. So a voter
        that asks about something which is neither there nor under way asks about an abort.
        """
        if name in self.courses:
            # sometimes: a site in doubt asks before the decision
            step.out.send(sender, Pending(step.clock, name))
        else:
            step.out.send(sender, Decide(step.clock, name, step.journal.commit_number(name)))

    def on_pending(self, sender: ProcessId, message: Pending, step: Step) -> None:
        """Take note that a site works on a request, and for which transactions it waits."""
        course = self.courses.get(message.name)
        if course is not None and sender in course.awaited and sender != step.me:
            course.silence = 0
            course.blockers += [other for other in message.others if other not in course.blockers]
            visit = course.visit(sender)
            if course.is_postponed(visit, message.count):
                self._postpone(course, visit, step)

    def _postpone(self, course: Course, visit: Visit, step: Step) -> None:
        """Wait for the writes of a commit first: the only site has to, so it has not decided.

        It will not before it is asked again. So the commit can be called off from here on.
        """
        visit.release()
        course.state, course.is_last, course.request = "running", True, visit.request
        if course.is_unwanted:
            name = course.attempt.name
            # sometimes: a commit is called off while its writes wait
            step.out.broadcast(course.sites, Decide(step.clock, name))
            self._end(name, Refused(name, CALLED_OFF, (), ()), step)

    def remind_sites(self, step: Step) -> None:
        """Ask again for what is missing, and give up where that may be done."""
        self._repeat_decisions(step)
        for name, course in list(self.courses.items()):
            if course.awaited in ([], [step.me]):  # here everything is known: it waits
                continue
            course.silence += 1
            if course.silence == 1:
                continue
            if course.silence <= RINGS_MAX or self.expects_decision(name):
                self._ask_again(course, step)
            else:
                step.out.broadcast(course.sites, Decide(step.clock, name))
                # sometimes: a site does not answer until its transaction is given up
                self._end(name, Refused(name, UNREACHABLE, (), ()), step)

    def _repeat_decisions(self, step: Step) -> None:
        """Tell those again that have waited for their acknowledgements since the last ring.

        A site gathers acknowledgements for a moment, so those of newer ones are on their way.
        """
        journal = step.journal
        for name in self.unacknowledged:
            if name in journal.decided:
                decided = journal.decided[name]
                step.out.broadcast(decided.sites, Decide(step.clock, name, decided.number))
        self.unacknowledged = list(journal.decided)

    def _ask_again(self, course: Course, step: Step) -> None:
        name = course.attempt.name
        if course.state == "running":
            for site in course.awaited:
                self._send_ask(course, course.visit(site), step)
            return
        self._send_prepare(course, step)
        if course.silence > RINGS_MAX and course.state == "voting":
            course.state = "doubted"
            step.out.tell(Doubted(name))
