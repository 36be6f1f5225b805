"""A recorded run to look at: drawn as it is, and played on by hand if fresh processes do the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from coterie.errors import CoterieError
from coterie.lab.play.runs.refusal import Refusal
from coterie.lab.play.runs.run import SIZE_MAX
from coterie.lab.play.trials.columns import Columns, columns_of
from coterie.lab.play.trials.trial import fork_trace
from coterie.lab.scenario.replay import replay

if TYPE_CHECKING:
    from coterie.trace import Trace

RECORDS_MAX = 100_000  # drawn; a page holds no more


class UntilQuestion(msgspec.Struct, frozen=True):
    """How many records of the run to play."""

    until: int


class RecordedRun(msgspec.Struct, frozen=True):
    """What a page shows of a recorded run."""

    title: str
    notes: list[str]
    playable: bool
    columns: Columns


def show_recorded(trace: Trace) -> RecordedRun:
    """Draw a trace, and run it again to see whether it can be played from any of its events."""
    header = trace.header
    drawn = type(trace)(header, trace.records[:RECORDS_MAX])
    chosen = [f"{name} {value}" for name, value in header.parameters.items()]
    variant = [header.variant] if header.variant else []
    notes = [", ".join([header.algorithm, *variant, f"{header.size} processes", *chosen])]
    if len(trace.records) > RECORDS_MAX:
        notes.append(f"The first {RECORDS_MAX:,} of {len(trace.records):,} records.")
    refusal = _refusal(trace)
    if refusal is None:
        notes.append(
            "Fresh processes that are given the same inputs do the same, record by record."
        )
        try:
            fork_trace(trace, len(trace.records))
        except Refusal as error:
            notes.append(f"Only its beginning can be played by hand: {error}.")
    else:
        notes.append(f"It can be looked at, not played: {refusal}.")
    title = header.title or f"{header.algorithm}, {header.size} processes"
    return RecordedRun(title, notes, refusal is None, columns_of(drawn))


def _refusal(trace: Trace) -> str | None:
    """Say why a run cannot be played by hand, if it cannot."""
    if trace.header.size > SIZE_MAX:
        return f"at most {SIZE_MAX} processes can be"
    try:
        replay(trace)
    except CoterieError as error:
        return f"fresh processes do something else, as where a run is recorded from its middle on ({error})"
    return None
