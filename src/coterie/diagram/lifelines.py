"""What the records of a trace amount to: stays of a process in one condition, and flights of messages."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

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
    from coterie.trace import AnyRecord, Trace


ENTERED = ("Entered", "Acquired")  # events that say so, the second with a token of the lock


class LaneCondition(enum.Enum):
    """What a process can be seen to be for a while."""

    WAITING = "waiting"
    INSIDE = "inside"
    DOWN = "crashed"
    PAUSED = "paused"


class Stay(NamedTuple):
    """A process in one condition for a while."""

    process: int
    condition: LaneCondition
    begin: float
    end: float


@dataclass
class Flight:
    """A message from its sender to its receiver; one that is still on its way neither arrives nor is lost."""

    number: int
    sender: int
    receiver: int
    label: str
    begin: float
    arrivals: list[float] = field(default_factory=list)  # several if the network repeated it
    lost: float | None = None
    reason: str = ""

    @property
    def kind(self) -> str:
        """The kind of message, without what it carries."""
        return self.label.partition("(")[0]


@dataclass
class Lifelines:
    """Everything there is to draw, in the order in which it began."""

    begin: float
    end: float
    stays: list[Stay] = field(default_factory=list)
    flights: dict[int, Flight] = field(default_factory=dict)
    calls: list[Called] = field(default_factory=list)
    rings: list[Rang] = field(default_factory=list)
    notices: list[Noticed] = field(default_factory=list)
    events: list[Told] = field(default_factory=list)  # all but entering, which a stay shows
    violations: list[Violated] = field(default_factory=list)
    repeats: list[Repeated] = field(default_factory=list)  # from each on, up to the end

    def kinds(self) -> list[str]:
        """Return the kinds of messages, in the order of their first use."""
        return list(dict.fromkeys(flight.kind for flight in self.flights.values()))


def history(trace: Trace, end: float | None = None) -> Lifelines:
    """Read a trace; whatever has not ended by its last record lasts until `end`."""
    times = [record.time for record in trace.records] or [0.0]
    reader = _Reader(Lifelines(min(times), max(times)))
    for record in trace.records:
        reader.read(record)
    return reader.finish(max(times) if end is None else end)


class _Reader:
    """Follows the condition of each process through the records."""

    def __init__(self, history: Lifelines) -> None:
        self.history = history
        self.current: dict[tuple[int, bool], tuple[LaneCondition, float]] = {}
        self.before_crash: dict[int, LaneCondition] = {}

    def read(self, record: AnyRecord) -> None:
        """Take note of one record."""
        match record:
            case Sent() | Delivered() | Dropped():
                self._fly(record)
            case Called():
                self.history.calls.append(record)
                self._turn(record.process, _after_call(record.call), record.time)
            case Told(time, process, _, label) if label.partition("(")[0] in ENTERED:
                self._turn(process, LaneCondition.INSIDE, time)
            case Told():
                self.history.events.append(record)
            case Rang():
                self.history.rings.append(record)
            case Noticed():
                self.history.notices.append(record)
            case Violated():
                self.history.violations.append(record)
            case Repeated():
                self.history.repeats.append(record)
            case Crashed() | Started() | Paused() | Resumed():
                self._stop_or_go(record)

    def _fly(self, record: Sent | Delivered | Dropped) -> None:
        flights = self.history.flights
        match record:
            case Sent(time, number, sender, receiver, _, label):
                flights[number] = Flight(number, sender, receiver, label, time)
            case Delivered(time, number):
                flights[number].arrivals.append(time)
            case Dropped(time, number, _, _, reason):
                flights[number].lost = time
                flights[number].reason = reason

    def _stop_or_go(self, record: Crashed | Started | Paused | Resumed) -> None:
        time, process = record.time, record.process
        match record:
            case Crashed():
                if (process, False) in self.current:
                    self.before_crash[process] = self.current[process, False][0]
                self._turn(process, LaneCondition.DOWN, time)
            case Started(_, _, amnesia):
                was = self.before_crash.pop(process, None)
                self._turn(process, None if amnesia else was, time)
            case Paused():
                self._turn(process, LaneCondition.PAUSED, time, beside=True)
            case Resumed():
                self._turn(process, None, time, beside=True)

    def _turn(
        self, process: int, condition: LaneCondition | None, time: float, *, beside: bool = False
    ) -> None:
        """End the present stay and begin the next; a pause runs beside the others."""
        present = self.current.pop((process, beside), None)
        if present is not None:
            self.history.stays.append(Stay(process, present[0], present[1], time))
        if condition is not None:
            self.current[process, beside] = (condition, time)

    def finish(self, end: float) -> Lifelines:
        """End what lasts until the end."""
        for process, beside in list(self.current):
            self._turn(process, None, end, beside=beside)
        self.history.stays.sort(key=lambda stay: (stay.begin, stay.process))
        self.history.end = end
        return self.history


def _after_call(call: str) -> LaneCondition | None:
    return LaneCondition.WAITING if call == "acquire" else None
