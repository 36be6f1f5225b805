"""Export for ShiViz, which draws and queries runs by what happened before what.

A ShiViz log begins with the regular expression that reads it and a line for a separator of several
runs, empty here. Then come two lines per event: the host with its vector clock, and what happened.
The arrows follow from the clocks. Messages lost and properties violated are no host's events, so
they are left out.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import msgspec

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

PATTERN = r"(?<host>\S+) (?<clock>\{.*\})\n(?<event>.*)"


def shiviz(trace: Trace) -> str:
    """Write a trace as a ShiViz log."""
    clocks: defaultdict[int, dict[str, int]] = defaultdict(dict)
    sent: dict[int, tuple[str, dict[str, int]]] = {}
    lines = [PATTERN, ""]
    for record in trace.records:
        event = _event(record, sent)
        if event is None:
            continue
        process, text = event
        clock = clocks[process]
        if isinstance(record, Delivered):
            for host, time in sent[record.number][1].items():
                clock[host] = max(clock.get(host, 0), time)
        clock[_host(process)] = clock.get(_host(process), 0) + 1
        if isinstance(record, Sent):
            sent[record.number] = record.label, dict(clock)
        lines += [f"{_host(process)} {msgspec.json.encode(clock, order='sorted').decode()}", text]
    return "\n".join(lines) + "\n"


def _event(
    record: AnyRecord, sent: dict[int, tuple[str, dict[str, int]]]
) -> tuple[int, str] | None:
    """Say at which process something happened, and what."""
    match record:
        case Sent(_, _, sender, receiver, _, label):
            event = sender, f"sends {label} to {receiver}"
        case Delivered(_, number, sender, receiver):
            event = receiver, f"gets {sent[number][0]} from {sender}"
        case Called(_, process, call):
            event = process, f"is asked to {call}"
        case Told(_, process, _, label):
            event = process, f"tells {label}"
        case Rang(_, process, timer):
            event = process, f"hears timer {timer}"
        case Noticed(_, process, peer):
            event = process, f"hears that {peer} is down"
        case Started(_, process) | Crashed(_, process) | Paused(_, process) | Resumed(_, process):
            event = process, f"has {type(record).__name__.lower()}"
        case Dropped() | Repeated() | Violated():
            return None
    return event


def _host(process: int) -> str:
    return f"process{process}"
