"""Basic timestamp ordering with pre-writes (Bernstein and Goodman, 1981).

Each key remembers the largest stamps that have read and written it. A transaction that reads behind
a larger write, or writes behind a larger read or write, comes too late and is refused. A write is pending until its
transaction ends. Readers of larger stamps wait for that, and committed writes are installed in the
order of their stamps: one waits for the pending ones before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import msgspec

from coterie.clocks import Stamp
from coterie.transactions.schemes.scheduler import BEGINNING, Accepted, Active, Item, Name
from coterie.transactions.schemes.span import SortedTable, Span
from coterie.transactions.schemes.timestamp_ordering.stamp_ordered import (
    READ,
    WRITTEN,
    StampOrdered,
    too_late,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from coterie.transactions.schemes.scheduler import Answer, Number, Refused
    from coterie.transactions.schemes.timestamp_ordering.stamp_ordered import Request


class Prewrite(msgspec.Struct, array_like=True, gc=False):
    """A write that was accepted and is not installed yet."""

    stamp: Stamp
    writer: Name
    item: Item | None = None  # what to install, once its transaction has committed


class Cell(msgspec.Struct, array_like=True):
    """A key: what is installed, which stamps were there, and which transactions wait."""

    item: Item | None = None  # None: never written, as far as is remembered
    writer: Name = ""
    read: Stamp = BEGINNING  # the largest stamp that has read it; aborts do not lower it
    reader: Name = ""
    pending: list[Prewrite] = []  # by stamp; between requests the first is undecided
    readers: list[Name] = []  # that wait for pending writes before them

    def blocks(self, stamp: Stamp) -> bool:
        """Return whether a write before that stamp is pending."""
        return bool(self.pending) and self.pending[0].stamp < stamp

    def overtaken(self, stamp: Stamp) -> bool:
        """Return whether a write after that stamp is installed."""
        return self.item is not None and stamp < self.item.number

    def note(self, active: Active) -> None:
        """Remember the reader, unless a later one has read it."""
        if self.read < active.attempt.stamp:
            self.read, self.reader = active.attempt.stamp, active.attempt.name

    def pend(self, active: Active) -> None:
        """Give a write its place among the pending ones."""
        stamp, place = active.attempt.stamp, len(self.pending)
        while place and stamp < self.pending[place - 1].stamp:
            place -= 1
        self.pending.insert(place, Prewrite(stamp, active.attempt.name))


class TimestampOrdering(StampOrdered):
    """Lets transactions take effect in the order of their stamps, or refuses them."""

    name: ClassVar[str] = "timestamp-ordering"

    table: SortedTable[Cell] = msgspec.field(default_factory=SortedTable)

    # The rules

    def _sight(self, active: Active, key: str) -> Cell | Refused | None:
        cell, stamp = self.table.items[key], active.attempt.stamp
        if cell.overtaken(stamp):
            return self._overtaken(active, key, cell)
        return None if cell.blocks(stamp) else cell

    def _place(self, active: Active, request: Request) -> Answer | None:
        key, stamp = request.key, active.attempt.stamp
        if key not in active.writes:
            cell = self.table.items.get(key)
            if cell is None:
                cell = Cell(read=self.unwritten.at(key))
            if stamp < cell.read:
                return too_late(active, READ, key, cell.read, cell.reader)
            if cell.overtaken(stamp):
                return self._place_behind(active, request, cell)
            self.table.put(key, cell)
            cell.pend(active)
        active.writes[key] = request.value
        return Accepted(active.attempt.name)

    def _place_behind(self, active: Active, request: Request, cell: Cell) -> Answer:
        return self._overtaken(active, request.key, cell)

    def _overtaken(self, active: Active, key: str, cell: Cell) -> Refused:
        assert cell.item is not None
        return too_late(active, WRITTEN, key, cell.item.number, cell.writer)

    # Ends of transactions

    def _install(self, active: Active) -> None:
        for key, value in active.writes.items():
            for prewrite in self.table.items[key].pending:
                if prewrite.stamp == active.attempt.stamp:
                    prewrite.item = Item(value, prewrite.stamp)

    def _withdraw(self, active: Active) -> None:
        self._stop_waiting(active)
        for key in active.writes:
            cell = self.table.items[key]
            cell.pending = [p for p in cell.pending if p.stamp != active.attempt.stamp]

    def _settle(self, key: str, ended: list[Active], out: list[Answer]) -> None:
        cell = self.table.get(key)
        if cell is None:  # settled before, with another that ended
            return
        while True:
            first = cell.pending[0] if cell.pending else None
            if cell.readers:  # those before the next write read before it is installed
                self._wake(cell, first, ended, out)
            if first is None or first.item is None:
                break
            cell.item, cell.writer = first.item, first.writer
            del cell.pending[0]
            if cell.item.value is None:
                self.deletions.keys.append(key)
        if cell.item is None and not cell.pending:
            self.table.remove(key)
            self.unwritten.mark(Span.of(key), cell.read)

    def _wake(
        self, cell: Cell, first: Prewrite | None, ended: list[Active], out: list[Answer]
    ) -> None:
        stamps = {name: self.active[name].attempt.stamp for name in cell.readers}
        woken = [n for n, stamp in stamps.items() if first is None or stamp < first.stamp]
        cell.readers = [name for name in cell.readers if name not in woken]
        self._again(woken, ended, out)

    def _blockers(self, key: str, stamp: Stamp) -> Sequence[Name]:
        pending = self.table.items[key].pending
        return [p.writer for p in pending if p.item is None and p.stamp < stamp]

    def _forget(self, key: str, bound: Stamp) -> Stamp | None:
        cell = self.table.get(key)
        if cell is None or cell.item is None or cell.item.value is not None:
            return BEGINNING
        newest = max(cell.item.number, cell.read)
        if cell.pending or newest > bound:
            return None
        self.table.remove(key)
        return newest

    # What others may know, and recovery

    def latest(self) -> Iterator[tuple[str, Item]]:
        """Walk the newest committed version of every key, installed or not."""
        for key, cell in self.table:
            committed = [prewrite.item for prewrite in cell.pending if prewrite.item is not None]
            newest = committed[-1] if committed else cell.item
            if newest is not None:
                yield key, newest

    def restore(self, items: Iterable[tuple[str, Item]], now: Stamp) -> None:
        """Begin with these versions, which may have been read by any stamp up to `now`."""
        for key, item in items:
            self.table.put(key, Cell(item, read=now))
            if item.value is None:
                self.deletions.keys.append(key)
        self.unwritten.mark(Span(), now)
        self.deletions.forgotten = self.latest_begun = now

    def _reinstate(self, active: Active, number: Number, reads: tuple[Span, ...]) -> None:
        for key in active.writes:
            cell = self.table.get(key) or Cell(read=self.unwritten.at(key))
            if not cell.overtaken(active.attempt.stamp):  # else a later write has been logged first
                self.table.put(key, cell)
                cell.pend(active)
