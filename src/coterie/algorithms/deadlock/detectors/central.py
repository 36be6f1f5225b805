"""Centralised deadlock detection: all report to one coordinator, two messages a wait.

The coordinator keeps the last report of each process and reduces the graph at every change. Reports
are numbered, because one that is overtaken would bring back a wait that is over. Its picture is
still one of different moments; the trial (see `detector`) keeps that from doing harm.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

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
from coterie.algorithms.deadlock.detectors.waits import (
    Wait,
    WaitId,
    choose_victim,
    graph_of,
    members_of,
)
from coterie.process import Channel, Outbox, Payload, Process, ProcessId

if TYPE_CHECKING:
    from collections.abc import Mapping


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
    """The process that gathers the graph and accuses victims."""

    messages: ClassVar[Any] = Message
    channel: ClassVar[Channel] = Channel.UNORDERED

    known: set[Known] = set()
    accused: set[ProcessId] = set()  # victims whose trial is not over
    over: set[WaitId] = set()  # of each victim the last wait that it said is over

    def receive(self, sender: ProcessId, message: Message, out: Outbox[Message]) -> None:
        """Handle a change or the end of a trial; a coordinator is asked nothing else."""
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
        accuse(current_waits(self.known, self.over), self.accused, out)


# Rules of the coordinator, and of a controller in a tree of them


def learn(known: set[Known], change: Change) -> bool:
    """Take note of a change; return False if a later one has overtaken it."""
    last = find(known, change.process)
    if last is not None and change.count <= last.changes:
        return False
    put(known, Known(change.process, change.count, change.wait))
    return True


def settle(accused: set[ProcessId], over: set[WaitId], victim: ProcessId, settled: Settled) -> None:
    """Take note of the end of a trial; what the victim says is over was known too late."""
    accused.remove(victim)
    last = find(over, victim)
    if settled.over and (last is None or settled.case > last.number):
        put(over, WaitId(victim, settled.case))


def accuse(waits: Mapping[ProcessId, Wait], accused: set[ProcessId], out: Outbox[Message]) -> None:
    """Accuse the victim of each core that is not on trial yet."""
    for core in graph_of(waits).cores():
        victim = choose_victim(waits, core)
        if victim is not None and victim not in accused:
            accused.add(victim)
            out.send(victim, Accuse(waits[victim].number, members_of(waits, core)))


def current_waits(known: set[Known], over: set[WaitId]) -> dict[ProcessId, Wait]:
    """Return the waits as far as they are known, without those that victims said are over."""
    ended = dict(over)
    return {
        process: wait
        for process, _, wait in sorted(known, key=itemgetter(0))
        if wait is not None and wait.number > ended.get(process, 0)
    }
