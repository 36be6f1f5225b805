"""The double collect: a deadlock that two passes of questions agree on is real.

A system without a common clock is asked twice. The first pass collects reports: which nodes wait, for
which others, as the process that knows it says. If their graph shows a deadlock, the reports that
make it up are asked for once more. All answers of the first pass precede all questions of the
second, and no wait recurs once it has ended: so what is reported both times has lasted all the time
between, and everything that is reported both times existed together at the moment between the passes.
There are no phantoms. Silence counts as "runs", so a lost answer can hide a deadlock for a while but
can never make one up.

A deadlock is stable: a search that begins after it has formed finds all of it, and all searches find
the same core and choose the same victim (`victim.py`). Only the victim acts, on itself.

Nothing here knows what is waited for. A user of this module has
  - names of nodes, hashable and in an order of their own, and a `Graph` of its first pass over them;
  - a kind of report with two methods: `within`, the part of it that concerns a set of nodes, and
    `is_still`, whether it says that an earlier report has lasted;
  - its own way to ask: `cores` takes what the first pass has collected, `Core.stands` what the second
    has, and `victim.seniority` orders the members that could give way.
Locks do so in `locks/deadlocks/collection.py` (owners wait for locks, locks for their holders); the sites of
transactions do so by their messages `Collect` and `Collected` (transactions wait for transactions).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

from coterie.algorithms.deadlock.condition import NodeT

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable

    from coterie.algorithms.deadlock.wait_for import Graph


class Report(Protocol):
    """What one process says of one wait, or of one hold with the wait of its holder."""

    def within(self, members: Container[Any], /) -> Self | None:
        """Return what it says about these nodes; None if it says nothing about them."""

    def is_still(self, before: Self, /) -> bool:
        """Return True if what `before` said has lasted until this was said."""


ReportT = TypeVar("ReportT", bound=Report)


@dataclass(frozen=True)
class Core(Generic[NodeT, ReportT]):
    """A deadlock that the first pass shows: a smallest set of nodes that wait for each other."""

    nodes: tuple[NodeT, ...]
    reports: tuple[ReportT, ...]  # that make it up; all of them are asked for once more

    def stands(self, again: Collection[ReportT]) -> bool:
        """Return True if the second pass confirms every report."""
        return all(any(now.is_still(report) for now in again) for report in self.reports)


def cores(graph: Graph[NodeT], reports: Iterable[ReportT]) -> list[Core[NodeT, ReportT]]:
    """Find the deadlocks that a first pass shows: one for each end of the waits."""
    told = list(reports)
    return [core_of(nodes, told) for nodes in graph.cores()]


def core_of(nodes: tuple[NodeT, ...], reports: Iterable[ReportT]) -> Core[NodeT, ReportT]:
    """Make the deadlock of these nodes, of the reports that are about them."""
    members = set(nodes)
    told = (report.within(members) for report in reports)
    return Core(nodes, tuple(part for part in told if part is not None))
