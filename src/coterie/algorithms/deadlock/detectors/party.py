"""Processes that wait for each other by a script: the model of the literature, to try detectors in.

A party asks others and waits until enough of them have granted. One that runs grants at once; one
that waits grants when it runs again, because its condition holds or because it was the victim of a
deadlock. Grants to a wait that is over are ignored.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from coterie.algorithms.deadlock.condition import Condition
from coterie.algorithms.deadlock.detectors.central import Reporting
from coterie.algorithms.deadlock.detectors.detector import Detector
from coterie.algorithms.deadlock.detectors.diffusing import Diffusing
from coterie.algorithms.deadlock.detectors.survey import SurveyDetector
from coterie.algorithms.deadlock.detectors.tables import find, put
from coterie.algorithms.deadlock.detectors.trial import Deadlocked
from coterie.algorithms.deadlock.detectors.waits import WaitId
from coterie.process import Channel, Outbox, Payload, Process, ProcessId

STEP = "step"  # time to begin the next wait of the script
LOOK = "look"  # time to look for a deadlock again


class Request(Payload, frozen=True):
    """Grant me what this wait is for."""

    number: int


class Grant(Payload, frozen=True):
    """Granted to that wait."""

    number: int


class ScriptStep(msgspec.Struct, frozen=True, array_like=True):
    """Run for a while, then wait."""

    after: float  # 0: it waits at once, and grants nothing before
    condition: Condition[ProcessId]


class Party(Process[Payload]):
    """A process that runs and waits as its script says; subclasses choose the detector."""

    channel: ClassVar[Channel] = Channel.UNORDERED

    detector: Detector[Any]
    script: tuple[ScriptStep, ...] = ()
    born: int | None = 0  # when its work began: the youngest is aborted; None: never this one
    period: float | None = None  # between two searches in a wait; None: one, when the wait begins
    done: int = 0  # steps of the script begun
    picked: int = 0  # how often it was a victim
    got: set[ProcessId] = set()  # processes that have granted the present wait
    pending: list[WaitId] = []  # requests to be granted when it runs
    granted: set[WaitId] = set()  # of each other the last wait that it has granted

    def start(self, out: Outbox[Any]) -> None:
        """Run up to the first wait."""
        self._run_on(out)

    def receive(self, sender: ProcessId, message: Payload, out: Outbox[Any]) -> None:
        """Handle a request, a grant, or a message of the detectors."""
        match message:
            case Request(number):
                self.pending.append(WaitId(sender, number))
                self._grant_if_running(out)
            case Grant(number):
                self._count(sender, number, out)
            case Payload():
                inner = self._inner(out)
                self.detector.receive(sender, message, inner)
                self._relay(inner, out)

    def ring(self, timer: str, out: Outbox[Any]) -> None:
        """Begin the next wait, or look for a deadlock if the last one still lasts."""
        if timer == STEP:
            self._begin(out)
        elif self.detector.wait is not None:
            inner = self._inner(out)
            self.detector.search(inner)
            self._look_later(out)
            self._relay(inner, out)

    def _begin(self, out: Outbox[Any]) -> None:
        """Ask all that the condition names, and look for a deadlock now or later."""
        inner = self._inner(out)
        condition = self.script[self.done].condition
        self.done += 1
        granted = tuple(sorted(self.granted))
        wait = self.detector.begin(
            condition, inner, granted=granted, born=self.born, picked=self.picked
        )
        out.broadcast(condition.targets(), Request(wait.number))
        if self.period is None:
            self.detector.search(inner)
        self._look_later(out)
        self._relay(inner, out)

    def _look_later(self, out: Outbox[Any]) -> None:
        if self.period is not None:
            out.set_timer(LOOK, self.period)

    def _count(self, sender: ProcessId, number: int, out: Outbox[Any]) -> None:
        wait = self.detector.wait
        if wait is None or wait.number != number:
            return
        self.got.add(sender)
        if wait.condition.holds(self.got):
            inner = self._inner(out)
            self.detector.end(inner)
            self._relay(inner, out)
            self._run_on(out)

    def _run_on(self, out: Outbox[Any]) -> None:
        self.got.clear()
        self._grant_if_running(out)
        if self.done < len(self.script):
            after = self.script[self.done].after
            if after > 0:
                out.set_timer(STEP, after)
            else:
                self._begin(out)

    def _grant_if_running(self, out: Outbox[Any]) -> None:
        if self.detector.wait is not None:
            return
        for wait in self.pending:
            last = find(self.granted, wait.process)
            put(self.granted, wait if last is None else max(wait, last))
            out.send(wait.process, Grant(wait.number))
        self.pending.clear()

    def _inner(self, out: Outbox[Any]) -> Outbox[Any]:
        return Outbox(self.me, out.now)

    def _relay(self, inner: Outbox[Any], out: Outbox[Any]) -> None:
        """Pass on what the detector wishes; if it gave up the wait, run on."""
        while inner.local:
            self.detector.receive(self.me, inner.local.pop(0), inner)
        for to, message in inner.sends:
            out.send(to, message)
        for event in inner.events:
            out.tell(event)
            if isinstance(event, Deadlocked):
                self.picked += 1
                self._run_on(out)


class DiffusingParty(Party):
    """A party with the default detector."""

    messages: ClassVar[Any] = Request | Grant | Diffusing.messages

    detector: Diffusing


class SurveyParty(Party):
    """A party with the detector of the survey."""

    messages: ClassVar[Any] = Request | Grant | SurveyDetector.messages

    detector: SurveyDetector


class ReportingParty(Party):
    """A party that leaves detection to a coordinator or to a tree of controllers."""

    messages: ClassVar[Any] = Request | Grant | Reporting.messages

    detector: Reporting
