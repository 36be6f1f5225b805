"""Ranges of keys: what a scan covers, and what must not change under it."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ItemT = TypeVar("ItemT")


class Span(msgspec.Struct, frozen=True, array_like=True, order=True):
    """The keys from `low` up to but not including `high`; without `high` there is no end."""

    low: str = ""
    high: str | None = None

    @classmethod
    def of(cls, key: str) -> Span:
        """Cover one key and nothing else: no key stands between it and itself with a zero after."""
        return cls(key, key + "\0")

    def __contains__(self, key: str) -> bool:
        """Return whether a key is covered."""
        return self.low <= key and (self.high is None or key < self.high)

    def meets(self, other: Span) -> bool:
        """Return whether the two could have a key in common."""
        return (other.high is None or self.low < other.high) and (
            self.high is None or other.low < self.high
        )

    def up_to(self, key: str) -> Span:
        """Keep the part that ends with a key, which is covered: what a limited scan has seen."""
        return Span(self.low, key + "\0")


class SortedTable(msgspec.Struct, Generic[ItemT], array_like=True):
    """Items by key, which can be walked in the order of their keys."""

    items: dict[str, ItemT] = {}
    order: list[str] = []  # the same keys, sorted

    def get(self, key: str) -> ItemT | None:
        """Return the item of a key, or None."""
        return self.items.get(key)

    def put(self, key: str, item: ItemT) -> None:
        """Set the item of a key."""
        if key not in self.items:
            insort(self.order, key)
        self.items[key] = item

    def remove(self, key: str) -> None:
        """Forget a key that is there."""
        del self.items[key]
        del self.order[bisect_left(self.order, key)]

    def within(self, span: Span) -> Sequence[str]:
        """List the keys that a span covers, in order."""
        low = bisect_left(self.order, span.low)
        high = len(self.order) if span.high is None else bisect_left(self.order, span.high)
        return self.order[low:high]

    def __iter__(self) -> Iterator[tuple[str, ItemT]]:
        """Walk all items in the order of their keys."""
        for key in self.order:
            yield key, self.items[key]
