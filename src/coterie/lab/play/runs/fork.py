"""A recorded run as one to be played on: a counterexample, or a simulation up to any record of it."""

from __future__ import annotations

from coterie.errors import CoterieError
from coterie.lab.play.runs.address import MOVES_MAX, RunAddress
from coterie.lab.play.runs.refusal import Refusal
from coterie.lab.scenario.script import Script
from coterie.trace import Trace


def address_of(trace: Trace, until: int | None = None) -> RunAddress:
    """Return the run that leads through a trace, or through its first `until` records.

    Timers of a simulation become moves. A run in which processes pause, or keep their memory over a
    crash, cannot be played by hand: it is refused.
    """
    part = Trace(trace.header, [*trace.records[:until]])
    script = Script(part)
    try:
        for record in part.records:
            script.write(record)
        first = script.first_line()  # of processes that the catalogue has
    except CoterieError as error:
        raise Refusal(str(error)) from None
    moves = [command for command in script.commands if not command.startswith("#")]
    if len(moves) > MOVES_MAX:
        raise Refusal(f"a run has at most {MOVES_MAX:,} moves, not {len(moves):,}")
    return RunAddress(first, moves, len(moves))
