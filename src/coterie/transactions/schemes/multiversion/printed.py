"""The rule for reads as the survey of 1987 prints it. It is wrong, and kept to show how: no store takes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.transactions.schemes.multiversion.rules import Multiversion

if TYPE_CHECKING:
    from coterie.transactions.schemes.multiversion.chain import Version
    from coterie.transactions.schemes.scheduler import Active, Answer, Refused


class PrintedMultiversion(Multiversion):
    """A read of stamp M sees the version with the largest W < M, so never the reader's own."""

    def read(self, name: str, key: str, out: list[Answer], *, update: bool = False) -> None:
        """Look among the versions of others, also for what the transaction has written itself."""
        self._read(self._running(name), key, update, out)

    def _sight(self, active: Active, key: str) -> Version | Refused | None:
        stamp = active.attempt.stamp
        versions = [v for v in self.table.items[key].versions if v.number < stamp]
        if not versions:
            return self._too_old(active, key)
        return None if versions[-1].pending else versions[-1]
