"""What the schemes have in common that let transactions take effect in the order of their stamps.

A request is decided by stamps alone, waits at a key whose pending write is not decided, or is refused.
It waits for transactions of smaller stamps only, so waits never form a cycle. When one of them ends,
the request is decided from scratch: meanwhile others may have come in between. Reads leave their
stamps behind, even where there is no key.

A transaction that comes too late is refused and tries again with a larger stamp, so a long one may
come too late every time. Once an attempt has failed often enough it *reserves* what it has declared:
until it ends, requests of larger stamps that could make it come too late wait for it. At a single
site, where every new stamp is the largest, it is not refused then, unless something it needs was
forgotten to save space. At several, a larger stamp may have been somewhere before it.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import msgspec

from coterie.clocks import Stamp
from coterie.transactions.schemes.scheduler import (
    BEGINNING,
    Active,
    Answer,
    Attempt,
    Committed,
    Found,
    Item,
    Name,
    Number,
    Prepared,
    Refused,
    Scheduler,
    Value,
    listing,
)
from coterie.transactions.schemes.span import SortedTable, Span
from coterie.transactions.schemes.timestamp_ordering.deletions import Deletions
from coterie.transactions.schemes.timestamp_ordering.read_stamps import ReadStamps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.transactions.schemes.scheduler import Declaration

PATIENCE = 5  # failures, after which an attempt reserves what it has declared

READ = "a later transaction has read it"
WRITTEN = "a later transaction has written it"
FORGOTTEN = "what was deleted before is forgotten"


class Request(msgspec.Struct, array_like=True, gc=False):
    """What a transaction asks for, kept while it waits."""

    op: str  # read, scan or write
    key: str = ""  # what is read or written, unless it is a scan
    value: Value = None  # what is to be written
    scanned: Span | None = None
    limit: int | None = None  # of a scan
    at: str | None = None  # the key whose pending write is in the way; None: a reservation is

    @property
    def span(self) -> Span:
        """What is read or written, as a span of keys."""
        return Span.of(self.key) if self.scanned is None else self.scanned


def too_late(active: Active, rule: str, key: str, above: Stamp, other: Name = "") -> Refused:
    """Refuse a transaction because of one with a larger stamp, which the next attempt must exceed."""
    others = (other,) if other else ()
    return Refused(active.attempt.name, rule, (key,), others, above)


class Sight(Protocol):
    """What a transaction gets to see of a key."""

    @property
    def item(self) -> Item | None:
        """The version, None if there is none."""

    def note(self, active: Active) -> None:
        """Remember that a transaction has seen it."""


@dataclass(frozen=True, slots=True)
class Gap:
    """A place where there is no key."""

    unwritten: ReadStamps
    span: Span
    item: None = None

    def note(self, active: Active) -> None:
        """Remember that a transaction has seen it empty."""
        self.unwritten.mark(self.span, active.attempt.stamp)


class StampOrdered(Scheduler):
    """Decides requests by stamps, keeps those that wait, and decides them again."""

    write_may_wait: ClassVar[bool] = False

    patience: int = PATIENCE
    latest_begun: Stamp = BEGINNING
    waiting: dict[Name, Request] = {}
    reserved: list[Name] = []  # attempts that have failed often
    unwritten: ReadStamps = msgspec.field(default_factory=ReadStamps)  # of keys that are not kept
    deletions: Deletions = msgspec.field(default_factory=Deletions)
    table: SortedTable[Any] = msgspec.field(default_factory=SortedTable)  # of cells or chains

    # What each scheme decides

    @abstractmethod
    def _sight(self, active: Active, key: str) -> Sight | Refused | None:
        """Return what is to be seen of a key of the table, None if that is not decided yet."""

    @abstractmethod
    def _place(self, active: Active, request: Request) -> Answer | None:
        """Decide a write; return None if it waits at a key."""

    @abstractmethod
    def _install(self, active: Active) -> None:
        """Let the pending writes of a transaction be committed."""

    @abstractmethod
    def _withdraw(self, active: Active) -> None:
        """Take away the pending writes of a transaction, and its place where it waits."""

    @abstractmethod
    def _settle(self, key: str, ended: list[Active], out: list[Answer]) -> None:
        """Go on at a key where a pending write has been decided."""

    @abstractmethod
    def _blockers(self, key: str, stamp: Stamp) -> Sequence[Name]:
        """Name the transactions whose pending writes a reader of that stamp waits for."""

    @abstractmethod
    def _forget(self, key: str, bound: Stamp) -> Stamp | None:
        """Drop a deleted key that no stamp above the bound cares for, as `Deletions.sweep` wants."""

    # Requests

    def begin(self, attempt: Attempt, out: list[Answer]) -> None:
        """Get to know a transaction; one that has failed often makes its reservation."""
        super().begin(attempt, out)
        if self.latest_begun < attempt.stamp:
            self.latest_begun = attempt.stamp
        if attempt.failures >= self.patience:
            self.reserved.append(attempt.name)

    def _read(self, active: Active, key: str, update: bool, out: list[Answer]) -> None:
        self._ask(active, Request("read", key), out)

    def _scan(self, active: Active, span: Span, limit: int | None, out: list[Answer]) -> None:
        self._ask(active, Request("scan", scanned=span, limit=limit), out)

    def _write(self, active: Active, key: str, value: Value, out: list[Answer]) -> None:
        self._ask(active, Request("write", key, value), out)

    def _prepare(self, active: Active, out: list[Answer]) -> None:
        active.prepared = True  # every write has its place by now, so there is nothing to decide
        attempt = active.attempt
        out.append(Prepared(attempt.name, attempt.stamp, dict(active.writes)))

    def _commit(self, active: Active, number: Number, out: list[Answer]) -> None:
        out.append(Committed(active.attempt.name, active.attempt.stamp))
        self._install(active)
        self._go_on([active], out)

    def _abort(self, active: Active, out: list[Answer]) -> None:
        self._withdraw(active)
        self._go_on([active], out)

    # Reads

    def _look(self, active: Active, request: Request) -> Answer | None:
        name, stamp, key = active.attempt.name, active.attempt.stamp, request.key
        known = key in self.table.items
        sight = self._sight(active, key) if known else Gap(self.unwritten, request.span)
        if sight is None:
            self._wait(active, request, key)
            return None
        if isinstance(sight, Refused):
            return sight
        item = sight.item
        if item is None and stamp < self.deletions.forgotten:
            return too_late(active, FORGOTTEN, key, self.deletions.forgotten)
        # The stamp stays even if the reader aborts: what it has seen may have left the store.
        sight.note(active)
        if item is None:
            return Found(name, key, None, None)
        return Found(name, key, item.value, item.number)

    def _look_through(self, active: Active, request: Request) -> Answer | None:
        if active.attempt.stamp < self.deletions.forgotten:
            return too_late(active, FORGOTTEN, request.span.low, self.deletions.forgotten)
        seen: list[Sight] = []
        found: list[tuple[str, Item]] = []
        present = 0
        for key in self.table.within(request.span):
            if key in active.writes:
                present += active.writes[key] is not None
            else:
                sight = self._sight(active, key)
                if sight is None:
                    self._wait(active, request, key)
                    return None
                if isinstance(sight, Refused):
                    return sight
                seen.append(sight)
                if sight.item is not None:
                    found.append((key, sight.item))
                    present += sight.item.value is not None
            if present and present == request.limit:
                break
        listed = listing(active, found, request.span, request.limit)
        # Only a scan that is granted leaves stamps; one that waits is decided from scratch.
        for sight in seen:
            sight.note(active)
        self.unwritten.mark(listed.covered, active.attempt.stamp)
        return listed

    def _wait(self, active: Active, request: Request, key: str) -> None:
        self.table.items[key].readers.append(active.attempt.name)
        request.at = key

    def _stop_waiting(self, active: Active) -> None:
        request = self.waiting.pop(active.attempt.name, None)
        if request is not None and request.at is not None:
            self.table.items[request.at].readers.remove(active.attempt.name)

    # Deciding, and deciding again

    def _ask(self, active: Active, request: Request, out: list[Answer]) -> None:
        ended: list[Active] = []
        self._decide(active, request, ended, out)
        if ended:
            self._go_on(ended, out)

    def _decide(
        self, active: Active, request: Request, ended: list[Active], out: list[Answer]
    ) -> None:
        answer = None
        if not (self.reserved and self._held_back_by(active, request)):
            if request.op == "read":
                answer = self._look(active, request)
            elif request.op == "write":
                answer = self._place(active, request)
            else:
                answer = self._look_through(active, request)
        name = active.attempt.name
        if answer is None:
            self.waiting[name] = request
            return
        out.append(answer)
        if type(answer) is Refused:
            del self.active[name]
            self._withdraw(active)
            ended.append(active)

    def _go_on(self, ended: list[Active], out: list[Answer]) -> None:
        """Decide again what waited for these; a transaction that is refused joins the list."""
        for active in ended:
            for key in active.writes:
                self._settle(key, ended, out)
            if active.attempt.name in self.reserved:
                self.reserved.remove(active.attempt.name)
                held = [name for name, request in self.waiting.items() if request.at is None]
                self._again(held, ended, out)
        if len(self.deletions.keys) > self.deletions.keys_max:
            bound = self.horizon()
            self.deletions.sweep(lambda key: self._forget(key, bound))
            # What was known of the forgotten keys holds for all keys now, so nothing older is let in.
            self.unwritten.mark(Span(), self.deletions.forgotten)

    def _again(self, names: list[Name], ended: list[Active], out: list[Answer]) -> None:
        """Decide the requests of these from scratch, those of smaller stamps first."""
        for name in sorted(names, key=lambda name: self.active[name].attempt.stamp):
            request = self.waiting.pop(name)
            request.at = None
            self._decide(self.active[name], request, ended, out)

    def _held_back_by(self, active: Active, request: Request) -> list[Name]:
        stamp = active.attempt.stamp
        attempts = [self.active[name].attempt for name in self.reserved if name in self.active]
        return [
            attempt.name
            for attempt in attempts
            if attempt.stamp < stamp and self._endangers(request, attempt.declaration)
        ]

    def _endangers(self, request: Request, declared: Declaration) -> bool:
        """Return whether a request of a larger stamp could make one that declares this too late."""
        spans = declared.writes if request.op != "write" else declared.reads + declared.writes
        return any(request.span.meets(span) for span in spans)

    def waits(self) -> dict[Name, tuple[Name, ...]]:
        """Return for each transaction whose request waits which ones have to end before."""
        edges: dict[Name, tuple[Name, ...]] = {}
        for name, request in self.waiting.items():
            active = self.active[name]
            if request.at is None:
                edges[name] = tuple(self._held_back_by(active, request))
            else:
                edges[name] = tuple(self._blockers(request.at, active.attempt.stamp))
        return edges

    def horizon(self) -> Stamp:
        """Return a stamp that no transaction under way is below."""
        stamps = (active.attempt.stamp for active in self.active.values())
        return min(stamps, default=self.latest_begun)
