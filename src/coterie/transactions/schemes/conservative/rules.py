"""Conservative timestamp ordering: wait until nothing older can come, and refuse nothing.

Every transaction declares in advance what it may read and write, and begins in the order of stamps
at each site that it may come to. A request is granted when all older transactions that it conflicts
with are through with what they declared, and no site can begin another of those: each has begun
something larger since, or has promised to. So conflicts take effect in the order of stamps.

Reads wait for older writes; writes, which are made when the transaction commits, wait in `prepare`
for older reads and writes. Waits go from larger stamps to smaller ones, so there is no deadlock.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, ClassVar

import msgspec

from coterie.clocks import Stamp
from coterie.errors import ConfigError, ProtocolError, Undeclared
from coterie.transactions.schemes.conservative.classes import ANY, disturbs, fits, within
from coterie.transactions.schemes.newest import Newest
from coterie.transactions.schemes.scheduler import (
    BEGINNING,
    EVERYTHING,
    Accepted,
    Active,
    Answer,
    Attempt,
    Committed,
    Declaration,
    Item,
    Name,
    Number,
    Prepared,
    Scheduler,
    Value,
)
from coterie.transactions.schemes.span import Span

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

FOREVER = Stamp(sys.maxsize, 0)  # the promise of a site at which no transaction will begin any more


class Request(msgspec.Struct, frozen=True, array_like=True):
    """A read, a scan or a prepare, as it is kept while it waits."""

    spans: tuple[Span, ...]  # what it concerns
    key: str | None = None  # of a read
    limit: int | None = None  # of a scan
    writing: bool = False  # prepare: the spans are what will be written


class Conservative(Scheduler):
    """Grants requests in the order of stamps, as far as they conflict."""

    name: ClassVar[str] = "conservative"
    announced: ClassVar[bool] = True

    sites: int = 1  # each is a source of transactions
    analysed: bool = True  # else everything is taken to conflict with everything
    classes: tuple[tuple[Declaration, ...], ...] = ()  # that each site may begin; none: any

    promises: list[Stamp] = []  # of each site: what begins there from now on is larger
    newest: Newest = msgspec.field(default_factory=Newest)
    waiting: dict[Name, Request] = {}

    def __post_init__(self) -> None:
        """Begin without a promise of any site."""
        if self.classes and len(self.classes) != self.sites:
            raise ConfigError(f"classes are given for {len(self.classes)} sites of {self.sites}")
        self.promises = self.promises or [BEGINNING] * self.sites

    # Sources of transactions

    def begin(self, attempt: Attempt, out: list[Answer]) -> None:
        """Take the place among the others; that is a promise too, as stamps come in order."""
        source = attempt.stamp.process
        promise = self._promise_of(source)
        if not attempt.stamp > promise:
            raise ProtocolError(
                f"{attempt.name} has begun at site {source} with stamp {attempt.stamp}, "
                f"though nothing up to {promise} was to begin there any more"
            )
        if not self.analysed:
            attempt = msgspec.structs.replace(attempt, declaration=EVERYTHING)
        elif self.classes and not self._belongs(attempt.declaration, source):
            raise Undeclared(
                f"{attempt.name} fits no class of transactions that site {source} may begin: "
                "declare less, or give the site a class for it"
            )
        super().begin(attempt, out)
        self.promises[source - 1] = attempt.stamp
        if self.sites > 1:  # a request may have waited for a word of that site
            self._go_on(out)

    def promise(self, source: int, stamp: Stamp, out: list[Answer]) -> None:
        """Learn that what begins at that site from now on is larger; `FOREVER` closes it."""
        promise = self._promise_of(source)
        if stamp < promise:
            raise ProtocolError(
                f"site {source} promises to begin nothing up to {stamp}, "
                f"which is less than it has promised before: {promise}"
            )
        self.promises[source - 1] = stamp
        self._go_on(out)

    def _promise_of(self, source: int) -> Stamp:
        if not 1 <= source <= self.sites:
            raise ProtocolError(f"there is no site {source}: sites are numbered 1 to {self.sites}")
        return self.promises[source - 1]

    def _belongs(self, declared: Declaration, source: int) -> bool:
        return any(fits(declared, of) for of in self._classes_of(source))

    def _classes_of(self, source: int) -> tuple[Declaration, ...]:
        return self.classes[source - 1] if self.classes else ANY

    # Requests

    def _read(self, active: Active, key: str, update: bool, out: list[Answer]) -> None:
        span = Span.of(key)
        self._insist(active, span, active.attempt.declaration.reads, "read")
        self._ask(active, Request((span,), key), out)

    def _scan(self, active: Active, span: Span, limit: int | None, out: list[Answer]) -> None:
        self._insist(active, span, active.attempt.declaration.reads, "read")
        self._ask(active, Request((span,), limit=limit), out)

    def _write(self, active: Active, key: str, value: Value, out: list[Answer]) -> None:
        self._insist(active, Span.of(key), active.attempt.declaration.writes, "write")
        active.writes[key] = value
        out.append(Accepted(active.attempt.name))

    def _prepare(self, active: Active, out: list[Answer]) -> None:
        self._ask(active, Request(tuple(map(Span.of, active.writes)), writing=True), out)
        if active.prepared:  # others may have waited for its reads
            self._go_on(out)

    def _insist(self, active: Active, span: Span, declared: Iterable[Span], verb: str) -> None:
        if not any(within(span, other) for other in declared):
            raise Undeclared(
                f"{active.attempt.name} has not declared that it may {verb} {_keys_of(span)}"
            )

    # Rules

    def _ask(self, active: Active, request: Request, out: list[Answer]) -> None:
        unheard = self._unheard(active.attempt.stamp, request.spans, request.writing)
        if unheard or next(self._ahead(active, request), None) is not None:
            self.waiting[active.attempt.name] = request
        else:
            self._grant(active, request, out)

    def _unheard(self, stamp: Stamp, spans: Sequence[Span], writing: bool) -> list[int]:
        """Name the sites that could still begin something older which has to come first."""
        return [
            source
            for source, promise in enumerate(self.promises, start=1)
            if promise < stamp
            and any(disturbs(declared, spans, writing) for declared in self._classes_of(source))
        ]

    def _ahead(self, active: Active, request: Request) -> Iterator[Name]:
        """Name the older transactions that the request has to wait for."""
        stamp = active.attempt.stamp
        for name, other in self.active.items():
            if other.attempt.stamp < stamp and has_to_come_first(other, request):
                yield name

    def _go_on(self, out: list[Answer]) -> None:
        """Grant what nothing stands in the way of any more.

        In the order of stamps, since one that goes on can be in the way of larger ones only.
        """
        if not self.waiting:
            return
        waiting, self.waiting = self.waiting, {}
        for name in sorted(waiting, key=lambda name: self.active[name].attempt.stamp):
            self._ask(self.active[name], waiting[name], out)

    def _grant(self, active: Active, request: Request, out: list[Answer]) -> None:
        name = active.attempt.name
        if request.writing:
            active.prepared = True
            out.append(Prepared(name, active.attempt.stamp, active.writes))
        elif request.key is not None:
            out.append(self.newest.read(name, request.key))
        else:
            [span] = request.spans
            out.append(self.newest.scan(active, span, request.limit))

    # Ends

    def _commit(self, active: Active, number: Number, out: list[Answer]) -> None:
        stamp = active.attempt.stamp
        # All older ones are through with these keys, so this version is the newest.
        self.newest.install(active.writes, stamp)
        out.append(Committed(active.attempt.name, stamp))
        self._go_on(out)

    def _abort(self, active: Active, out: list[Answer]) -> None:
        self.waiting.pop(active.attempt.name, None)
        self._go_on(out)

    # What others may know

    def waits(self) -> dict[Name, tuple[Name, ...]]:
        """Return which older ones each waits for: none, if it waits for promises alone."""
        return {name: tuple(self._ahead(self.active[name], r)) for name, r in self.waiting.items()}

    def awaited(self) -> tuple[tuple[int, Stamp], ...]:
        """Return the sites on whose promise a request waits, and the stamp it has to reach."""
        largest: dict[int, Stamp] = {}
        for name, request in self.waiting.items():
            stamp = self.active[name].attempt.stamp
            for source in self._unheard(stamp, request.spans, request.writing):
                largest[source] = max(stamp, largest.get(source, stamp))
        return tuple(sorted(largest.items()))

    # What is kept

    def latest(self) -> Iterator[tuple[str, Item]]:
        """Walk the newest committed version of every key, deleted ones included, in order."""
        yield from self.newest

    def restore(self, items: Iterable[tuple[str, Item]], now: Stamp) -> None:
        """Begin with these versions; whatever begins from now on has a stamp above `now`."""
        past = max(now, self.newest.restore(items))
        self.promises = [max(promise, past) for promise in self.promises]

    def _reinstate(self, active: Active, number: Number, reads: tuple[Span, ...]) -> None:
        pass  # it is prepared, and its writes are all that others wait for


def has_to_come_first(other: Active, request: Request) -> bool:
    """Return whether an older transaction is not through with what a request concerns."""
    if other.prepared:  # it will read nothing more, and what it writes is certain
        return any(key in span for key in other.writes for span in request.spans)
    return disturbs(other.attempt.declaration, request.spans, request.writing)


def _keys_of(span: Span) -> str:
    if span == Span.of(span.low):
        return repr(span.low)
    return f"all from {span.low!r} on" + (f" up to {span.high!r}" if span.high else "")
