"""Run a trace again: the same inputs must lead to the same messages and events.

A trace holds the inputs of every process (its start, calls, messages, timers) and what they caused,
so a fresh set of processes can be led through it and compared record by record. The clock of a
process is not in the record: here it shows the time of the record, or 0 if the header says that the
world had no clock, as an explorer has none. A run in which clocks drift replays only if no process
reads its clock; the catalogue says which do.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import msgspec

from coterie.errors import MisuseError, ReplayError
from coterie.lab.scenario.world import Letter, Manual
from coterie.trace import (
    Called,
    Crashed,
    Delivered,
    Dropped,
    Noticed,
    Paused,
    Rang,
    Repeated,
    Resumed,
    Sent,
    Started,
    Told,
    Violated,
)

if TYPE_CHECKING:
    from coterie.process import Outbox, Process, ProcessId
    from coterie.trace import AnyRecord, Trace


def replay(trace: Trace) -> None:
    """Run the trace again, or raise `ReplayError` with the number of the record that differs.

    Records are numbered from 1. Processes are built by the catalogue from the header of the trace;
    those whose start is not recorded are started first.
    """
    again = Replay(trace)
    for number, record in enumerate(trace.records, 1):
        try:
            again.follow(record)
        except ReplayError as error:
            raise ReplayError(f"record {number}: {error}") from None
    if again.due and not any(isinstance(record, Violated) for record in trace.records):
        raise ReplayError(f"record {len(trace.records) + 1}: missing: {_text(again.due[0])}")


def processes_after(trace: Trace) -> list[Process[Any]]:
    """Run a trace again, and return the processes as they are at its end."""
    again = Replay(trace)
    for record in trace.records:
        again.follow(record)
    return [seat.process for seat in again.world.seats.values()]


class Replay:
    """Processes that are led through a trace."""

    def __init__(self, trace: Trace) -> None:
        """Build them, and start those whose start is not recorded."""
        self.world = Manual(trace.header)
        self.letters: dict[int, Letter] = {}  # by their numbers in the trace
        self.due: deque[AnyRecord | Exception] = deque()  # what must be recorded next
        begun: dict[ProcessId, bool] = {}
        for record in trace.records:
            if isinstance(record, Started | Called | Rang | Noticed):
                begun.setdefault(record.process, isinstance(record, Started))
            elif isinstance(record, Delivered):
                begun.setdefault(record.receiver, False)
        for process in self.world.seats:
            if not begun.get(process):
                self._input(Started(0.0, process))

    def follow(self, record: AnyRecord) -> None:
        """Do what the record says, or check that it is what the processes did."""
        match record:
            case Sent() | Told():
                self._output(record)
            case Called() | Delivered() | Rang() | Noticed() | Started():
                self._none_due(record)
                self._input(record)
            case Crashed(time, process):
                self._none_due(record)
                self.world.crash(time, process)
            case Violated():
                if self.due and isinstance(self.due[0], Exception):
                    self.due.clear()
            case Dropped() | Paused() | Resumed() | Repeated():
                pass  # no process notices

    def _none_due(self, record: AnyRecord) -> None:
        if self.due:
            raise ReplayError(f"{_text(record)}, but first: {_text(self.due[0])}")

    def _output(self, record: Sent | Told) -> None:
        if not self.due:
            raise ReplayError(f"{_text(record)}, but nothing happens")
        due = self.due.popleft()
        if isinstance(record, Sent) and isinstance(due, Sent):
            self.letters[record.number] = self.world.transit[due.number - 1]
            due = msgspec.structs.replace(due, number=record.number)
        if isinstance(due, Exception) or _plain(due) != _plain(record):
            raise ReplayError(f"{_text(record)}, but {_text(due)}")

    def _input(self, record: Called | Delivered | Rang | Noticed | Started) -> None:
        before = len(self.world.records)
        try:
            self._move(record)
        except MisuseError as error:
            raise ReplayError(f"{_text(record)}, but {error}") from None
        except ReplayError:
            raise
        except Exception as error:  # noqa: BLE001 - a handler may raise anything
            self.due.append(error)
        else:
            self.due.extend(self.world.records[before + 1 :])

    def _move(self, record: Called | Delivered | Rang | Noticed | Started) -> Outbox[Any]:
        match record:
            case Called(time, process, call):
                return self.world.call(time, process, call)
            case Delivered(time, number):
                if number not in self.letters:
                    raise ReplayError(f"{_text(record)}, but it was never sent")
                # The world keeps all messages: the network may have repeated any of them.
                return self.world.deliver(time, self.letters[number], keep=True)
            case Rang(time, process, timer):
                return self.world.ring(time, process, timer)
            case Noticed(time, process, peer):
                return self.world.down(time, process, peer)
            case Started(time, process, amnesia):
                return self.world.start(time, process, amnesia=amnesia)


def _plain(record: AnyRecord) -> bytes:
    """Write a record as a file has it, where a tuple has become a list."""
    return msgspec.json.encode(record)


def _text(happening: AnyRecord | Exception) -> str:
    """Say what happened, or should have."""
    match happening:
        case Sent(_, _, sender, receiver, _, label):
            text = f"{sender} > {receiver}  {label}"
        case Told(_, process, _, label):
            text = f"{process} {label}"
        case Delivered(_, number, sender, receiver):
            text = f"message {number} from {sender} reaches {receiver}"
        case Called(_, process, call):
            text = f"{call} {process}"
        case Rang(_, process, timer):
            text = f"ring {process} {timer}"
        case Noticed(_, process, peer):
            text = f"down {process} {peer}"
        case Started(_, process) | Crashed(_, process):
            text = f"{type(happening).__name__.lower()} {process}"
        case Exception():
            text = f"{type(happening).__name__}: {happening}"
        case Dropped() | Paused() | Resumed() | Repeated() | Violated():
            text = type(happening).__name__.lower()
    return text
