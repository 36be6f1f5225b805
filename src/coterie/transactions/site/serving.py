"""The requests of transactions, at the site of their keys.

Each is carried out once, however often it comes, and none is left out. What a scan has found goes to
another site in parts, each when it is asked for. A site that has forgotten a transaction says so, and
it may end any that has not been voted on.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

import msgspec

from coterie.errors import ProtocolError
from coterie.transactions.schemes.scheduler import (
    Accepted,
    Answer,
    Attempt,
    Committed,
    Found,
    Listed,
    Name,
    Prepared,
    Refused,
)
from coterie.transactions.site.chunks import divided
from coterie.transactions.site.keeper import Keeper, coordinator_of
from coterie.transactions.site.messages import (
    Ask,
    Message,
    More,
    Pending,
    Read,
    Reply,
    Scan,
    Validate,
    Write,
)

if TYPE_CHECKING:
    from coterie.process import Outbox, ProcessId

FORGOTTEN = "the site has forgotten it"
STALE = "what it has read was written since"

ENDED_MAX = 1000  # remembered, to help others out of doubt


class Part(msgspec.Struct, array_like=True):
    """A transaction at one site."""

    attempt: Attempt
    count: int = 0  # requests so far
    reply: Found | Listed | Accepted | None = None  # to the last one; None while it waits
    rest: Listed | None = None  # of the answer to a scan, what has not been asked for yet
    sites: tuple[int, ...] = ()  # that take part, once it is to be prepared
    silence: int = 0  # rings since anything was heard of it


class Serving(Keeper):
    """Carries out what transactions ask for, wherever they began."""

    parts: dict[Name, Part] = {}
    ended: dict[Name, bool] = {}  # here, the last ones; True: without a vote, so they are aborted

    def start(self, out: Outbox[Message]) -> None:
        """Begin with those in doubt."""
        super().start(out)
        for name, ready in self.ready.items():
            self.parts[name] = Part(ready.attempt, sites=ready.sites, silence=1)

    # Requests

    def _asked(self, sender: ProcessId, message: Ask, out: Outbox[Message]) -> None:
        name, count, opening = message.name, message.count, message.opening
        part = self.parts.get(name)
        answers: list[Answer] = []
        if part is None:
            if opening is None or name in self.ended or not self._admits(opening):
                self._reply(name, count, Refused(name, FORGOTTEN, (), ()), sender, out)
                return
            part = self.parts[name] = Part(opening)
            self.scheduler.begin(opening, answers)
        elif count <= part.count or name in self.ready:
            self._repeat(part, sender, out)
            return
        elif count > part.count + 1:  # one in between is lost
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
            case More():
                answers.append(self._left_over(name))
            case Write(key, value):
                self.scheduler.write(name, key, value, answers)
            case Validate():
                if self.scheduler.valid(name):
                    answers.append(Accepted(name))
                else:
                    self.scheduler.refuse(name, STALE, (), (), answers)
            case None:
                pass

    def _left_over(self, name: Name) -> Listed:
        rest = self.parts[name].rest
        if rest is None:
            raise ProtocolError(f"{name} asks for more of a scan that has nothing more")
        return rest

    def _repeat(self, part: Part, sender: ProcessId, out: Outbox[Message]) -> None:
        """Answer again: the request, or the answer to it, may have been lost."""
        name = part.attempt.name
        if part.reply is None:
            out.send(sender, Pending(self.clock, name, self._blockers(name)))
        else:
            more = part.rest is not None
            self._reply(name, part.count, part.reply, sender, out, more=more)

    def _blockers(self, name: Name) -> tuple[Name, ...]:
        waits: dict[Name, tuple[Name, ...]] = self.scheduler.waits()
        return waits.get(name, ())

    def _reply(
        self,
        name: Name,
        count: int,
        answer: Found | Listed | Accepted | Refused,
        coordinator: ProcessId,
        out: Outbox[Message],
        *,
        more: bool = False,
    ) -> None:
        out.send(coordinator, Reply(self.clock, name, count, answer, more))

    def _pass_on(self, answers: list[Answer], out: Outbox[Message]) -> None:
        """Send each answer to whoever coordinates its transaction; some make more answers."""
        for answer in answers:
            name = answer.transaction
            match answer:
                case Listed():
                    self._hand_out(self.parts[name], answer, out)
                case Found() | Accepted():
                    part = self.parts[name]
                    part.reply = answer
                    self._reply(name, part.count, answer, coordinator_of(name), out)
                case Prepared():
                    self._vote(self.parts[name], answer, answers, out)
                case Refused():
                    count = self.parts[name].count
                    self._end(name, aborted=True)
                    self._reply(name, count, answer, coordinator_of(name), out)
                case Committed():
                    pass

    def _hand_out(self, part: Part, listed: Listed, out: Outbox[Message]) -> None:
        """Send what a scan has found as far as a message may carry it, or to ourselves all of it."""
        name = part.attempt.name
        coordinator = coordinator_of(name)
        first, part.rest = (listed, None) if coordinator == self.me else divided(listed)
        part.reply = first
        more = part.rest is not None
        self._reply(name, part.count, first, coordinator, out, more=more)

    @abstractmethod
    def _vote(
        self, part: Part, prepared: Prepared, answers: list[Answer], out: Outbox[Message]
    ) -> None: ...

    def _give_up(self, name: Name, rule: str, out: Outbox[Message]) -> None:
        """End a transaction before its vote, so that a late prepare finds nothing to vote for."""
        answers: list[Answer] = []
        self.scheduler.refuse(name, rule, (), (), answers)
        self._pass_on(answers, out)

    def _end(self, name: Name, *, aborted: bool) -> None:
        """Forget a transaction, but not so soon that it could begin here once more."""
        del self.parts[name]
        self.ended[name] = aborted
        if len(self.ended) > ENDED_MAX:
            del self.ended[next(iter(self.ended))]
