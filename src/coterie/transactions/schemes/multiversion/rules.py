"""Multiversion timestamp ordering (Reed, 1978): a read never comes too late.

A read sees the newest version that is not later than its stamp; if that one is pending, it waits
until it is decided. A write adds a version, and is refused if a later transaction has read the
version before it, or has seen that there was no key. So transactions take effect in the order of
their stamps, whatever the order of their commits.

Versions are dropped when no transaction can see them any more: none under way here, and none that a
site may still send. With one site, later beginnings have larger stamps. With several, each site
promises below which stamp it has nothing under way that is unknown here, and begins nothing. So one
long transaction keeps the one version of each key that it could see, not all since it began.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import msgspec

from coterie.clocks import Stamp
from coterie.transactions.schemes.multiversion.chain import NOTHING, Chain, Version
from coterie.transactions.schemes.scheduler import BEGINNING, Accepted, Item
from coterie.transactions.schemes.span import SortedTable, Span
from coterie.transactions.schemes.timestamp_ordering.stamp_ordered import (
    READ,
    StampOrdered,
    too_late,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from coterie.transactions.schemes.scheduler import (
        Active,
        Answer,
        Attempt,
        Declaration,
        Name,
        Number,
        Refused,
    )
    from coterie.transactions.schemes.timestamp_ordering.stamp_ordered import Request

SUPERSEDED_MAX = 1000  # versions, before all keys are looked at
TOO_OLD = "snapshot too old: the version it should see is no longer kept"


class Multiversion(StampOrdered):
    """Keeps versions of each key, so that only writers can come too late."""

    name: ClassVar[str] = "multiversion"

    table: SortedTable[Chain] = msgspec.field(default_factory=SortedTable)
    promises: list[Stamp] = msgspec.field(default_factory=lambda: [BEGINNING])  # of site 1, 2, ...
    versions_max: int | None = None  # kept of a key, as far as they are not pending
    superseded: int = 0  # versions by newer ones, since all keys were last looked at

    # The rules

    def _sight(self, active: Active, key: str) -> Version | Refused | None:
        version = self.table.items[key].at(active.attempt.stamp)
        if version is None:
            return self._too_old(active, key)
        return None if version.pending else version

    def _place(self, active: Active, request: Request) -> Answer | None:
        key, stamp = request.key, active.attempt.stamp
        if key not in active.writes:
            chain = self._chain(key)
            before = chain.at(stamp)
            if before is None:
                return self._too_old(active, key)
            if stamp < before.read:
                return too_late(active, READ, key, before.read, before.reader)
            self._pend(active, key, chain)
        active.writes[key] = request.value
        return Accepted(active.attempt.name)

    def _too_old(self, active: Active, key: str) -> Refused:
        above = self.table.items[key].next_kept(active.attempt.stamp)
        return too_late(active, TOO_OLD, key, above)

    def _endangers(self, request: Request, declared: Declaration) -> bool:
        """Return whether a request of a larger stamp could make one that declares this too late."""
        return request.op != "write" and super()._endangers(request, declared)

    def _chain(self, key: str) -> Chain:
        return self.table.get(key) or Chain([Version(NOTHING, read=self.unwritten.at(key))])

    def _pend(self, active: Active, key: str, chain: Chain) -> None:
        chain.pend(active.attempt.stamp, active.attempt.name)
        self.table.put(key, chain)

    # Ends of transactions

    def _install(self, active: Active) -> None:
        for key, value in active.writes.items():
            version = self.table.items[key].at(active.attempt.stamp)
            assert version is not None
            version.item, version.pending = Item(value, version.number), False
            if value is None:
                self.deletions.keys.append(key)
        # A key that is not written any more is looked at here only. All of them, as often as there
        # are keys, cost each commit as much as one key.
        self.superseded += len(active.writes)
        if self.superseded > max(SUPERSEDED_MAX, len(self.table.items)):
            self.collect()

    def _withdraw(self, active: Active) -> None:
        self._stop_waiting(active)
        for key in active.writes:
            self.table.items[key].withdraw(active.attempt.stamp)

    def _settle(self, key: str, ended: list[Active], out: list[Answer]) -> None:
        chain = self.table.get(key)
        if chain is None:  # settled before, with another that ended
            return
        if chain.readers:
            blocked = [name for name in chain.readers if self._blocked(chain, name)]
            woken = [name for name in chain.readers if name not in blocked]
            chain.readers = blocked
            self._again(woken, ended, out)
        length = len(chain.versions)
        if length >= chain.trim_at or (
            self.versions_max is not None and length > self.versions_max
        ):
            chain.trim(self._under_way(), min(self.promises), self.versions_max)
        elif length == 1 and chain.versions[0].number == NOTHING:
            self.table.remove(key)
            self.unwritten.mark(Span.of(key), chain.versions[0].read)

    def _blocked(self, chain: Chain, name: Name) -> bool:
        version = chain.at(self.active[name].attempt.stamp)
        return version is not None and version.pending

    def _blockers(self, key: str, stamp: Stamp) -> Sequence[Name]:
        version = self.table.items[key].at(stamp)
        assert version is not None
        return [version.writer]

    # Versions that no transaction sees any more

    def begin(self, attempt: Attempt, out: list[Answer]) -> None:
        """Get to know a transaction; at a single site those that follow have larger stamps."""
        super().begin(attempt, out)
        if len(self.promises) == 1:
            self.promise(1, attempt.stamp, out)

    def promise(self, source: int, stamp: Stamp, out: list[Answer]) -> None:
        """Learn that whatever comes from that site and is not known here has a larger stamp."""
        if self.promises[source - 1] < stamp:
            self.promises[source - 1] = stamp

    def horizon(self) -> Stamp:
        """Return a stamp that no transaction under way or still to come is below."""
        stamps = [active.attempt.stamp for active in self.active.values()]
        return min([*stamps, *self.promises])

    def oldest(self) -> Attempt | None:
        """Name the transaction that keeps the most versions from being dropped."""
        attempts = [active.attempt for active in self.active.values()]
        return min(attempts, key=lambda attempt: attempt.stamp, default=None)

    def collect(self) -> int:
        """Drop all versions that cannot be seen, not only of keys just written; return how many."""
        dropped, under_way, promised = 0, self._under_way(), min(self.promises)
        for _, chain in self.table:
            before = len(chain.versions)
            if before > 1:
                chain.trim(under_way, promised, self.versions_max)
                dropped += before - len(chain.versions)
        self.superseded = 0
        return dropped

    def _under_way(self) -> list[Stamp]:
        return sorted(active.attempt.stamp for active in self.active.values())

    def _forget(self, key: str, bound: Stamp) -> Stamp | None:
        chain = self.table.get(key)
        if chain is None:
            return BEGINNING
        newest = chain.versions[-1]
        if newest.item is not None and newest.item.value is not None:
            return BEGINNING
        stamp = max(newest.number, newest.read)
        if (
            newest.pending or stamp > bound
        ):  # an older version is kept for a stamp before the newest
            return None
        self.table.remove(key)
        return stamp

    # What others may know, and recovery

    def latest(self) -> Iterator[tuple[str, Item]]:
        """Walk the newest committed version of every key, deleted ones included, in order."""
        for key, chain in self.table:
            items = [version.item for version in chain.versions if version.item is not None]
            if items:
                yield key, items[-1]

    def restore(self, items: Iterable[tuple[str, Item]], now: Stamp) -> None:
        """Begin with these versions, which may have been read by any stamp up to `now`."""
        for key, item in items:
            self.table.put(key, Chain([Version(item.number, item, read=now)]))
            if item.value is None:
                self.deletions.keys.append(key)
        self.unwritten.mark(Span(), now)
        self.deletions.forgotten = self.latest_begun = now

    def _reinstate(self, active: Active, number: Number, reads: tuple[Span, ...]) -> None:
        for key in active.writes:
            self._pend(active, key, self._chain(key))
