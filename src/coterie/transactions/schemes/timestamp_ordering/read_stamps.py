"""Up to which stamp each part of the key space has been read, for keys of which nothing is kept.

A key that is not there leaves no other trace of having been read; nor does the gap between two keys
that a scan has looked through.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from msgspec import Struct, field

from coterie.clocks import Stamp
from coterie.transactions.schemes.scheduler import BEGINNING

if TYPE_CHECKING:
    from coterie.transactions.schemes.span import Span

PIECES_MAX = 2048


class ReadStamps(Struct, array_like=True):
    """The key space cut into pieces, each with the largest stamp that has read in it.

    A stamp that is too large refuses a write that could have been granted, and never grants one
    that must be refused. So there need not be more pieces than `pieces_max`: then the stamp that
    three quarters of them do not exceed is taken for all of these, and at most half are left.
    Whatever is older than that stamp can add no keys any more.
    """

    lows: list[str] = field(default_factory=lambda: [""])  # of pieces, up to the next one's low
    stamps: list[Stamp] = field(default_factory=lambda: [BEGINNING])
    pieces_max: int = PIECES_MAX

    def at(self, key: str) -> Stamp:
        """Return the largest stamp that has read a key."""
        return self.stamps[bisect_right(self.lows, key) - 1]

    def mark(self, span: Span, stamp: Stamp) -> None:
        """Note that a span was read."""
        if span.high is not None and span.high <= span.low:
            return
        first = self._cut(span.low)
        end = len(self.lows) if span.high is None else self._cut(span.high)
        for piece in range(first, end):
            if self.stamps[piece] < stamp:
                self.stamps[piece] = stamp
        self._join(max(first, 1), min(end, len(self.lows) - 1))
        if len(self.lows) > self.pieces_max:
            self._coarsen()

    def _cut(self, low: str) -> int:
        """Let a piece begin there; return its place."""
        place = bisect_left(self.lows, low)
        if place == len(self.lows) or self.lows[place] != low:
            self.lows.insert(place, low)
            self.stamps.insert(place, self.stamps[place - 1])
        return place

    def _join(self, first: int, last: int) -> None:
        """Join the pieces of these places with those before them whose stamp is the same."""
        for piece in range(last, first - 1, -1):
            if self.stamps[piece] == self.stamps[piece - 1]:
                del self.lows[piece], self.stamps[piece]

    def _coarsen(self) -> None:
        floor = sorted(self.stamps)[len(self.stamps) * 3 // 4]
        self.stamps = [max(stamp, floor) for stamp in self.stamps]
        self._join(1, len(self.lows) - 1)
