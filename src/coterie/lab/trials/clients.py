"""A site with clients: each runs transactions one after the other, by scripts, and tries again.

They live in the process of their site and act by its timers. So whatever runs processes runs them
too: the simulator, the explorer, and a test that crashes the site after every message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

import msgspec

from coterie.clocks import Stamp
from coterie.lab.trials.trial import Program, Request, declaration
from coterie.process import Event
from coterie.transactions.schemes.scheduler import Attempt, Committed, Name, Refused, Value
from coterie.transactions.site.site import Site

if TYPE_CHECKING:
    from coterie.process import Outbox
    from coterie.transactions.site.events import UserAnswer
    from coterie.transactions.site.messages import Message

CLIENT = "client "  # has thought, or rested
SERVED = "served "  # the site has done the work of its request


class Began(Event, frozen=True):
    """A client has begun an attempt."""

    transaction: Name
    failures: int


class Wrote(Event, frozen=True):
    """A client has asked to write this."""

    transaction: Name
    key: str
    value: Value


class Finished(Event, frozen=True):
    """A transaction of a client has committed, after that many failures and seconds."""

    transaction: Name
    failures: int
    seconds: float  # since its first attempt
    waited: float  # of them for answers to its last attempt


class Client(msgspec.Struct, array_like=True):
    """Runs programs in turn; each until it commits, or aborts because its script says so."""

    programs: tuple[Program, ...]
    left: int  # transactions to run; negative: no end
    turn: int = 0  # which program is next
    step: int = 0  # which of its requests is next
    attempt: Attempt | None = None  # under way
    age: Stamp | None = None  # of the transaction, if it has been refused before
    above: Stamp | None = None  # what its next stamp has to exceed
    failures: int = 0
    began: float = 0.0  # its first attempt
    asked: float = 0.0  # the last request
    waited: float = 0.0  # of this attempt

    @property
    def program(self) -> Program:
        """The program that it runs."""
        return self.programs[self.turn % len(self.programs)]

    def go_on(self) -> None:
        """Turn to the next program."""
        self.turn += 1
        self.left -= 1
        self.attempt = self.age = self.above = None
        self.failures = 0


class BusySite(Site):
    """A site with clients."""

    clients: list[Client] = []
    think: float = 0.0  # between the answer to one request and the next one
    rest: float = 0.0  # between two transactions
    backoff: float = 1.0  # before the second attempt; it doubles, and varies by the attempt
    tries: int | None = None  # the number of refusals after which a client gives its transaction up
    work: float = 0.0  # for which a request of its own clients keeps the site busy
    free: float = 0.0  # when it has done what it has to do so far

    def start(self, out: Outbox[Message]) -> None:
        """Let all clients begin."""
        super().start(out)
        for place, client in enumerate(self.clients):
            if client.left:
                out.set_timer(f"{CLIENT}{place}", self.rest)

    def ring(self, timer: str, out: Outbox[Message]) -> None:
        """Let a client go on, or the site."""
        if timer.startswith(CLIENT):
            self._serve(timer.removeprefix(CLIENT), out)
        elif timer.startswith(SERVED):
            self._go_on(self.clients[int(timer.removeprefix(SERVED))], out)
        else:
            super().ring(timer, out)

    def _serve(self, place: str, out: Outbox[Message]) -> None:
        """Let a client make its request when the site has done all that came before."""
        if not self.work:
            self._go_on(self.clients[int(place)], out)
            return
        self.free = max(self.free, out.now) + self.work
        out.set_timer(f"{SERVED}{place}", self.free - out.now)

    def _go_on(self, client: Client, out: Outbox[Message]) -> None:
        if client.attempt is None:
            self._begin(client, out)
        assert client.attempt is not None, "it has begun"
        client.asked = out.now
        name = client.attempt.name
        if client.step == len(client.program):
            self.commit(name, out)
            return
        request = client.program[client.step]
        client.step += 1
        self._request(client, name, request, out)

    def _begin(self, client: Client, out: Outbox[Message]) -> None:
        if not client.failures:
            client.began = out.now
        client.step, client.waited = 0, 0.0
        declared = declaration(client.program)
        client.attempt = self.begin(
            out, declared, age=client.age, failures=client.failures, above=client.above
        )
        client.age = client.attempt.age
        out.tell(Began(client.attempt.name, client.failures))

    def _request(self, client: Client, name: Name, request: Request, out: Outbox[Message]) -> None:
        match request.op:
            case "r" | "u":
                self.read(name, request.key, out, update=request.op == "u")
            case "s":
                self.scan(name, request.span, None, out)
            case "a":
                self.abort(name, out)
                client.go_on()
                self._rest(client, out)
            case _:
                value = None if request.op == "d" else f"{name}/{client.step}".encode()
                out.tell(Wrote(name, request.key, value))
                self.write(name, request.key, value, out)

    def answer(self, answer: UserAnswer, out: Outbox[Message]) -> None:
        """Let the client go on when it has thought about the answer."""
        super().answer(answer, out)
        for place, client in enumerate(self.clients):
            if client.attempt is not None and client.attempt.name == answer.transaction:
                client.waited += out.now - client.asked
                self._react(place, client, answer, out)

    def _react(self, place: int, client: Client, answer: UserAnswer, out: Outbox[Message]) -> None:
        if isinstance(answer, Refused):
            self._fail(place, client, answer, out)
        elif isinstance(answer, Committed):
            seconds = out.now - client.began
            out.tell(Finished(answer.transaction, client.failures, seconds, client.waited))
            client.go_on()
            self._rest(client, out)
        elif self.think or self.work:
            out.set_timer(f"{CLIENT}{place}", self.think)
        else:
            self._go_on(client, out)

    def _fail(self, place: int, client: Client, refused: Refused, out: Outbox[Message]) -> None:
        pause = self._pause(client)
        out.cancel_timer(f"{SERVED}{place}")  # it may have been refused before its next request
        client.above, client.attempt = refused.above, None
        client.failures += 1
        if client.failures == self.tries:
            client.go_on()
            self._rest(client, out)
        else:
            out.set_timer(f"{CLIENT}{place}", pause)

    def _rest(self, client: Client, out: Outbox[Message]) -> None:
        if client.left:
            out.set_timer(f"{CLIENT}{self.clients.index(client)}", self.rest)

    def _pause(self, client: Client) -> float:
        """Return a pause that grows with each failure, and differs from those of its rivals."""
        assert client.attempt is not None, "it was refused"
        share = crc32(client.attempt.name.encode()) % 1000 / 1000
        return self.backoff * (0.5 + share) * 2.0 ** min(client.failures, 6)
