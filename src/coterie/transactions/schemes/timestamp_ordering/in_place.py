"""Timestamp ordering that writes in place and undoes. It is wrong, and kept to show how: no store takes it.

As the survey of 1987 has it, a write takes effect at once. When a transaction ends without a commit, what it
found is put back, and the transactions that have read its writes are refused as well. But a later transaction
may have written over it: that write is undone with it, and lost. And a reader that has committed stays so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.transactions.schemes.scheduler import Accepted, Item, Name, Refused
from coterie.transactions.schemes.timestamp_ordering.rules import Cell, TimestampOrdering
from coterie.transactions.schemes.timestamp_ordering.stamp_ordered import READ, too_late

if TYPE_CHECKING:
    from coterie.transactions.schemes.scheduler import Active, Answer
    from coterie.transactions.schemes.timestamp_ordering.stamp_ordered import Request

UNDONE = "what it has read was undone"


class InPlace(TimestampOrdering):
    """Writes at once, keeps what it found, and puts that back if the transaction does not commit."""

    found: dict[Name, dict[str, Item | None]] = {}  # by the writer that has not ended
    seen_by: dict[Name, list[Name]] = {}  # likewise: who has read what it has written

    def _sight(self, active: Active, key: str) -> Cell | Refused:
        cell = self.table.items[key]
        if cell.overtaken(active.attempt.stamp):
            return self._overtaken(active, key, cell)
        if key in self.found.get(cell.writer, {}):
            self.seen_by.setdefault(cell.writer, []).append(active.attempt.name)
        return cell

    def _place(self, active: Active, request: Request) -> Answer:
        key, name, stamp = request.key, active.attempt.name, active.attempt.stamp
        cell = self.table.items.get(key)
        if cell is None:
            cell = Cell(read=self.unwritten.at(key))
        if stamp < cell.read:
            return too_late(active, READ, key, cell.read, cell.reader)
        if cell.overtaken(stamp):
            return self._overtaken(active, key, cell)
        self.table.put(key, cell)
        self.found.setdefault(name, {}).setdefault(key, cell.item)
        cell.item, cell.writer = Item(request.value, stamp), name
        active.writes[key] = request.value
        return Accepted(name)

    def _install(self, active: Active) -> None:
        self.found.pop(active.attempt.name, None)
        self.seen_by.pop(active.attempt.name, None)

    def _withdraw(self, active: Active) -> None:
        super()._withdraw(active)
        for key, item in self.found.pop(active.attempt.name, {}).items():
            self.table.items[key].item = item

    def _go_on(self, ended: list[Active], out: list[Answer]) -> None:
        for active in ended:
            for reader in self.seen_by.pop(active.attempt.name, []):
                misled = self.active.pop(reader, None)
                if misled is not None:
                    self._withdraw(misled)
                    ended.append(misled)
                    others = (active.attempt.name,)
                    out.append(Refused(reader, UNDONE, tuple(active.writes), others))
        super()._go_on(ended, out)

    def _settle(self, key: str, ended: list[Active], out: list[Answer]) -> None:
        """Keep the key: no write is pending, and no transaction waits."""
