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
from coterie.transactions.site.messages import (
    More,
    Read,
    Reply,
    Request,
    Scan,
    Validate,
    Write,
)

DECLARED_BYTES_MAX = 1 << 20  # it goes to every site that it concerns, and to disk with each vote
HELD_BYTES_MAX = 1 << 16  # of writes for one site; they share a message with a value of any size
WRITE_BYTES = (
    16  # of each write that is held, besides its key and value: many small ones are long, too
)
WRITTEN_BYTES_MAX = 1 << 26  # by one transaction: a site does nothing else while they go to disk


class Visit(msgspec.Struct, array_like=True):
    """A site that a transaction has been to."""

    site: ProcessId
    count: int = 0  # requests made there
    request: Request | None = None  # the last of them that was sent
    life: int | None = None  # of the site, in which it has answered; None: it has not yet
    read: set[str] = set()  # keys that were read there
    scanned: bool = False  # ranges were read there
    updated: set[str] = set()  # keys that were read there for update
    held: list[Write] = []  # writes of these, which travel with the next message
    held_bytes: int = 0
    writes: tuple[Write, ...] = ()  # that went with the last request

    def is_of(self, life: int) -> bool:
        """Return whether all that the transaction knows from the site is of that life of it."""
        return self.life in (None, life)

    def holds(self, write: Write) -> bool:
        """Hold a write back, and return True; False if it has to be sent.

        One that has read a key for update keeps other writers away from it, so it need not hear at
        once that it may write there. Whether it may, it hears at the end at the latest.
        """
        if write.key not in self.updated:
            return False
        size = self.held_bytes + WRITE_BYTES + size_of(write.key, write.value)
        if size > HELD_BYTES_MAX:
            return False
        self.held.append(write)
        self.held_bytes = size
        self.count += 1
        return True

    def release(self) -> None:
        """Make requests of the writes that were held back: the site has them, and they wait there."""
        self.request = self.held.pop()
        self.writes, self.held_bytes = tuple(self.held), 0
        self.held.clear()

    def send(self, request: Request | None) -> None:
        """Make a request, which takes along what was held back."""
        self.count += 1
        self.request = request
        self.writes, self.held_bytes = tuple(self.held), 0
        self.held.clear()
        if isinstance(request, Read):
            self.read.add(request.key)
            if request.update:
                self.updated.add(request.key)
        elif isinstance(request, Scan):
            self.scanned = True

    def takes(self, reply: Reply) -> bool:
        """Take the answer to the last request, and return True; False if this is another one.

        An answer from before the site's last start may come after the site was asked again, and has
        carried out the request once more. What was read is of one life, and what is voted on is of the
        same: so the first answer tells which life is meant from now on, and the site refuses what
        means another.
        """
        if reply.count != self.count or not self.is_of(reply.life):
            return False
        self.life = reply.life
        return True


class Course(msgspec.Struct, array_like=True):
    """A transaction of a user here."""

    attempt: Attempt
    visits: list[Visit] = []
    state: Literal["running", "voting", "doubted"] = "running"
    request: Request | None = None  # the last one
    is_last: bool = False  # the user has asked to commit, and that request has to come before
    is_unwanted: bool = False  # the user has called it off, while another site may have decided
    awaited: list[ProcessId] = []  # sites that have not answered it, or not voted
    lists: list[Listed] = []  # parts of the answer to a scan
    voters: list[ProcessId] = []  # sites that wait for the decision
    number: Stamp | None = None  # the largest that was proposed
    silence: int = 0  # rings since anything was heard
    blockers: list[Name] = []  # what the request waits for, as other sites have said
    sizes: dict[str, int] = {}  # of what it writes, by key, in bytes
    written: int = 0  # the sum of them

    @property
    def sites(self) -> list[ProcessId]:
        """The sites where it has been, in order."""
        return sorted(visit.site for visit in self.visits)

    def is_decided_by(self, site: ProcessId) -> bool:
        """Return whether that site decides about its commit."""
        return self.state == "running" or not self.alone or self.visits[0].site == site

    def is_postponed(self, visit: Visit, count: int) -> bool:
        """Return whether a site that would decide says by this count that it has a request instead.

        Writes that are held back are counted, so no request before them has the same count.
        """
        return self.state != "running" and self.alone and bool(visit.held) and count == visit.count

    @property
    def alone(self) -> bool:
        """Whether one site takes part, and decides."""
        return len(self.visits) == 1

    def find(self, site: ProcessId) -> Visit | None:
        """Return the visit to a site, if there is one."""
        for visit in self.visits:
            if visit.site == site:
                return visit
        return None

    def visit(self, site: ProcessId) -> Visit:
        """Return the visit to a site; begin one if there is none."""
        visit = self.find(site)
        if visit is None:
            visit = Visit(site)
            self.visits.append(visit)
        return visit

    def growing_late(self) -> list[Visit]:
        """Return the visits whose held writes must not travel with the prepare under locking.

        A prepare releases the locks on what was read and not written. So if it also brings writes,
        one site would release locks while another one still waits for its own: there is no moment
        at which the transaction has all its locks, and two transactions that each read what the
        other writes could both commit. The writes may travel with the prepare if no site releases
        anything, as in a transfer, or if the only site that does is the only one with held writes:
        it carries them out before it releases anything.
        """
        growing = [visit for visit in self.visits if visit.held]
        shrinking = [
            visit for visit in self.visits if visit.scanned or not visit.read <= self.sizes.keys()
        ]
        if any(one is not other for one in growing for other in shrinking):
            return growing
        return []

    def weigh(self, key: str, value: Value) -> None:
        """Raise `UsageError` if a write makes it too large, before any site learns of it."""
        size = size_of(key, value)
        written = self.written + size - self.sizes.get(key, 0)
        if written > WRITTEN_BYTES_MAX:
            raise UsageError(
                f"{self.attempt.name} cannot write {key!r:.99}: the keys and values that it writes"
                f" would take {written:,} bytes, and at most {WRITTEN_BYTES_MAX:,} go to disk at"
                " once; use several transactions"
            )
        self.written, self.sizes[key] = written, size


def size_of(key: str, value: Value) -> int:
    """Return how many bytes a write takes, besides a few."""
    return len(key.encode()) + len(value or b"")


def insist_on_size(declaration: Declaration) -> None:
    """Raise `UsageError` if a declaration is larger than a message may carry."""
    if declaration is EVERYTHING:
        return
    spans = (*declaration.reads, *declaration.writes)
    size = sum(len(span.low.encode()) + len((span.high or "").encode()) for span in spans)
    if size > DECLARED_BYTES_MAX:
        raise UsageError(
            f"a transaction that declares {len(spans):,} keys and spans of {size:,} bytes in all"
            f" cannot be announced: the limit is {DECLARED_BYTES_MAX:,} bytes; declare fewer spans"
            " that cover more keys"
        )


def insist_on_declared(attempt: Attempt, request: Request) -> None:
    """Raise `Undeclared` if a request was not announced, before any site learns of it."""
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
    """Return the answers of several sites as one, as far as the limit of the scan allows."""
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
