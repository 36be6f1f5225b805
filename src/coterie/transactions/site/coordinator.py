"""A site as it coordinates the transactions of its own users.

A request goes to the site of its key; a scan to every site that may keep keys of its range. At the
end all sites that were asked have to vote, unless it was one: then this one decides by itself. The
decision to commit is on disk before anybody hears of it. There is no record of an abort: what a
coordinator knows nothing about is aborted.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from coterie.clocks import Stamp
from coterie.errors import MisuseError, Undeclared
from coterie.process import Outbox, ProcessId
from coterie.transactions.conservative.classes import within
from coterie.transactions.scheduler import (
    EVERYTHING,
    Accepted,
    Attempt,
    Committed,
    Declaration,
    Found,
    Listed,
    Name,
    Number,
    Refused,
    Value,
)
from coterie.transactions.site.events import Answered, Doubted
from coterie.transactions.site.keeper import coordinator_of, time_of
from coterie.transactions.site.messages import (
    Acknowledge,
    Ask,
    Decide,
    Message,
    Pending,
    Prepare,
    Read,
    Reply,
    Request,
    Scan,
    Validate,
    Vote,
    Write,
)
from coterie.transactions.site.participant import RINGS_MAX, Participant
from coterie.transactions.site.placement import site_of, sites_of, sites_of_all
from coterie.transactions.site.records import Decided
from coterie.transactions.span import Span

UNREACHABLE = "a site does not answer"


class Visit(msgspec.Struct, array_like=True):
    """A site that a transaction has been to."""

    site: ProcessId
    count: int = 0  # requests sent there


class Course(msgspec.Struct, array_like=True):
    """A transaction of a user here."""

    attempt: Attempt
    visits: list[Visit] = []
    state: Literal["running", "voting", "doubted"] = "running"
    request: Request | None = None  # the last one
    awaited: list[ProcessId] = []  # sites that have not answered it, or not voted
    lists: list[Listed] = []  # parts of the answer to a scan
    voters: list[ProcessId] = []  # sites that wait for the decision
    number: Stamp | None = None  # the largest that was proposed
    silence: int = 0  # rings since anything was heard

    @property
    def sites(self) -> list[ProcessId]:
        """Where it has been, in order."""
        return sorted(visit.site for visit in self.visits)

    @property
    def alone(self) -> bool:
        """Whether one site takes part, and decides."""
        return len(self.visits) == 1

    def visit(self, site: ProcessId) -> Visit:
        """Find the visit to a site, or begin one."""
        for visit in self.visits:
            if visit.site == site:
                return visit
        self.visits.append(Visit(site))
        return self.visits[-1]


class Coordinator(Participant):
    """Runs the transactions of its own users over all sites."""

    courses: dict[Name, Course] = {}

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
        if above is not None:
            self.advance(above.time, out)
        stamp = self.tick(out)
        attempt = Attempt(str(stamp), stamp, age or stamp, failures, declaration)
        course = self.courses[attempt.name] = Course(attempt)
        if self.scheduler.announced:
            spans = (*declaration.reads, *declaration.writes)
            for site in sites_of_all(spans, self.sites):
                self._send_request(course, site, None, out)
        return attempt

    def read(self, name: Name, key: str, out: Outbox[Message], *, update: bool = False) -> None:
        """Read a key; the answer is `Found`."""
        self._ask(name, [site_of(key, self.sites)], Read(key, update), out)

    def scan(self, name: Name, span: Span, limit: int | None, out: Outbox[Message]) -> None:
        """Read the keys of a span, or the first few of them; the answer is `Listed`."""
        self._ask(name, sites_of(span, self.sites), Scan(span, limit), out)

    def write(self, name: Name, key: str, value: Value, out: Outbox[Message]) -> None:
        """Set a key when the transaction commits; the answer is `Accepted`."""
        self._ask(name, [site_of(key, self.sites)], Write(key, value), out)

    def validate(self, name: Name, out: Outbox[Message]) -> None:
        """Make sure that what was read was there at one time; the answer is `Accepted`."""
        course = self._course(name)
        if course.visits:
            self._ask(name, course.sites, Validate(), out)
        else:
            self.answer(Accepted(name), out)

    def commit(self, name: Name, out: Outbox[Message]) -> None:
        """Let it take effect at all sites or at none; the answer is `Committed`."""
        course = self._course(name)
        if not course.visits:
            self._end_course(name, Committed(name, course.attempt.stamp), out)
            return
        course.state, course.silence = "voting", 0
        course.awaited = course.sites
        self._send_prepare(course, out)

    def abort(self, name: Name, out: Outbox[Message]) -> bool:
        """End it without effect; False, and nothing happens, if its commit is being decided."""
        course = self.courses.get(name)
        if course is None:
            return True
        if course.state != "running":
            return False
        del self.courses[name]
        out.broadcast(course.sites, Decide(self.clock, name))
        return True

    def answer(
        self, answer: Found | Listed | Accepted | Committed | Refused, out: Outbox[Message]
    ) -> None:
        """Tell a user how its request has ended."""
        out.tell(Answered(answer))

    # Requests and their answers

    def _course(self, name: Name) -> Course:
        course = self.courses.get(name)
        if course is None:
            raise MisuseError(f"{name} is not under way here: it has not begun, or has ended")
        if course.state != "running" or course.awaited:
            raise MisuseError(f"{name} has a request under way")
        return course

    def _ask(
        self, name: Name, sites: list[ProcessId], request: Request, out: Outbox[Message]
    ) -> None:
        course = self._course(name)
        if self.scheduler.announced:
            insist_on_declared(course.attempt, request)
        course.request, course.awaited, course.silence = request, list(sites), 0
        for site in sites:
            self._send_request(course, site, request, out)

    def _send_request(
        self, course: Course, site: ProcessId, request: Request | None, out: Outbox[Message]
    ) -> None:
        visit = course.visit(site)
        visit.count += 1
        opening = course.attempt if visit.count == 1 else None
        out.send(site, Ask(self.clock, course.attempt.name, visit.count, request, opening))

    def _replied(self, sender: ProcessId, message: Reply, out: Outbox[Message]) -> None:
        course = self.courses.get(message.name)
        if course is None:
            return
        answer = message.answer
        if isinstance(answer, Refused):
            self._refused(course, answer, sender, out)
            return
        running = course.state == "running" and sender in course.awaited
        if not running or message.count != course.visit(sender).count:
            return
        course.awaited.remove(sender)
        course.silence = 0
        if isinstance(answer, Listed):
            course.lists.append(answer)
        if course.awaited:
            return
        if isinstance(course.request, Scan):
            answer = merged(course.lists, course.request)
            course.lists.clear()
        self.answer(answer, out)

    def _refused(
        self, course: Course, refused: Refused, sender: ProcessId, out: Outbox[Message]
    ) -> None:
        """One site cannot, so nobody does."""
        name = course.attempt.name
        others = [site for site in course.sites if site != sender]
        out.broadcast(others, Decide(self.clock, name))
        self._end_course(name, refused, out)

    def _end_course(self, name: Name, answer: Committed | Refused, out: Outbox[Message]) -> None:
        del self.courses[name]
        self.answer(answer, out)

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

    def _heard_of(self, sender: ProcessId, name: Name) -> None:
        """Take note that a site that has to answer works on it, or that its coordinator does."""
        course = self.courses.get(name)
        if course is not None and sender in course.awaited and sender != self.me:
            course.silence = 0
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
                out.send(site, Ask(self.clock, name, visit.count, course.request, opening))
            return
        self._send_prepare(course, out)
        if course.silence > RINGS_MAX and course.state == "voting":
            course.state = "doubted"
            out.tell(Doubted(name))


def insist_on_declared(attempt: Attempt, request: Request) -> None:
    """Refuse a request that was not announced, before any site hears of it."""
    match request:
        case Write(key):
            spans, declared, verb = Span.of(key), attempt.declaration.writes, "write"
        case Read(key):
            spans, declared, verb = Span.of(key), attempt.declaration.reads, "read"
        case Scan(span):
            spans, declared, verb = span, attempt.declaration.reads, "read"
        case Validate():
            return
    if not any(within(spans, span) for span in declared):
        raise Undeclared(f"{attempt.name} has not declared that it may {verb} {spans.low!r}")


def merged(lists: list[Listed], scan: Scan) -> Listed:
    """Put the answers of several sites together, as far as a limit allows."""
    name = lists[0].transaction
    found = sorted((item for part in lists for item in part.items), key=lambda item: item.key)
    if scan.limit is None:
        return Listed(name, tuple(found), scan.span)
    present = 0
    for place, item in enumerate(found, start=1):
        present += item.value is not None
        if present == scan.limit:
            return Listed(name, tuple(found[:place]), scan.span.up_to(item.key))
    return Listed(name, tuple(found), scan.span)
