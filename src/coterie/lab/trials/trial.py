"""A scheduler on trial: scripted transactions run against it one request at a time.

The caller makes the moves and so decides the interleaving: by hand in a test, at random, or all of
them in `explore`. Everything that happens is recorded as a history, in which the checkers have the last
word. A trial is a value, so it can be copied and continued in two ways.

Transactions are written as in the literature: `r(x)` reads, `u(x)` reads on the way to writing,
`w(x)` writes, `d(x)` deletes, `s(a,m)` scans from a up to m, and `a` aborts instead of committing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import msgspec

from coterie.clocks import Stamp
from coterie.errors import UsageError
from coterie.transactions.history import History, HistoryEvent
from coterie.transactions.schemes.scheduler import (
    BEGINNING,
    Accepted,
    Answer,
    Attempt,
    Committed,
    Declaration,
    Found,
    Listed,
    Prepared,
    Refused,
)
from coterie.transactions.schemes.span import Span

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Program: TypeAlias = tuple["Request", ...]

_REQUEST = re.compile(r"([ruwd])\((\w+)\)|(s)\((\w*),(\w*)\)|(a)")


class Request(msgspec.Struct, frozen=True, array_like=True):
    """One request of a script."""

    op: str  # one of r, u, w, d, s, a
    key: str = ""  # of a scan: where it begins
    end: str = ""  # of a scan: where it ends; empty is no end

    @property
    def span(self) -> Span:
        """What a scan covers."""
        return Span(self.key, self.end or None)


def program(text: str) -> Program:
    """Read a transaction as the literature writes it."""
    requests = []
    for part in text.split():
        match = _REQUEST.fullmatch(part)
        if match is None:
            raise UsageError(f"{part!r} is not one of r(x), u(x), w(x), d(x), s(a,m), a")
        op, key, scan, low, high, stop = match.groups()
        requests.append(Request(op or scan or stop, key or low or "", high or ""))
    return tuple(requests)


def declaration(script: Program) -> Declaration:
    """Declare exactly what a script does."""
    reads = [r.span if r.op == "s" else Span.of(r.key) for r in script if r.op in "rus"]
    writes = [Span.of(r.key) for r in script if r.op in "uwd"]
    return Declaration(tuple(reads), tuple(writes))


class Doing(msgspec.Struct, frozen=True, array_like=True):
    """Something that a transaction did, as the history will show it."""

    time: int
    op: str
    key: str | None = None
    value: str | None = None
    number: Stamp | None = None  # of the version that was read


class Runner(msgspec.Struct, array_like=True):
    """One transaction of a trial: how far it is, and what it did."""

    attempt: Attempt
    script: Program
    next: int = 0  # the request to make
    waiting: bool = False  # for the answer to the one before
    state: str = "new"  # then running, prepared, committed, aborted or refused
    number: Stamp | None = None  # of its commit, proposed or taken
    doings: list[Doing] = []
    refusal: Refused | None = None

    @property
    def over(self) -> bool:
        """Whether nothing more will come of it."""
        return self.state in ("committed", "aborted", "refused")


class Trial(msgspec.Struct, array_like=True):
    """A scheduler, the transactions that run against it, and what has happened so far."""

    scheduler: Any  # a Scheduler of any scheme
    universe: tuple[str, ...]  # all keys: a scan sees the absence of those that it does not list
    runners: dict[str, Runner] = {}
    clock: int = 0  # counts moves

    def add(
        self, name: str, stamp: int, script: str, *, age: int | None = None, failures: int = 0
    ) -> None:
        """Bring in a transaction; it begins with its first move."""
        requests = program(script)
        first = stamp if age is None else age
        declared = declaration(requests)
        attempt = Attempt(name, Stamp(stamp, 1), Stamp(first, 1), failures, declared)
        self.runners[name] = Runner(attempt, requests)

    def copy(self) -> Self:
        """Make another trial that goes its own way from here."""
        scheduler = self.scheduler
        twin = msgspec.convert(msgspec.to_builtins(self), type=type(self))
        twin.scheduler = msgspec.convert(msgspec.to_builtins(scheduler), type=type(scheduler))
        return twin

    def movable(self) -> list[str]:
        """Name the transactions that can make a move: not ended, and not waiting."""
        return [n for n, runner in self.runners.items() if not runner.over and not runner.waiting]

    def waiting(self) -> list[str]:
        """Name the transactions whose request has no answer yet."""
        return [n for n, runner in self.runners.items() if runner.waiting]

    def move(self, name: str) -> list[Answer]:
        """Let a transaction make its next request; return all answers that came of it."""
        runner = self.runners[name]
        assert not runner.over, f"{name} is {runner.state}"
        assert not runner.waiting, f"{name} waits"
        self.clock += 1
        out: list[Answer] = []
        if runner.state == "new":
            self.begin(name)
        runner.waiting = True
        self._request(runner, out)
        self._hear(out)
        return out

    def begin(self, name: str) -> None:
        """Let a transaction begin before its first move, where the order of beginnings matters."""
        runner, out = self.runners[name], list[Answer]()
        runner.state = "running"
        self.scheduler.begin(runner.attempt, out)
        self._hear(out)

    def abort(self, name: str) -> None:
        """Let the user of a transaction abort it, wherever it stands."""
        self.clock += 1
        runner, out = self.runners[name], list[Answer]()
        if runner.state != "new":
            self.scheduler.abort(name, out)
        self._end(runner, "aborted")
        self._hear(out)

    def history(self) -> History:
        """Return what the transactions did, for the checkers."""
        history = History()
        numbers = {runner.number for runner in self.runners.values()}
        for name, runner in self.runners.items():
            own = runner.number or runner.attempt.stamp  # a write that was given up has no number,
            if runner.number is None and own in numbers:  # and must not be taken for another's
                own = Stamp(own.time, -own.process)
            for doing in runner.doings:
                version = own if doing.op == "write" else doing.number
                event = HistoryEvent(name, doing.op, doing.key, doing.value, version)
                history.add(event, doing.time)
        return history

    def _request(self, runner: Runner, out: list[Answer]) -> None:
        name, scheduler = runner.attempt.name, self.scheduler
        if runner.state == "prepared":
            scheduler.commit(name, runner.number, out)
        elif runner.next == len(runner.script):
            scheduler.prepare(name, out)
        else:
            request = runner.script[runner.next]
            runner.next += 1
            self._access(runner, request, out)

    def _access(self, runner: Runner, request: Request, out: list[Answer]) -> None:
        name, scheduler = runner.attempt.name, self.scheduler
        match request.op:
            case "r" | "u":
                scheduler.read(name, request.key, out, update=request.op == "u")
            case "w" | "d":
                value = None if request.op == "d" else f"{name}/{runner.next}"
                runner.doings.append(Doing(self.clock, "write", request.key, value))
                scheduler.write(name, request.key, None if value is None else value.encode(), out)
            case "s":
                scheduler.scan(name, request.span, None, out)
            case _:
                scheduler.abort(name, out)
                self._end(runner, "aborted")

    def _hear(self, answers: Sequence[Answer]) -> None:
        for answer in answers:
            runner = self.runners[answer.transaction]
            assert not runner.over, f"{answer} came after its end"
            runner.waiting = False
            match answer:
                case Found():
                    self._see(runner, answer)
                case Listed(_, items, covered):
                    self._look_through(runner, items, covered)
                case Accepted():
                    pass
                case Prepared(_, number):
                    runner.state, runner.number = "prepared", number
                case Committed(_, number):
                    runner.number = number
                    self._end(runner, "committed")
                case Refused():
                    runner.refusal = answer
                    self._end(runner, "refused")

    def _see(self, runner: Runner, found: Found) -> None:
        value = None if found.value is None else found.value.decode()
        own = any(doing.op == "write" and doing.key == found.key for doing in runner.doings)
        number = None if own else found.number or BEGINNING
        runner.doings.append(Doing(self.clock, "read", found.key, value, number))

    def _look_through(self, runner: Runner, items: Sequence[Found], covered: Span) -> None:
        listed = {found.key for found in items}
        for found in items:
            self._see(runner, found)
        for key in self.universe:
            if key in covered and key not in listed:
                runner.doings.append(Doing(self.clock, "read", key, None, BEGINNING))

    def _end(self, runner: Runner, state: str) -> None:
        runner.state, runner.waiting = state, False
        op = "commit" if state == "committed" else "abort"
        if runner.doings:
            runner.doings.append(Doing(self.clock, op))


def explore(trial: Trial) -> Iterator[Trial]:
    """Make all moves in all orders; yield every trial in which no transaction can move.

    If one waits in it, that wait never ends.
    """
    names = trial.movable()
    if not names:
        yield trial
    for name in names:
        twin = trial.copy() if name != names[-1] else trial
        twin.move(name)
        yield from explore(twin)
