"""What a process says of its wait, and the graph that such statements add up to.

A wait is numbered by its process and never changes: another condition, or a grant given, makes
another wait with another number. So an observer that finds a process in a wait twice knows that it has been
in it all the time between, and that it has granted nothing meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from coterie.algorithms.deadlock.condition import Condition
from coterie.algorithms.deadlock.victim import seniority
from coterie.algorithms.deadlock.wait_for import Graph
from coterie.process import ProcessId

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class WaitId(NamedTuple):
    """A wait of a process; it never comes again."""

    process: ProcessId
    number: int

    def __str__(self) -> str:
        """Write `process.number`."""
        return f"{self.process}.{self.number}"


class Wait(msgspec.Struct, frozen=True, array_like=True):
    """One wait of one process, from its beginning to its end."""

    number: int
    condition: Condition[ProcessId]
    granted: tuple[WaitId, ...] = ()  # waits that this process has granted, which may not know yet
    born: int | None = None  # when the work began that waits here; None: it cannot be aborted
    picked: int = 0  # how often that work has been a victim

    def seniority(self, process: ProcessId) -> tuple[bool, int, ProcessId]:
        """Order possible victims, the one to pick last."""
        assert self.born is not None, f"process {process} cannot be aborted"
        return seniority(self.picked, self.born, process)


class StuckProcess(NamedTuple):
    """A process in a deadlock, with its wait."""

    process: ProcessId
    wait: Wait

    def __str__(self) -> str:
        """Write the wait and what it is for."""
        return f"{WaitId(self.process, self.wait.number)}: {self.wait.condition}"


def graph_of(waits: Mapping[ProcessId, Wait]) -> Graph[ProcessId]:
    """Put statements together; a process that is not named runs, and what was granted is waited for no more."""
    return Graph(
        {
            process: waits[process].condition.without(_met(process, waits))
            for process in sorted(waits)
        }
    )


def _met(process: ProcessId, waits: Mapping[ProcessId, Wait]) -> list[ProcessId]:
    own = WaitId(process, waits[process].number)
    targets = waits[process].condition.targets()
    return [target for target in targets if target in waits and own in waits[target].granted]


def members_of(
    waits: Mapping[ProcessId, Wait], core: Iterable[ProcessId]
) -> tuple[StuckProcess, ...]:
    """Name the members of a core with their waits."""
    return tuple(StuckProcess(process, waits[process]) for process in core)


def choose_victim(
    waits: Mapping[ProcessId, Wait], members: Iterable[ProcessId]
) -> ProcessId | None:
    """Return the member to be aborted, by `seniority`; None if no member can be."""
    candidates = [member for member in members if waits[member].born is not None]
    return max(candidates, key=lambda member: waits[member].seniority(member), default=None)
