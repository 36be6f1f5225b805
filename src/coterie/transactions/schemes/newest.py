"""The newest version of every key, for schemes that need no older ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from coterie.transactions.schemes.scheduler import (
    BEGINNING,
    Active,
    Found,
    Item,
    Listed,
    Name,
    Number,
    Value,
    listing,
)
from coterie.transactions.schemes.span import SortedTable, Span

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from coterie.clocks import Stamp

DELETED_MAX = 1000  # and half of all keys, until they are forgotten


class Newest(msgspec.Struct, array_like=True):
    """What is committed, deleted keys included for a while.

    Only for schemes that order transactions without looking at the number of a deleted key: for
    those a key that was deleted may at any time become one that was never there.
    """

    table: SortedTable[Item] = msgspec.field(default_factory=SortedTable)
    deleted: int = 0  # at most so many keys are there without a value

    def read(self, name: Name, key: str) -> Found:
        """Answer a read."""
        item = self.table.items.get(key)
        if item is None:
            return Found(name, key, None, None)
        return Found(name, key, item.value, item.number)

    def scan(self, active: Active, span: Span, limit: int | None) -> Listed:
        """Answer a scan, own writes included."""
        items = self.table.items
        return listing(active, ((key, items[key]) for key in self.table.within(span)), span, limit)

    def install(self, writes: dict[str, Value], number: Number) -> None:
        """Let the writes of a transaction take effect."""
        for key, value in writes.items():
            self.table.put(key, Item(value, number))
            self.deleted += value is None
        if self.deleted > DELETED_MAX and 2 * self.deleted > len(self.table.items):
            self._forget_deleted()

    def restore(self, items: Iterable[tuple[str, Item]]) -> Stamp:
        """Begin with these versions; return the largest of their numbers."""
        largest = BEGINNING
        for key, item in items:
            self.table.put(key, item)
            self.deleted += item.value is None
            largest = max(largest, item.number)
        return largest

    def __iter__(self) -> Iterator[tuple[str, Item]]:
        """Walk all versions in the order of keys."""
        yield from self.table

    def _forget_deleted(self) -> None:
        kept = {key: item for key, item in self.table if item.value is not None}
        self.table = SortedTable(kept, list(kept))
        self.deleted = 0
