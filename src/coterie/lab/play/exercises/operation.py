"""An operation of a schedule as textbooks write it: `r1(x)`, `l1(x)`, `c1`."""

from __future__ import annotations

from typing import NamedTuple


class Operation(NamedTuple):
    """What a transaction does at one place of a schedule."""

    kind: str  # r, w, c or a; with locks also s (shared lock), l (exclusive lock) and u (unlock)
    transaction: int
    key: str = ""

    def __str__(self) -> str:
        """Write it as textbooks do."""
        return f"{self.kind}{self.transaction}" + (f"({self.key})" if self.key else "")

    @property
    def locks(self) -> bool:
        """Return whether it takes a lock or gives one back, and touches no item."""
        return self.kind in "slu"

    @property
    def ends(self) -> bool:
        """Return whether its transaction commits or aborts."""
        return self.kind in "ca"
