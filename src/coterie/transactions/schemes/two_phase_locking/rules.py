"""Strict two-phase locking (Eswaran, Gray, Lorie and Traiger, 1976): lock first, let go at the end.

A read locks its key in shared mode, a scan its range, and a write locks exclusively. What
transactions do is then as if each had run alone at the moment when it had all its locks. Shared
locks go when the transaction is prepared, since nothing more is asked for then; exclusive ones when
it has taken effect or has been forgotten. What becomes of a transaction that has to wait is decided
by the variants, since two that wait for each other would do so without end.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import msgspec

from coterie.clocks import Stamp
from coterie.errors import MisuseError
from coterie.transactions.schemes.scheduler import (
    Accepted,
    Active,
    Answer,
    Committed,
    Found,
    Item,
    Name,
    Number,
    Prepared,
    Scheduler,
    Value,
    listing,
)
from coterie.transactions.schemes.span import SortedTable, Span
from coterie.transactions.schemes.two_phase_locking.lock_table import (
    EXCLUSIVE,
    SHARED,
    UPDATE,
    Claim,
    LockTable,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

DELETIONS_MAX = 1000  # and half of all keys, until deleted ones are forgotten


class Read(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A request for the value of a key, perhaps on the way to writing it."""

    key: str
    update: bool


class Scan(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A request for what is there in a range, or the first few of it."""

    span: Span
    limit: int | None


class Write(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A request to set a key, or to delete it."""

    key: str
    value: Value


Request: TypeAlias = Read | Scan | Write


class TwoPhaseLocking(Scheduler):
    """A site whose transactions lock what they access."""

    name: ClassVar[str] = "two-phase-locking"
    prepare_releases_reads: ClassVar[bool] = True

    site: int = 1
    table: SortedTable[Item] = msgspec.field(default_factory=SortedTable)
    locks: LockTable = msgspec.field(default_factory=LockTable)
    asked: dict[Name, Request] = {}  # by each transaction that waits
    count: int = 0  # the highest time of a number seen or proposed
    deletions: int = 0  # since deleted keys were forgotten

    # What the variants decide

    @abstractmethod
    def _resolve(self, claim: Claim, out: list[Answer]) -> None:
        """Decide what becomes of a claim that has to wait, and of those in its way."""

    def _overtake(self, key: str, out: list[Answer]) -> None:
        """Look again at the claims on a key: another may have been put before them."""

    # Requests

    def _read(self, active: Active, key: str, update: bool, out: list[Answer]) -> None:
        name = active.attempt.name
        if not self.locks.acquire(name, key, UPDATE if update else SHARED):
            self._wait(name, Read(key, update), out)
        elif (item := self.table.items.get(key)) is None:
            out.append(Found(name, key, None, None))
        else:
            out.append(Found(name, key, item.value, item.number))
        if update and self.locks.waiting:
            self._overtake(key, out)

    def _scan(self, active: Active, span: Span, limit: int | None, out: list[Answer]) -> None:
        """Lock as far as the scan gets; if it has to wait it may get farther, and locks again."""
        name, items = active.attempt.name, self.table.items
        found = [(key, items[key]) for key in self.table.within(span)]
        listed = listing(active, found, span, limit)
        if self.locks.acquire_span(name, listed.covered):
            out.append(listed)
        else:
            self._wait(name, Scan(span, limit), out)

    def _write(self, active: Active, key: str, value: Value, out: list[Answer]) -> None:
        name = active.attempt.name
        if self.locks.acquire(name, key, EXCLUSIVE):
            active.writes[key] = value
            out.append(Accepted(name))
        else:
            self._wait(name, Write(key, value), out)
        if self.locks.waiting:
            self._overtake(key, out)

    def _prepare(self, active: Active, out: list[Answer]) -> None:
        name = active.attempt.name
        if name in self.asked:
            raise MisuseError(f"{name} waits for a lock and cannot be prepared")
        # The coordinator sends no prepare before the growing phase is over at every other site: held
        # writes go first where any site has something to release here (`Course.growing_late`).
        active.prepared = True
        self.count += 1
        out.append(Prepared(name, Stamp(self.count, self.site), dict(active.writes)))
        self._resume(self.locks.release_shared(name), out)

    def _commit(self, active: Active, number: Number, out: list[Answer]) -> None:
        name = active.attempt.name
        for key, value in active.writes.items():
            self.locks.require(name, key, EXCLUSIVE)
            self.table.put(key, Item(value, number))
            self.deletions += value is None
        if number.time > self.count:
            self.count = number.time
        out.append(Committed(name, number))
        # The locks go after the versions are in place, for what is granted now reads these.
        self._resume(self.locks.leave(name), out)
        if self.deletions > DELETIONS_MAX and 2 * self.deletions > len(self.table.items):
            self._forget_deletions()

    def _abort(self, active: Active, out: list[Answer]) -> None:
        name = active.attempt.name
        self.asked.pop(name, None)
        self._resume(self.locks.leave(name), out)

    # Waiting

    def waits(self) -> dict[Name, tuple[Name, ...]]:
        """Return for each transaction that waits which ones have to end before."""
        locks = self.locks
        return {
            name: tuple(dict.fromkeys(locks.blockers(claim)))
            for name, claim in locks.waiting.items()
        }

    def has_waits(self) -> bool:
        """Return whether any request waits."""
        return bool(self.locks.waiting)

    def _wait(self, name: Name, request: Request, out: list[Answer]) -> None:
        self.asked[name] = request
        self._resolve(self.locks.waiting[name], out)

    def _resume(self, granted: Iterable[Claim], out: list[Answer]) -> None:
        """Go on with requests whose locks were granted, unless their transactions have ended."""
        for claim in granted:
            request = self.asked.pop(claim.owner, None)
            if request is not None:
                self._perform(self.active[claim.owner], request, out)

    def _perform(self, active: Active, request: Request, out: list[Answer]) -> None:
        match request:
            case Read(key, update):
                self._read(active, key, update, out)
            case Scan(span, limit):
                self._scan(active, span, limit, out)
            case Write(key, value):
                self._write(active, key, value, out)

    # Versions

    def latest(self) -> Iterator[tuple[str, Item]]:
        """Walk the newest committed version of every key, deleted ones included, in order."""
        yield from self.table

    def restore(self, items: Iterable[tuple[str, Item]], now: Stamp) -> None:
        """Begin with these versions; numbers go on above theirs."""
        self.count = now.time
        for key, item in items:
            self.table.put(key, item)
            self.count = max(self.count, item.number.time)

    def _reinstate(self, active: Active, number: Number, reads: tuple[Span, ...]) -> None:
        """Lock what the transaction wrote; its shared locks went when it was prepared."""
        name = active.attempt.name
        for key in active.writes:
            granted = self.locks.acquire(name, key, EXCLUSIVE)
            assert granted, f"{name} was prepared to write {key}, and so was another transaction"
        self.locks.release_shared(name)
        self.count = max(self.count, number.time)

    def _forget_deletions(self) -> None:
        """Drop deleted keys, but none that a transaction has locked and may read again.

        No other needs their numbers: new ones are higher than all that were ever given.
        """
        locked = self.locks.locked
        kept = {key: item for key, item in self.table if item.value is not None or locked(key)}
        self.table = SortedTable(kept, list(kept))
        self.deletions = 0
