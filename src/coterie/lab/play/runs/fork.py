"""A recorded run as one to be played on: a counterexample, or a simulation up to any record of it."""

from __future__ import annotations

from coterie.errors import CoterieError
from coterie.lab.play.runs.address import MOVES_MAX, Address, Refusal
from coterie.lab.scenario.script import Script
from coterie.trace import Trace


def address_of(trace: Trace, until: int | None = None) -> Address | Refusal:
    """Return the run that leads through a trace, or through its first `until` records.

    Timers of a simulation become moves. A run in which processes pause, or keep their memory over a
    crash, cannot be played by hand.
    """
    part = Trace(trace.header, [*trace.records[:until]])
    script = Script(part)
    try:
        for record in part.records:
            script.write(record)
        first = script.first_line()  # of processes that the catalogue has
    except CoterieError as error:
        return Refusal(str(error))
    moves = [command for command in script.commands if not command.startswith("#")]
    if len(moves) > MOVES_MAX:
        return Refusal(f"a run has at most {MOVES_MAX:,} moves, not {len(moves):,}")
    return Address(first, moves, len(moves))
