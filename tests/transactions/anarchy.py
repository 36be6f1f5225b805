"""A scheduler that controls nothing: what every test of a scheme must find fault with."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import msgspec

from coterie.clocks import Stamp
from coterie.transactions.schemes.scheduler import (
    Accepted,
    Active,
    Answer,
    Committed,
    Found,
    Item,
    Prepared,
    Scheduler,
    Value,
    listing,
)
from coterie.transactions.schemes.span import SortedTable, Span

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Anarchy(Scheduler):
    name: ClassVar[str] = "anarchy"

    table: SortedTable[Item] = msgspec.field(default_factory=SortedTable)
    commits: int = 0

    def waits(self) -> dict[str, tuple[str, ...]]:
        return {}

    def latest(self) -> Iterator[tuple[str, Item]]:
        yield from self.table

    def restore(self, items: Iterable[tuple[str, Item]], now: Stamp) -> None:
        for key, item in items:
            self.table.put(key, item)

    def _read(self, active: Active, key: str, update: bool, out: list[Answer]) -> None:
        item = self.table.get(key) or Item(None, Stamp(0, 0))
        number = item.number if key in self.table.items else None
        out.append(Found(active.attempt.name, key, item.value, number))

    def _scan(self, active: Active, span: Span, limit: int | None, out: list[Answer]) -> None:
        found = [(key, self.table.items[key]) for key in self.table.within(span)]
        out.append(listing(active, found, span, limit))

    def _write(self, active: Active, key: str, value: Value, out: list[Answer]) -> None:
        active.writes[key] = value
        out.append(Accepted(active.attempt.name))

    def _prepare(self, active: Active, out: list[Answer]) -> None:
        active.prepared = True
        self.commits += 1
        out.append(Prepared(active.attempt.name, Stamp(self.commits, 1), dict(active.writes)))

    def _commit(self, active: Active, number: Stamp, out: list[Answer]) -> None:
        for key, value in active.writes.items():
            self.table.put(key, Item(value, number))
        out.append(Committed(active.attempt.name, number))

    def _abort(self, active: Active, out: list[Answer]) -> None:
        pass

    def _reinstate(self, active: Active, number: Stamp, reads: tuple[Span, ...]) -> None:
        pass
