"""A check for a page: every interleaving within a bound, with progress, and a run to play if it fails."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import msgspec

from coterie.catalogue import find
from coterie.coteries.coterie import shorter_lists
from coterie.lab.explore import check, check_timed, needs_clock, refuse_with_clock
from coterie.lab.play.exercises.quorums import LISTED_IDS_MAX
from coterie.lab.play.exploration.bound import Bound
from coterie.lab.play.runs.address import write_address
from coterie.lab.play.runs.fork import address_of
from coterie.lab.play.runs.refusal import Refusal
from coterie.lab.play.trials.columns import Columns, columns_of
from coterie.lab.scenario import from_trace
from coterie.lab.scenario.play import read_first_line

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from coterie.lab.explore import Progress, Verdict
    from coterie.process import Channel, Process
    from coterie.trace import Header, Trace

STATES_MAX = 3_000_000
SECONDS_MAX = 120.0
UNTIMED = ("losses", "duplicates", "suspicions")  # faults that a search with a clock lacks


class CheckQuestion(msgspec.Struct, frozen=True):
    """Which processes, and what could happen."""

    first: str
    bound: Bound = Bound()


class Counterexample(msgspec.Struct, frozen=True):
    """The shortest run that violates a property."""

    moves: int
    scenario: str
    columns: Columns
    address: str | None  # at which it is played, if it can be
    refusal: str = ""


class CheckAnswer(msgspec.Struct, frozen=True):
    """What the search came to."""

    verdict: str
    property: str | None
    reason: str
    states: int
    transitions: int
    depth: int
    seconds: float
    sometimes: dict[str, bool]
    notes: list[str]  # whatever else the search has to say
    counterexample: Counterexample | None
    command: str


# Of a verdict; the page says the rest in words.
SHOWN = (*CheckAnswer.__struct_fields__, "collision_probability")


@shorter_lists(LISTED_IDS_MAX)
def run_check(question: CheckQuestion, progress: Callable[[Progress], None]) -> CheckAnswer:
    """Search; `progress` is called about twice a second, and ends the search if it raises."""
    question.bound.check()
    header, channel = read_first_line(question.first)
    entry = find(header.algorithm)
    setup = entry.setup(header.size, header.variant or None, header.parameters)
    header = msgspec.structs.replace(header, variant=setup.variant)
    verdict = _search(entry.build(setup), question.bound, channel, header, progress)
    found = verdict.counterexample
    return CheckAnswer(
        verdict=verdict.verdict,
        property=verdict.property,
        reason=verdict.reason,
        states=verdict.states,
        transitions=verdict.transitions,
        depth=verdict.depth,
        seconds=verdict.seconds,
        sometimes=verdict.sometimes,
        notes=_notes(verdict),
        counterexample=None if found is None else _counterexample(found, verdict.depth),
        command=_command(question, header, channel),
    )


def _search(
    processes: Sequence[Process[Any]],
    bound: Bound,
    channel: Channel | None,
    header: Header,
    progress: Callable[[Progress], None],
) -> Verdict:
    budget: dict[str, Any] = {
        "max_states": STATES_MAX,
        "max_seconds": SECONDS_MAX,
        "header": header,
        "progress": progress,
    }
    if not needs_clock(processes):
        return check(processes, **bound.arguments(), channel=channel, **budget)
    refuse_with_clock({"channel": channel, **{name: getattr(bound, name) for name in UNTIMED}})
    delays = [limit for process in processes if (limit := process.delay_max()) is not None]
    return check_timed(
        processes,
        delays=(1, int(min(delays))),
        entries=bound.entries,
        crashes=bound.crashes,
        **budget,
    )


def _notes(verdict: Verdict) -> list[str]:
    """Say what was seen on the way, and whatever else a verdict has to say than is shown as numbers."""
    reached = [name for name, seen in verdict.sometimes.items() if seen]
    missed = [name for name, seen in verdict.sometimes.items() if not seen]
    said = [f"Seen on the way: {', '.join(reached)}."] if reached else []
    said += [f"Never seen: {', '.join(missed)}."] if missed else []
    for name in verdict.__struct_fields__:
        told = None if name in SHOWN else msgspec.to_builtins(getattr(verdict, name))
        if told:
            said.append(f"{name.replace('_', ' ').capitalize()}: {_plain(told)}.")
    return said


def _plain(told: Any) -> str:
    if isinstance(told, dict):
        return ", ".join(f"{name} {_plain(value)}" for name, value in told.items())
    if isinstance(told, list):
        return ", ".join(map(_plain, told))
    return f"{told:g}" if isinstance(told, float) else str(told)


def _counterexample(trace: Trace, depth: int) -> Counterexample:
    address, refusal = None, ""
    try:
        address = write_address(address_of(trace))
    except Refusal as error:
        refusal = str(error)
    return Counterexample(depth, from_trace(trace), columns_of(trace), address, refusal)


def _command(question: CheckQuestion, header: Header, channel: Channel | None) -> str:
    words = ["coterie", "check", header.algorithm, "-N", str(header.size)]
    if header.variant:  # a file of a user's own has none
        words += ["--variant", header.variant]
    for name, value in header.parameters.items():
        words += [f"--{name}", value]
    if channel is not None:
        words += ["--channel", channel.value]
    usual = Bound()
    for name in usual.__struct_fields__:
        if (chosen := getattr(question.bound, name)) != getattr(usual, name):
            words += [f"--{name}", str(chosen)]
    return shlex.join(words)
