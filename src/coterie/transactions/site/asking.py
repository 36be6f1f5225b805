"""The requests of a site's own users, and who answers them.

A request goes to the site of its key; a scan to every site that may keep keys of its range. A refusal
by one site ends the transaction at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.errors import MisuseError
from coterie.transactions.schemes.scheduler import (
    EVERYTHING,
    Accepted,
    Attempt,
    Committed,
    Found,
    Listed,
    Name,
    Refused,
)
from coterie.transactions.site.course import (
    Course,
    insist_on_declared,
    insist_on_size,
    merged,
)
from coterie.transactions.site.events import Answered
from coterie.transactions.site.messages import (
    Ask,
    Decide,
    Message,
    More,
    Read,
    Reply,
    Request,
    Scan,
    Validate,
    Write,
)
from coterie.transactions.site.participant import Participant
from coterie.transactions.site.placement import site_of, sites_of, sites_of_all

if TYPE_CHECKING:
    from coterie.clocks import Stamp
    from coterie.process import Outbox, ProcessId
    from coterie.transactions.schemes.scheduler import Declaration, Value
    from coterie.transactions.schemes.span import Span


class Asking(Participant):
    """Passes the requests of its users on, and their answers back."""

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
        insist_on_size(declaration)
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

    def abort(self, name: Name, out: Outbox[Message]) -> bool:
        """End it without effect; False, and nothing happens, if another site decides about it.

        Until the decision the coordinator may abort, whoever has voted (presumed abort).
        """
        course = self.courses.get(name)
        if course is None:
            return True
        if not course.is_decided_by(self.me):
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
        if isinstance(request, Write):
            course.weigh(request.key, request.value)
        course.request, course.awaited, course.silence = request, list(sites), 0
        course.blockers.clear()
        for site in sites:
            self._send_request(course, site, request, out)

    def _send_request(
        self, course: Course, site: ProcessId, request: Request | None, out: Outbox[Message]
    ) -> None:
        visit = course.visit(site)
        visit.count += 1
        visit.request = request
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
        course.silence = 0
        if isinstance(answer, Listed):
            course.lists.append(answer)
            if message.more:
                self._send_request(course, sender, More(), out)
                return
        course.awaited.remove(sender)
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
