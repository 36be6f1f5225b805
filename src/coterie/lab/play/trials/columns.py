"""A recorded run as a page draws it: messages, stays and events, each as columns of numbers.

A record as JSON takes a hundred bytes, and a row of columns a tenth of that: a page holds a run of
tens of thousands of records and draws the part in view.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from coterie.diagram.lifelines import LaneCondition, history
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
    from coterie.diagram.lifelines import Flight, Stay
    from coterie.trace import AnyRecord, Trace

DIGITS = 6  # behind the point, of a time: what a page can show


class Flights(msgspec.Struct, frozen=True):
    """Messages in the order of sending; one that the network repeated has a row for each arrival."""

    sent: list[float]
    arrived: list[float | None]  # None: under way at the end, or lost
    lost: list[float | None]
    sender: list[int]
    receiver: list[int]
    text: list[int]  # the place of its label among the texts


class Stays(msgspec.Struct, frozen=True):
    """How a process was for a while: waiting, inside, crashed, paused, or following a leader."""

    process: list[int]
    text: list[int]
    begin: list[float]
    end: list[float]


class Happenings(msgspec.Struct, frozen=True):
    """What a reader can stop at: all records but first starts, and messages sent, which follow."""

    record: list[int]  # its place in the trace, from 0 on
    time: list[float]
    process: list[int]  # 0 for what is about all of them
    kind: list[int]  # the place of its kind among the texts
    peer: list[int]  # the sender of a message, the process that was noticed, or 0
    text: list[int]  # what was received, called, told or rang


class Columns(msgspec.Struct, frozen=True):
    """Everything that a page draws of a run."""

    size: int
    begin: float
    end: float
    texts: list[str]
    messages: Flights
    stays: Stays
    events: Happenings


def columns_of(trace: Trace, end: float | None = None) -> Columns:
    """Write a trace as columns; what has not ended by its last record lasts until `end`."""
    past = history(trace, end)
    texts = _Texts()
    flights = [row for flight in past.flights.values() for row in _rows(flight)]
    stays = [*past.stays, *_followed(trace, past.end)]
    return Columns(
        size=trace.header.size,
        begin=_round(past.begin),
        end=_round(past.end),
        messages=Flights(
            sent=[_round(flight.begin) for flight, _ in flights],
            arrived=[None if time is None else _round(time) for _, time in flights],
            lost=[
                None if flight.lost is None or time is not None else _round(flight.lost)
                for flight, time in flights
            ],
            sender=[flight.sender for flight, _ in flights],
            receiver=[flight.receiver for flight, _ in flights],
            text=[texts.place(flight.label) for flight, _ in flights],
        ),
        stays=Stays(
            process=[stay[0] for stay in stays],
            text=[
                texts.place(stay[1].value if isinstance(stay[1], LaneCondition) else stay[1])
                for stay in stays
            ],
            begin=[_round(stay[2]) for stay in stays],
            end=[_round(stay[3]) for stay in stays],
        ),
        events=_happenings(trace, texts),
        texts=texts.all,
    )


class _Texts:
    """Each text once, with its place."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}

    def place(self, text: str) -> int:
        return self._places.setdefault(text, len(self._places))

    @property
    def all(self) -> list[str]:
        return list(self._places)


def _round(time: float) -> float:
    return round(time, DIGITS)


def _rows(flight: Flight) -> list[tuple[Flight, float | None]]:
    return [(flight, time) for time in flight.arrivals] or [(flight, None)]


def _followed(trace: Trace, end: float) -> list[Stay | tuple[int, str, float, float]]:
    """Return which leader each process of an election followed, and how long."""
    since: dict[int, tuple[str, float]] = {}
    stays: list[Stay | tuple[int, str, float, float]] = []

    def turn(process: int, time: float, text: str | None) -> None:
        if process in since:
            stays.append((process, *since.pop(process), time))
        if text is not None:
            since[process] = text, time

    for record in trace.records:
        match record:
            case Told(time, process, ["Elected", int(leader)]):
                turn(process, time, "leads" if leader == process else f"follows {leader}")
            case Crashed(time, process) | Started(time, process):
                turn(process, time, None)
            case _:
                pass
    for process in sorted(since):
        turn(process, end, None)
    return stays


def _happenings(trace: Trace, texts: _Texts) -> Happenings:
    labels: dict[int, str] = {}
    rows: list[tuple[int, float, int, int, int, int]] = []
    begun: set[int] = set()
    for place, record in enumerate(trace.records):
        if isinstance(record, Sent):
            labels[record.number] = record.label
            continue
        if isinstance(record, Started) and record.process not in begun:
            begun.add(record.process)
            continue
        process, peer, text = _about(record, labels)
        kind = texts.place(type(record).__name__.lower())
        rows.append((place, _round(record.time), process, kind, peer, texts.place(text)))
    columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(6)]
    return Happenings(*columns)


def _about(record: AnyRecord, labels: dict[int, str]) -> tuple[int, int, str]:
    """Return the process that a record is about, its peer, and what it is about."""
    process, peer, text = 0, 0, ""
    match record:
        case Delivered(_, number, sender, receiver):
            process, peer, text = receiver, sender, labels.get(number, "")
        case Dropped(_, number, sender, receiver, reason):
            process, peer, text = receiver, sender, f"{labels.get(number, '')} ({reason})"
        case Sent(_, _, sender, receiver, _, label):
            process, peer, text = sender, receiver, label
        case Called(_, process, text) | Rang(_, process, text) | Told(_, process, _, text):
            pass
        case Noticed(_, process, peer):
            pass
        case Violated(_, name, reason):
            text = f"{name}: {reason}"
        case Repeated():
            text = "from here on, again and again"
        case Started(_, process) | Crashed(_, process) | Paused(_, process) | Resumed(_, process):
            pass
    return process, peer, text
