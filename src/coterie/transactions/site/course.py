"""A transaction as its coordinator sees it: where it has been, and what is still missing."""

from __future__ import annotations

from typing import Literal

import msgspec

from coterie.clocks import Stamp
from coterie.errors import Undeclared
from coterie.process import ProcessId
from coterie.transactions.conservative.classes import within
from coterie.transactions.scheduler import Attempt, Listed
from coterie.transactions.site.messages import Read, Request, Scan, Validate, Write
from coterie.transactions.span import Span


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
