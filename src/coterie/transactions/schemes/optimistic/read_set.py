"""What a transaction has read: keys, ranges, and up to which commit all of it is current."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from coterie.transactions.schemes.span import Span

if TYPE_CHECKING:
    from collections.abc import Collection


class ReadSet(msgspec.Struct, array_like=True):
    """The read set of a transaction, with its start number."""

    start: int  # commits at this site at which everything read was current
    keys: set[str] = set()  # absent ones as well
    spans: list[Span] = []  # covered by scans, whether anything was found there or not

    def __bool__(self) -> bool:
        """Return whether anything was read."""
        return bool(self.keys or self.spans)

    def cover(self, span: Span, own: Collection[str]) -> None:
        """Add a range, except for keys whose value was the transaction's own."""
        low = span.low
        for key in sorted(key for key in own if key in span):
            self.spans.append(Span(low, key))
            low = Span.of(key).high or ""
        self.spans.append(Span(low, span.high))

    def among(self, keys: Collection[str]) -> list[str]:
        """Return those of the keys that were read."""
        if self.spans:
            return [key for key in keys if key in self.keys or any(key in s for s in self.spans)]
        if self.keys.isdisjoint(keys):
            return []
        return [key for key in keys if key in self.keys]

    def as_spans(self) -> tuple[Span, ...]:
        """Return everything that was read as ranges."""
        return (*map(Span.of, sorted(self.keys)), *self.spans)
