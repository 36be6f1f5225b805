"""Deadlock detection by a diffusing computation: e probes and n reports a search, exact for all models.

A process that begins to wait sends probes along its waits; each process reached passes them on, once, and
reports its own wait to the initiator. When all that were named have reported, the initiator has
the graph that it can reach and reduces it. It equals the oracle of `wait_for`, where the criteria
that test paths or knots on the way do not. A search begun by the last member of a deadlock to wait
finds it, so if each wait begins with a search nothing is missed.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, TypeAlias

from coterie.algorithms.deadlock.detectors.detector import Detector
from coterie.algorithms.deadlock.detectors.tables import find, put
from coterie.algorithms.deadlock.detectors.trial import (
    Accuse,
    Confirm,
    Confirmed,
    Denied,
    Release,
    Settled,
    TrialMessage,
)
from coterie.algorithms.deadlock.detectors.waits import StuckProcess, Wait
from coterie.process import Outbox, Payload, ProcessId


class Probe(Payload, frozen=True):
    """Report to the initiator of this search, and pass it on along your waits."""

    initiator: ProcessId
    search: int


class Report(Payload, frozen=True):
    """What I wait for; nothing if I run."""

    search: int
    wait: Wait | None


class SearchId(NamedTuple):
    """A search of an initiator."""

    initiator: ProcessId
    number: int


Message: TypeAlias = Probe | Report | TrialMessage


class Diffusing(Detector[Message]):
    """A detector that searches the graph that it can reach, each time a wait begins."""

    messages: ClassVar[Any] = Message

    searches: int = 0  # begun so far; the number of the last one
    heard: set[ProcessId] = set()  # that have reported in this search; none when there is none
    waits: set[StuckProcess] = set()  # what those of them wait for that do not run
    joined: set[SearchId] = set()  # the last search of each initiator that we reported to

    def search(self, out: Outbox[Any]) -> None:
        """Begin a search, in the place of the last one if it is not over."""
        if self.wait is None:
            return
        self.searches += 1
        self.heard = {self.me}
        self.waits = {StuckProcess(self.me, self.wait)}
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
        """End the search, with the wait it was for or because it is complete."""
        self.heard.clear()
        self.waits.clear()

    def _join(self, initiator: ProcessId, search: int, out: Outbox[Message]) -> None:
        """Report and pass the probe on, the first time that this search comes by."""
        last = find(self.joined, initiator)
        if initiator == self.me or (last is not None and last.number >= search):
            return
        put(self.joined, SearchId(initiator, search))
        out.send(initiator, Report(search, self.wait))
        if self.wait is not None:
            out.broadcast(self.wait.condition.targets(), Probe(initiator, search))

    def _collect(
        self, sender: ProcessId, search: int, wait: Wait | None, out: Outbox[Message]
    ) -> None:
        if search != self.searches or not self.heard:
            return
        self.heard.add(sender)
        if wait is not None:
            self.waits.add(StuckProcess(sender, wait))
        named = {target for member in self.waits for target in member.wait.condition.targets()}
        if named <= self.heard:  # all that are named have been probed and will report
            waits = dict(self.waits)
            self._changed(out)
            self._suspect(waits, out)
