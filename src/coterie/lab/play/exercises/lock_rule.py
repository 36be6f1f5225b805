"""The rules of locking, held against a schedule that has locks: well-formed, two-phase, and granted.

Well-formed and two-phase are rules for each transaction by itself. Where all keep both, and no lock is granted
beside one that conflicts with it, the schedule is serializable [Eswaran, Gray, Lorie, Traiger 1976]. What a
transaction still has locked when it commits or aborts is given back there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.lab.play.exercises.operation import Operation

WELL_FORMED = "each reads and writes only what it has locked"
TWO_PHASE = "none locks after it has unlocked"
GRANTED = "no lock is granted beside one that conflicts with it"


class LockRule(msgspec.Struct, frozen=True):
    """A rule, and what breaks it, a line for each operation."""

    name: str
    meaning: str
    broken: list[str]


def judge_locking(operations: Sequence[Operation]) -> list[LockRule]:
    """Hold a schedule against the three rules; one without locks is held against none."""
    if not any(each.locks for each in operations):
        return []
    table = _LockTable()
    for each in operations:
        table.meet(each)
    return [
        LockRule("well-formed", WELL_FORMED, table.not_well_formed),
        LockRule("two-phase", TWO_PHASE, table.not_two_phase),
        LockRule("granted", GRANTED, table.not_granted),
    ]


class _LockTable:
    """Who has locked what at one place of a schedule, and what has broken a rule before it."""

    def __init__(self) -> None:
        self.shared: dict[str, set[int]] = {}  # by item
        self.exclusive: dict[str, set[int]] = {}  # several only where a rule is broken
        self.shrinking: dict[int, Operation] = {}  # by transaction, its first unlock
        self.not_well_formed: list[str] = []
        self.not_two_phase: list[str] = []
        self.not_granted: list[str] = []

    def meet(self, each: Operation) -> None:
        match each.kind:
            case "r" | "w":
                self._access(each)
            case "s" | "l":
                self._lock(each)
            case "u":
                self._unlock(each)
            case _:
                for owners in (*self.shared.values(), *self.exclusive.values()):
                    owners.discard(each.transaction)

    def _access(self, each: Operation) -> None:
        if self._has(self.exclusive, each):
            return
        if not self._has(self.shared, each):
            self.not_well_formed.append(f"{each}: T{each.transaction} has not locked {each.key}")
        elif each.kind == "w":
            self.not_well_formed.append(
                f"{each}: T{each.transaction} has locked {each.key} for reading alone"
            )

    def _lock(self, each: Operation) -> None:
        taken = self.shared if each.kind == "s" else self.exclusive
        if self._has(taken, each) or self._has(self.exclusive, each):
            self.not_well_formed.append(f"{each}: T{each.transaction} has locked {each.key} before")
        first = self.shrinking.get(each.transaction)
        if first is not None:
            self.not_two_phase.append(f"{each} stands after {first}")
        in_the_way = set(self.exclusive.get(each.key, ()))
        if each.kind == "l":
            in_the_way |= self.shared.get(each.key, set())
        for owner in sorted(in_the_way - {each.transaction}):
            self.not_granted.append(f"{each}: T{owner} still has {each.key} locked")
        taken.setdefault(each.key, set()).add(each.transaction)

    def _unlock(self, each: Operation) -> None:
        if not (self._has(self.shared, each) or self._has(self.exclusive, each)):
            self.not_well_formed.append(f"{each}: T{each.transaction} has not locked {each.key}")
        self.shrinking.setdefault(each.transaction, each)
        for taken in (self.shared, self.exclusive):
            taken.get(each.key, set()).discard(each.transaction)

    @staticmethod
    def _has(taken: dict[str, set[int]], each: Operation) -> bool:
        return each.transaction in taken.get(each.key, ())
