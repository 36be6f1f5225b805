"""A transaction as its coordinator sees it: where it has been, and what is still missing."""

from __future__ import annotations

from typing import Literal

import msgspec

from coterie.clocks import Stamp
from coterie.errors import Undeclared, UsageError
from coterie.process import ProcessId
from coterie.transactions.schemes.conservative.classes import within
from coterie.transactions.schemes.scheduler import (
    EVERYTHING,
    Attempt,
    Declaration,
    Listed,
    Name,
    Value,
)
from coterie.transactions.schemes.span import Span
from coterie.transactions.site.messages import More, Read, Request, Scan, Validate, Write

DECLARED_BYTES_MAX = 1 << 20  # it goes to every site that it concerns, and to disk with each vote
WRITTEN_BYTES_MAX = 1 << 26  # by one transaction: a site does nothing else while they go to disk


class Visit(msgspec.Struct, array_like=True):
    """A site that a transaction has been to."""

    site: ProcessId
    count: int = 0  # requests sent there
    request: Request | None = None  # the last of them


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
    blockers: list[Name] = []  # for whom other sites have said that the request waits
    sizes: dict[str, int] = {}  # of what it writes, by key, in bytes
    written: int = 0  # the sum of them

    @property
    def sites(self) -> list[ProcessId]:
        """Where it has been, in order."""
        return sorted(visit.site for visit in self.visits)

    def is_decided_by(self, site: ProcessId) -> bool:
        """Tell whether it is that site which decides about its commit, now or any time."""
        return self.state == "running" or not self.alone or self.visits[0].site == site

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

    def weigh(self, key: str, value: Value) -> None:
        """Refuse a write that makes it too large, before any site hears of it."""
        size = len(key.encode()) + len(value or b"")
        written = self.written + size - self.sizes.get(key, 0)
        if written > WRITTEN_BYTES_MAX:
            raise UsageError(
                f"{self.attempt.name} cannot write {key!r:.99}: with it the keys and values that it"
                f" writes take {written:,} bytes, and {WRITTEN_BYTES_MAX:,} are the most that goes to"
                " disk at once: use several transactions"
            )
        self.written, self.sizes[key] = written, size


def insist_on_size(declaration: Declaration) -> None:
    """Refuse to announce more than a message may carry."""
    if declaration is EVERYTHING:
        return
    spans = (*declaration.reads, *declaration.writes)
    size = sum(len(span.low.encode()) + len((span.high or "").encode()) for span in spans)
    if size > DECLARED_BYTES_MAX:
        raise UsageError(
            f"a transaction that declares {len(spans):,} keys and spans of {size:,} bytes in all"
            f" cannot be announced, and {DECLARED_BYTES_MAX:,} are the most: declare spans that"
            " cover many keys"
        )


def insist_on_declared(attempt: Attempt, request: Request) -> None:
    """Refuse a request that was not announced, before any site hears of it."""
    match request:
        case Write(key):
            spans, declared, verb = Span.of(key), attempt.declaration.writes, "write"
        case Read(key):
            spans, declared, verb = Span.of(key), attempt.declaration.reads, "read"
        case Scan(span):
            spans, declared, verb = span, attempt.declaration.reads, "read"
        case More() | Validate():
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
