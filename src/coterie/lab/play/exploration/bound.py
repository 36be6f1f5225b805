"""What could happen: how often users ask, and which faults there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from coterie.lab.explore.tables.faults import Faults
from coterie.lab.play.runs.refusal import Refusal

if TYPE_CHECKING:
    from collections.abc import Mapping

ENTRIES_MAX = 9
FAULTS_MAX = 4


class Bound(msgspec.Struct, frozen=True):
    """How often each process may enter, and how many faults of each kind there may be."""

    entries: int = 1
    crashes: int = 0
    losses: int = 0
    duplicates: int = 0
    suspicions: int = 0

    @property
    def faults(self) -> Faults:
        """The faults, as the explorer counts them."""
        return Faults(self.crashes, self.losses, self.duplicates, self.suspicions)

    def arguments(self) -> dict[str, Any]:
        """Return it as arguments of `coterie.lab.explore.check`, which have the names of its fields."""
        return msgspec.structs.asdict(self)

    def check(self) -> None:
        """Raise a `Refusal` if a number is out of range."""
        if not 0 <= self.entries <= ENTRIES_MAX:
            raise Refusal(f"entries must be between 0 and {ENTRIES_MAX}, not {self.entries}")
        for name in self.__struct_fields__[1:]:
            count = getattr(self, name)
            if not 0 <= count <= FAULTS_MAX:
                raise Refusal(f"{name} must be between 0 and {FAULTS_MAX}, not {count}")

    def __str__(self) -> str:
        """Write it as people say it: `1 entry each, at most 1 crash`."""
        entries = f"{self.entries} {'entry' if self.entries == 1 else 'entries'} each"
        words = ("crash", "lost message", "duplicate", "false suspicion", "restart")
        many = ("crashes", "lost messages", "duplicates", "false suspicions", "restarts")
        faults = [
            f"{count} {one if count == 1 else more}"
            for count, one, more in zip(self.faults, words, many, strict=True)
            if count
        ]
        return f"{entries}, {'at most ' + ' and '.join(faults) if faults else 'no faults'}"


def spent_faults(spent: Mapping[str, int]) -> Faults:
    """Count the faults of a play, by its commands, as the explorer counts them."""
    kinds = ("crash", "drop", "repeat", "suspect")
    return Faults(*(spent.get(kind, 0) for kind in kinds))
