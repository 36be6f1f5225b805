"""Centralised deadlock detection: everyone reports to one coordinator, two messages a wait.

The coordinator keeps the last report of each process and reduces the graph at every change. Reports
are numbered, because one that is overtaken would bring back a wait that is over. Its picture is
still one of different moments; the trial (see `detector`) keeps that from hurting anyone.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Any, ClassVar, NamedTuple, TypeAlias

from coterie.deadlock.detectors.detector import Detector
from coterie.deadlock.detectors.tables import find, put
from coterie.deadlock.detectors.trial import (
    Accuse,
    Confirm,
    Confirmed,
    Denied,
    Release,
    Settled,
    TrialMessage,
)
from coterie.deadlock.detectors.waits import Wait, WaitId, choose_victim, graph_of, members_of
from coterie.process import Channel, Outbox, Payload, Process, ProcessId


class Change(Payload, frozen=True):
    """What a process waits for now; nothing if it runs. Of two changes the higher count is later."""

    process: ProcessId
    count: int
    wait: Wait | None


class Reporting(Detector[TrialMessage]):
    """The part of a process that reports to its coordinator, and stands trial if accused."""

    messages: ClassVar[Any] = TrialMessage

    coordinator: ProcessId = 0
    changes: int = 0  # reported so far

    def receive(self, sender: ProcessId, message: TrialMessage, out: Outbox[TrialMessage]) -> None:
        """Handle a message of a trial."""
        self.judge(sender, message, out)

    def _changed(self, out: Outbox[Any]) -> None:
        self.changes += 1
        out.send(self.coordinator, Change(self.me, self.changes, self.wait))


class Known(NamedTuple):
    """The last that a coordinator has heard of a process."""

    process: ProcessId
    changes: int
    wait: Wait | None


Message: TypeAlias = Change | TrialMessage


class Coordinator(Process[Message]):
    """The one who gathers the graph and accuses victims."""

    messages: ClassVar[Any] = Message
    channel: ClassVar[Channel] = Channel.UNORDERED

    known: set[Known] = set()
    accused: set[ProcessId] = set()  # victims whose trial is not over
    over: set[WaitId] = set()  # of each victim the last wait that it said is over

    def receive(self, sender: ProcessId, message: Message, out: Outbox[Message]) -> None:
        """Handle a change or the end of a trial; nobody asks a coordinator anything else."""
        match message:
            case Change(process, count, wait):
                self._learn(process, count, wait, out)
            case Settled(case, over):
                self._settled(sender, case, over, out)
            case Accuse() | Confirm() | Confirmed() | Denied() | Release():
                super().receive(sender, message, out)

    def _learn(
        self, process: ProcessId, count: int, wait: Wait | None, out: Outbox[Message]
    ) -> None:
        last = find(self.known, process)
        if last is None or count > last.changes:
            put(self.known, Known(process, count, wait))
            self._look(out)

    def _settled(self, victim: ProcessId, case: int, over: bool, out: Outbox[Message]) -> None:
        self.accused.remove(victim)
        last = find(self.over, victim)
        if over and (last is None or case > last.number):
            put(self.over, WaitId(victim, case))
        self._look(out)

    def _look(self, out: Outbox[Message]) -> None:
        """Accuse the victim of each core that is not on trial yet."""
        waits = self._waits()
        for core in graph_of(waits).cores():
            victim = choose_victim(waits, core)
            if victim is not None and victim not in self.accused:
                self.accused.add(victim)
                out.send(victim, Accuse(waits[victim].number, members_of(waits, core)))

    def _waits(self) -> dict[ProcessId, Wait]:
        """Waits as far as they are known, without those that a victim's answer shows to be over."""
        over = dict(self.over)
        return {
            process: wait
            for process, _, wait in sorted(self.known, key=itemgetter(0))
            if wait is not None and wait.number > over.get(process, 0)
        }
