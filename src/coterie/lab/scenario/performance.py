"""A scenario that is played: what is written flush left is done, what it caused is written below it."""

from __future__ import annotations

from typing import NamedTuple

from coterie.errors import CoterieError, UsageError
from coterie.lab.scenario.play import Play, begin
from coterie.lab.scenario.script import Script
from coterie.trace import Trace


class Performance(NamedTuple):
    """A scenario that was played: its transcript as it came out, and the trace of the run."""

    transcript: str
    trace: Trace


def perform(text: str) -> Performance:
    """Play a scenario. A line that cannot be played is an error that says what can be."""
    play: Play | None = None
    transcript: list[str] = []
    title = ""
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith((" ", "\t")):
            continue
        transcript.append(line.rstrip())
        if line.startswith("#") and play is None:
            title = title or line.strip("# ")
        if line.startswith("#") or not line.strip():
            continue
        try:
            if play is None:
                play = begin(line, title)
                transcript += play.start()
            else:
                transcript += play.command(line)
        except CoterieError as error:
            raise UsageError(f"line {number}: {error}") from None
    if play is None:
        raise UsageError("an empty scenario: the first line is an algorithm and a size")
    return Performance("\n".join(transcript) + "\n", Trace(play.header, play.world.records))


def from_trace(trace: Trace) -> str:
    """Write the scenario of a run, such as a counterexample that the explorer has found.

    Runs in which processes pause, or come back with their memory, have none.
    """
    script = Script(trace)
    for record in trace.records:
        script.write(record)
    return perform(script.text()).transcript
