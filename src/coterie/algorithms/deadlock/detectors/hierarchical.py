"""Hierarchical deadlock detection after Menasce and Muntz (1979): a tree of controllers.

Each controller knows the waits of the processes below it. It resolves what is deadlocked among
these alone, and passes on only what it cannot decide: waits that depend on a process outside. So a
deadlock is found by the lowest controller above all its members, and local waits stay local.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from coterie.algorithms.deadlock.condition import all_of
from coterie.algorithms.deadlock.detectors.central import (
    Change,
    Known,
    Message,
    accuse,
    current_waits,
    learn,
    settle,
)
from coterie.algorithms.deadlock.detectors.tables import put
from coterie.algorithms.deadlock.detectors.trial import (
    Accuse,
    Confirm,
    Confirmed,
    Denied,
    Release,
    Settled,
)
from coterie.algorithms.deadlock.detectors.waits import StuckProcess, Wait, WaitId, graph_of
from coterie.algorithms.deadlock.wait_for import Graph
from coterie.process import Channel, Outbox, Process, ProcessId

if TYPE_CHECKING:
    from collections.abc import Mapping


class Controller(Process[Message]):
    """The coordinator of the processes below it, with a parent for the rest."""

    messages: ClassVar[Any] = Message
    channel: ClassVar[Channel] = Channel.UNORDERED

    known: set[Known] = set()
    accused: set[ProcessId] = set()  # victims whose trial is not over
    over: set[WaitId] = set()  # of each victim the last wait that it said is over
    below: frozenset[ProcessId] = frozenset()
    parent: ProcessId | None = None  # none at the root
    passed: set[StuckProcess] = set()  # waits that the parent knows
    counts: set[tuple[ProcessId, int]] = set()  # changes passed on, of each process

    def receive(self, sender: ProcessId, message: Message, out: Outbox[Message]) -> None:
        """Handle a change or the end of a trial; a controller is asked nothing else."""
        match message:
            case Change():
                if learn(self.known, message):
                    self._look(out)
            case Settled():
                settle(self.accused, self.over, sender, message)
                self._look(out)
            case Accuse() | Confirm() | Confirmed() | Denied() | Release():
                super().receive(sender, message, out)

    def _look(self, out: Outbox[Message]) -> None:
        """Resolve what is deadlocked here, and tell the parent what has changed for it."""
        waits = current_waits(self.known, self.over)
        accuse(waits, self.accused, out)
        if self.parent is None:
            return
        undecided = undecided_waits(waits, self.below)
        passed, counts = dict(self.passed), dict(self.counts)
        for process in sorted({*passed, *undecided}):
            wait = undecided.get(process)
            if wait == passed.get(process):
                continue
            count = counts.get(process, 0) + 1
            put(self.counts, (process, count))
            out.send(self.parent, Change(process, count, wait))
        self.passed = {StuckProcess(process, wait) for process, wait in undecided.items()}


def undecided_waits(
    waits: Mapping[ProcessId, Wait], below: frozenset[ProcessId]
) -> dict[ProcessId, Wait]:
    """Keep the waits whose fate hangs on processes that are not below.

    A process that goes on though all outside were stuck, or is stuck though all outside ran, is
    decided.
    """
    graph = graph_of(waits)
    outside = [node for node in graph.nodes() if node not in below]
    pessimist = Graph({**graph.waits, **{node: all_of(node) for node in outside}})
    decided = {*outside, *graph.deadlocked()}
    return {node: waits[node] for node in pessimist.deadlocked() if node not in decided}
