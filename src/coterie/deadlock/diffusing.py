"""Deadlock detection by a diffusing computation: e probes and n reports a search, exact for all models.

Whoever begins to wait sends probes along its waits; each process reached passes them on, once, and
reports its own wait to the initiator. When everyone who was named has reported, the initiator has
the graph that it can reach and reduces it. It equals the oracle of `wait_for`, where the criteria
that test paths or knots on the way do not. A search begun by the last member of a deadlock to wait
finds it, so if each wait begins with a search nothing is missed.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from coterie.deadlock.detector import (
    Accuse,
    Confirm,
    Confirmed,
    Denied,
    Detector,
    Release,
    Settled,
    TrialMessage,
)
from coterie.deadlock.waits import Wait
from coterie.process import Outbox, Payload, ProcessId


class Probe(Payload, frozen=True):
    """Report to the initiator of this search, and pass it on along your waits."""

    initiator: ProcessId
    search: int


class Report(Payload, frozen=True):
    """What I wait for; nothing if I run."""

    search: int
    wait: Wait | None


Message: TypeAlias = Probe | Report | TrialMessage


class Diffusing(Detector[Message]):
    """A detector that searches the graph that it can reach, each time a wait begins."""

    searches: int = 0  # begun so far; the number of the last one
    reports: dict[ProcessId, Wait | None] = {}  # got in this search; empty when there is none
    joined: dict[ProcessId, int] = {}  # the last search of each initiator that we reported to

    def search(self, out: Outbox[Any]) -> None:
        """Begin a search, in the place of the last one if it is not over."""
        if self.wait is None:
            return
        self.searches += 1
        self.reports = {self.me: self.wait}
        out.broadcast(self.wait.condition.targets(), Probe(self.me, self.searches))

    def receive(self, sender: ProcessId, message: Message, out: Outbox[Message]) -> None:
        """Handle a probe, a report or a message of a trial."""
        match message:
            case Probe(initiator, search):
                self._join(initiator, search, out)
            case Report(search, wait):
                self._collect(sender, search, wait, out)
            case Accuse() | Confirm() | Confirmed() | Denied() | Release() | Settled():
                self.judge(sender, message, out)

    def _changed(self, out: Outbox[Any]) -> None:
        """End the search with the wait it was for."""
        self.reports.clear()

    def _join(self, initiator: ProcessId, search: int, out: Outbox[Message]) -> None:
        """Report and pass the probe on, the first time that this search comes by."""
        if initiator == self.me or self.joined.get(initiator, 0) >= search:
            return
        self.joined[initiator] = search
        out.send(initiator, Report(search, self.wait))
        if self.wait is not None:
            out.broadcast(self.wait.condition.targets(), Probe(initiator, search))

    def _collect(
        self, sender: ProcessId, search: int, wait: Wait | None, out: Outbox[Message]
    ) -> None:
        if search != self.searches or not self.reports:
            return
        self.reports[sender] = wait
        if all(target in self.reports for target in self._named()):
            waits = {process: wait for process, wait in self.reports.items() if wait is not None}
            self.reports.clear()
            self._suspect(waits, out)

    def _named(self) -> list[ProcessId]:
        """All whom a wait reported so far names; each of them has been probed and will report."""
        waits = [wait for wait in self.reports.values() if wait is not None]
        return [target for wait in waits for target in wait.condition.targets()]
