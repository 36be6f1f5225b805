"""Export for Perfetto and other viewers of Chrome's trace-event format.

Each process has two tracks: what it is (waiting, inside, crashed, paused) and the steps that it
takes; messages are arrows between steps. One unit of time is shown as a millisecond.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from coterie.diagram.lifelines import LaneCondition, Lifelines, history
from coterie.trace import Called, Delivered, Noticed, Rang, Started

if TYPE_CHECKING:
    from collections.abc import Iterator

    from coterie.trace import AnyRecord, Trace

Fields: TypeAlias = dict[str, Any]

UNIT = 1000.0  # microseconds, the unit of the format
CONDITION, STEPS = 1, 2  # the tracks


def perfetto(trace: Trace) -> str:
    """Write a trace as trace events in JSON."""
    past = history(trace)
    step = _step_length(trace) * UNIT
    events = [
        *_names(trace),
        *_stays(past),
        *_steps(trace, past, step),
        *_messages(past, step),
        *_violations(past),
    ]
    return msgspec.json.encode({"displayTimeUnit": "ms", "traceEvents": events}).decode() + "\n"


def _step_length(trace: Trace) -> float:
    """Choose a length for steps, which take no time, such that none runs into the next."""
    moments = sorted({record.time for record in trace.records})
    gaps = [later - earlier for earlier, later in itertools.pairwise(moments)]
    return min(min(gaps, default=1.0) / 2, 0.1)


def _names(trace: Trace) -> Iterator[Fields]:
    for process in range(1, trace.header.size + 1):
        yield _fields("M", "process_name", process, args={"name": f"process {process}"})
        yield _fields("M", "process_sort_index", process, args={"sort_index": process})
        for track, name in ((CONDITION, "condition"), (STEPS, "steps")):
            yield _fields("M", "thread_name", process, tid=track, args={"name": name})


def _stays(past: Lifelines) -> Iterator[Fields]:
    for stay in past.stays:
        # Slices of a track must not cross; a pause crosses other conditions, but no steps.
        track = STEPS if stay.condition is LaneCondition.PAUSED else CONDITION
        yield _fields(
            "X",
            stay.condition.value,
            stay.process,
            tid=track,
            ts=stay.begin * UNIT,
            dur=(stay.end - stay.begin) * UNIT,
        )


def _steps(trace: Trace, past: Lifelines, length: float) -> Iterator[Fields]:
    for record in trace.records:
        step = _step(record, past)
        if step is not None:
            process, name = step
            yield _fields("X", name, process, tid=STEPS, ts=record.time * UNIT, dur=length)


def _step(record: AnyRecord, past: Lifelines) -> tuple[int, str] | None:
    """Say which process takes a step because of the record, and what to call it."""
    if isinstance(record, Called):
        return record.process, record.call
    if isinstance(record, Rang):
        return record.process, f"timer {record.timer}"
    if isinstance(record, Noticed):
        return record.process, f"{record.peer} is down"
    if isinstance(record, Started):
        return record.process, "start"
    if isinstance(record, Delivered):
        return record.receiver, past.flights[record.number].label
    return None


def _messages(past: Lifelines, step: float) -> Iterator[Fields]:
    """Bind each message to the steps that sent it and that it caused, a little after they began."""
    for flight in past.flights.values():
        for copy, time in enumerate(flight.arrivals):
            message = {"cat": "message", "id": f"{flight.number}.{copy}", "tid": STEPS}
            leaves, arrives = flight.begin * UNIT + step / 2, time * UNIT + step / 2
            yield _fields("s", flight.kind, flight.sender, ts=leaves, **message)
            yield _fields("f", flight.kind, flight.receiver, ts=arrives, bp="e", **message)


def _violations(past: Lifelines) -> Iterator[Fields]:
    for violation in past.violations:
        yield _fields("i", violation.caption(), 1, tid=STEPS, ts=violation.time * UNIT, s="g")


def _fields(phase: str, name: str, process: int, **others: Any) -> Fields:
    return {"ph": phase, "name": name, "pid": process, **others}
