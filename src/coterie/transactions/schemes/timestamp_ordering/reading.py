"""Reads and scans by stamp: what may be seen, and that it has been seen."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from coterie.transactions.schemes.scheduler import Found, Item, Refused, listing
from coterie.transactions.schemes.span import SortedTable
from coterie.transactions.schemes.timestamp_ordering.request import FORGOTTEN, too_late
from coterie.transactions.schemes.timestamp_ordering.stamp_ordered import StampOrdered

if TYPE_CHECKING:
    from coterie.transactions.schemes.scheduler import Active, Answer
    from coterie.transactions.schemes.span import Span
    from coterie.transactions.schemes.timestamp_ordering.read_stamps import ReadStamps
    from coterie.transactions.schemes.timestamp_ordering.request import Request


class Sight(Protocol):
    """What a transaction gets to see of a key."""

    @property
    def item(self) -> Item | None:
        """The version, None if there is none."""

    def note(self, active: Active) -> None:
        """Remember who has seen it."""


@dataclass(frozen=True, slots=True)
class Gap:
    """A place where there is no key."""

    unwritten: ReadStamps
    span: Span
    item: None = None

    def note(self, active: Active) -> None:
        """Remember that somebody has seen it empty."""
        self.unwritten.mark(self.span, active.attempt.stamp)


class StampReading(StampOrdered):
    """Reads keys of a table, and remembers the stamps of readers even where there is no key."""

    table: SortedTable[Any] = msgspec.field(default_factory=SortedTable)  # of cells or chains

    @abstractmethod
    def _sight(self, active: Active, key: str) -> Sight | Refused | None:
        """Give what is to be seen of a key of the table, None if that is not decided yet."""

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
        if item is None and stamp < self.graves.buried:
            return too_late(active, FORGOTTEN, key, self.graves.buried)
        sight.note(active)
        if item is None:
            return Found(name, key, None, None)
        return Found(name, key, item.value, item.number)

    def _look_through(self, active: Active, request: Request) -> Answer | None:
        if active.attempt.stamp < self.graves.buried:
            return too_late(active, FORGOTTEN, request.span.low, self.graves.buried)
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
