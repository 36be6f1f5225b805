"""Rules as the survey of 1987 prints them, which are wrong: here to be refuted, not to be used."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from coterie.transactions.schemes.multiversion import Multiversion
from coterie.transactions.schemes.thomas_write_rule import ThomasWriteRule

if TYPE_CHECKING:
    from coterie.transactions.schemes.multiversion.chain import Version
    from coterie.transactions.schemes.scheduler import Active, Answer, Refused
    from coterie.transactions.schemes.timestamp_ordering.stamp_ordered import Request


class PrintedThomas(ThomasWriteRule):
    """Rule 4': a write behind a later write is skipped, whoever has read what it would replace."""

    name: ClassVar[str] = "thomas-write-rule as printed"

    def _place(self, active: Active, request: Request) -> Answer | None:
        cell = self.table.get(request.key)
        first = request.key not in active.writes
        if first and cell is not None and cell.overtaken(active.attempt.stamp):
            return self._place_behind(active, request, cell)
        return super()._place(active, request)


class PrintedMultiversion(Multiversion):
    """A read of stamp M sees the version with the largest W < M, so never the reader's own."""

    name: ClassVar[str] = "multiversion as printed"

    def read(self, name: str, key: str, out: list[Answer], *, update: bool = False) -> None:
        self._read(self._running(name), key, update, out)

    def _sight(self, active: Active, key: str) -> Version | Refused | None:
        stamp = active.attempt.stamp
        versions = [v for v in self.table.items[key].versions if v.number < stamp]
        if not versions:
            return self._too_old(active, key)
        return None if versions[-1].pending else versions[-1]
