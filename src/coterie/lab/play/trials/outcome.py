"""What a simulated run came to, in sentences; of one that failed, what is known about the reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.diagram.lifelines import LaneCondition, history
from coterie.trace import Crashed, Dropped, Paused

if TYPE_CHECKING:
    from coterie.catalogue import Algorithm, Setup
    from coterie.lab.simulate import Result
    from coterie.trace import Trace

NAMED_MAX = 6  # processes, one by one; the others are counted


def explain_outcome(entry: Algorithm, setup: Setup, result: Result) -> list[str]:
    """Say how a run ended, which users were left waiting, and which assumptions did not hold."""
    trace = result.trace
    assert trace is not None, "the run was recorded"
    said = [_ending(result)]
    if result.stopped == "done" and not result.unserved:
        return said
    said += _waiting(trace, result.time)
    variant = entry.variant(setup.variant)
    if not variant.sound:
        said.append(f"The variant {variant.name} is flawed: {variant.summary}.")
    said += _broken_assumptions(entry, setup, result, trace)
    return said


def _ending(result: Result) -> str:
    for violation in result.violations:
        return f"Violated at {violation.time:.4g}: {violation.name}; {violation.text}."
    match result.stopped:
        case "event limit":
            return (
                f"Cut after {result.events:,} events, which is as long as a run is here;"
                " on a command line it goes on."
            )
        case "time limit":
            return f"Cut at time {result.time:g}."
        case _ if result.unserved:
            left = (
                "1 user still waits"
                if result.unserved == 1
                else f"{result.unserved} users still wait"
            )
            return f"All is quiet at {result.time:.4g}, and {left}."
        case _:
            served = f"{result.entries:,} entries, and all" if result.entries else "All"
            return f"{served} is quiet at {result.time:.4g}."


def _waiting(trace: Trace, end: float) -> list[str]:
    """Name those that wait at the end, and those that are down."""
    stays = [stay for stay in history(trace, end).stays if stay.end == end]
    kinds = {LaneCondition.WAITING: "Still waiting", LaneCondition.DOWN: "Down"}
    said = []
    for condition, words in kinds.items():
        found = [stay for stay in stays if stay.condition is condition]
        named = [f"process {stay.process} since {stay.begin:.4g}" for stay in found[:NAMED_MAX]]
        more = [f"{len(found) - NAMED_MAX} more"] if len(found) > NAMED_MAX else []
        if found:
            said.append(f"{words}: {', '.join([*named, *more])}.")
    return said


def _broken_assumptions(entry: Algorithm, setup: Setup, result: Result, trace: Trace) -> list[str]:
    tolerated = entry.faults_tolerated(setup.variant)
    happened = {
        "crash": any(isinstance(record, Crashed) for record in trace.records),
        "loss": any(isinstance(x, Dropped) and x.reason != "receiver down" for x in trace.records),
        "pause": any(isinstance(record, Paused) for record in trace.records),
    }
    said = [
        f"{entry.name} does not tolerate a {fault}, and there was one."
        for fault, did in happened.items()
        if did and fault not in tolerated
    ]
    if result.late:
        said.append(f"{result.late:,} messages took longer than {entry.name} relies on.")
    return said
