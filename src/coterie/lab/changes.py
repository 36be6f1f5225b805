"""The states along a recorded run: those at its beginning, and then only what changes.

A long run has as many states as records. Most records change a field or two of one process, so that is
what is kept; a page that knows the beginning can come to any moment of the run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from coterie.errors import CoterieError
from coterie.lab.address import Refusal
from coterie.lab.run import ProcessState, changed, state_of
from coterie.scenario.replay import Replay
from coterie.trace import Called, Crashed, Delivered, Noticed, Rang, Started

if TYPE_CHECKING:
    from coterie.trace import AnyRecord, Trace

RECORDS_MAX = 100_000


class Change(msgspec.Struct, frozen=True, array_like=True):
    """What a record changed of one process: fields by name, and the rest as in its state."""

    record: int  # its place in the trace, from 0 on
    process: int
    fields: dict[str, Any]
    rest: dict[str, Any]  # phase, timers and watches, where they changed


class Changes(msgspec.Struct, frozen=True):
    """The processes as they were before the first record, and what changed after that, in order."""

    beginning: list[ProcessState]
    changes: list[Change]


def changes_along(trace: Trace) -> Changes | Refusal:
    """Run a trace again, and note what each of its records changes."""
    if len(trace.records) > RECORDS_MAX:
        return Refusal(f"at most {RECORDS_MAX:,} records are run again, not {len(trace.records):,}")
    try:
        again = Replay(trace)
        states = {process: state_of(again.world, process) for process in again.world.seats}
        beginning = list(states.values())
        changes = []
        for place, record in enumerate(trace.records):
            again.follow(record)
            process = _mover(record)
            if process is not None:
                old, new = states[process], state_of(again.world, process)
                names = changed(old, new)
                states[process] = new
                if names:
                    changes.append(_change(place, new, names))
    except CoterieError as error:
        return Refusal(str(error))
    return Changes(beginning, changes)


def _mover(record: AnyRecord) -> int | None:
    """Return the process that an input changes."""
    match record:
        case Called() | Rang() | Noticed() | Started() | Crashed():
            return record.process
        case Delivered():
            return record.receiver
        case _:
            return None


def _change(place: int, new: ProcessState, names: list[str]) -> Change:
    fields = {name: value for name, value in new.fields.items() if name in names}
    rest = {name: getattr(new, name) for name in names if name not in new.fields}
    return Change(place, new.process, fields, rest)
