"""Timestamp ordering with the write rule of Thomas (1979): a write that is never seen is left out.

A write behind a larger committed write could have been read only by transactions in between, and
those are refused from now on. So it is accepted and ignored, unless a later transaction has read
what it would replace. Behind a write that is merely pending nothing is ignored: that one may abort.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from coterie.transactions.schemes.scheduler import Accepted
from coterie.transactions.schemes.timestamp_ordering.rules import TimestampOrdering

if TYPE_CHECKING:
    from coterie.transactions.schemes.scheduler import Active, Answer
    from coterie.transactions.schemes.timestamp_ordering.rules import Cell
    from coterie.transactions.schemes.timestamp_ordering.stamp_ordered import Request


class ThomasWriteRule(TimestampOrdering):
    """Timestamp ordering that ignores writes which came too late to be seen."""

    name: ClassVar[str] = "thomas-write-rule"

    def _place_behind(self, active: Active, request: Request, cell: Cell) -> Answer:
        active.writes[request.key] = request.value  # its own reads still see it
        return Accepted(active.attempt.name)
