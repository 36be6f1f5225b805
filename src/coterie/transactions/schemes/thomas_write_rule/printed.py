"""Rule 4' as the survey of 1987 prints it. It is wrong, and kept to show how: no store takes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.transactions.schemes.thomas_write_rule.rules import ThomasWriteRule

if TYPE_CHECKING:
    from coterie.transactions.schemes.scheduler import Active, Answer
    from coterie.transactions.schemes.timestamp_ordering.stamp_ordered import Request


class PrintedWriteRule(ThomasWriteRule):
    """A write behind a later write is ignored, also if a later transaction has read the value before."""

    def _place(self, active: Active, request: Request) -> Answer | None:
        cell = self.table.get(request.key)
        first = request.key not in active.writes
        if first and cell is not None and cell.overtaken(active.attempt.stamp):
            return self._place_behind(active, request, cell)
        return super()._place(active, request)
