"""The detectors of deadlocks as an algorithm that `coterie check` explores and the laboratory plays.

It is installed under the name `detection`, as other packages install theirs. All waits of the graph begin at
the start, so that who has to give way is known from the graph alone.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from coterie.algorithms.deadlock.condition import Condition, all_of, any_of
from coterie.algorithms.deadlock.detectors.party import (
    DiffusingParty,
    Party,
    ReportingParty,
    ScriptStep,
    SurveyParty,
)
from coterie.algorithms.deadlock.wait_for import Graph
from coterie.catalogue import Algorithm, Costs, Parameter, Setup, Variant
from coterie.catalogue.loader import unstated
from coterie.errors import ConfigError, UsageError
from coterie.lab.detect.systems import Role, build_system
from coterie.lab.explore import Always, CanAlwaysStill, Exercised, Together, at_least

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.process import Process, ProcessId, Seat

RING = "ring"  # each waits for the next one
GROUP = 2  # processes under one controller
WAIT = re.compile(r"(\d{1,3})>(\d{1,3}(?:\|\d{1,3})+|\d{1,3}(?:&\d{1,3})*)", re.ASCII)
Waits = tuple[tuple[int, Condition[int]], ...]  # by process; none: a ring of all


def goes_on(seat: Seat) -> bool:
    """Return whether the process is in no wait, or is one that only detects."""
    return not isinstance(seat.process, Party) or seat.process.detector.wait is None


def gave_way(seat: Seat) -> bool:
    """Return whether the wait of the process was broken off."""
    return isinstance(seat.process, Party) and seat.process.picked > 0


def only_who_has_to(seats: Sequence[Seat | None]) -> bool:
    """Return whether each process that gave way had to, once, to break a deadlock of the graph."""
    parties = [seat.process for seat in seats if seat and isinstance(seat.process, Party)]
    waits = tuple((party.me, party.script[0].condition) for party in parties if party.script)
    picked = {party.me: party.picked for party in parties if party.picked}
    return picked.keys() <= victims(waits) and all(times == 1 for times in picked.values())


@functools.lru_cache
def victims(waits: Waits) -> frozenset[ProcessId]:
    """Name the youngest of each core, which gives way, until no deadlock is left."""
    left, found = dict(waits), []
    while cores := Graph(left).cores():
        found.append(max(cores[0]))
        del left[found[-1]]
    return frozenset(found)


PROPERTIES = (
    CanAlwaysStill("every wait can end", goes_on, "go on"),
    Always("no false victim", (Together(only_who_has_to),), "a process gives way that need not"),
    Exercised("a victim", (at_least(1, gave_way),), "no process ever gives way"),
)


class JudgedDiffusing(DiffusingParty):
    """Processes that find deadlocks by themselves, by probes."""

    properties: ClassVar[tuple[Any, ...]] = PROPERTIES


class JudgedReporting(ReportingParty):
    """Processes that report their waits."""

    properties: ClassVar[tuple[Any, ...]] = PROPERTIES


class JudgedSurvey(SurveyParty):
    """Processes that find deadlocks by themselves, by the rules of the survey."""

    properties: ClassVar[tuple[Any, ...]] = PROPERTIES


JUDGED: dict[type[Party], type[Party]] = {
    DiffusingParty: JudgedDiffusing,
    ReportingParty: JudgedReporting,
    SurveyParty: JudgedSurvey,
}


def build(setup: Setup) -> list[Process[Any]]:
    """Build the processes that wait, and behind them those that the detector needs besides."""
    given: Waits = setup.parameters["waits"]
    waiting = _waiting(setup, given)
    waits = dict(given or _ring(waiting))
    roles = [
        Role((ScriptStep(0.0, waits[me]),) if me in waits else (), born=me)
        for me in range(1, waiting + 1)
    ]
    return [_judged(process) for process in build_system(setup.variant, roles, group=GROUP)]


def _waiting(setup: Setup, given: Waits) -> int:
    """Return how many of N processes wait for each other; the others only detect."""
    sizes = {count + _besides(setup.variant, count): count for count in range(2, setup.size + 1)}
    if setup.size not in sizes:
        raise ConfigError(
            f"{setup.variant} has no system of {setup.size} processes, with those that only detect;"
            f" choose -N from {', '.join(map(str, sorted(sizes)))} or more"
        )
    named = [name for me, condition in given for name in (me, *condition.targets())]
    if given and max(named) != sizes[setup.size]:
        needed = max(named) + _besides(setup.variant, max(named))
        raise ConfigError(
            f"these waits are of {max(named)} processes: choose -N {needed} with {setup.variant}"
        )
    return sizes[setup.size]


def _besides(variant: str, count: int) -> int:
    controllers = -(-count // GROUP) + 1
    return {"central": 1, "hierarchical": controllers}.get(variant, 0)


def _ring(size: int) -> Waits:
    return tuple((me, all_of(me % size + 1)) for me in range(1, size + 1))


def _judged(process: Process[Any]) -> Process[Any]:
    if not isinstance(process, Party):
        return process
    return JUDGED[type(process)](*msgspec.structs.astuple(process))


def parse_waits(text: str, _: int) -> Waits:
    """Read who waits for whom, such as `1>2 2>1|3 3>1&2`."""
    if text == RING:
        return ()
    found: dict[int, Condition[int]] = {}
    for word in text.split():
        match = WAIT.fullmatch(word)
        if match is None:
            raise UsageError(
                f"expected waits such as '1>2 2>1|3 3>1&2' (| any of them, & all), or {RING!r},"
                f" got {word[:40]!r}"
            )
        me, others = int(match[1]), [int(other) for other in re.split(r"[|&]", match[2])]
        if me in found:
            raise UsageError(f"process {me} waits twice: write it as {me}>A&B or {me}>A|B")
        if me in others or 0 in (me, *others) or len(set(others)) < len(others):
            raise UsageError(f"processes are 1, 2, 3 ... and wait for others, each once: {word!r}")
        found[me] = any_of(*others) if "|" in match[2] else all_of(*others)
    if not found:
        raise UsageError(f"expected waits such as '1>2 2>1', or {RING!r}")
    return tuple(sorted(found.items()))


ALGORITHM = Algorithm(
    name="detection",
    family="deadlock",
    summary="Detectors of deadlocks on one wait-for graph, in which all waits begin at the start",
    citation="see docs/deadlock-detectors.md",
    process=JudgedDiffusing,
    build=build,
    costs=Costs(*[unstated] * 5),
    assumes=("reliable links", "no crash"),
    tolerates=("reordering",),
    causal=False,
    variants=(
        Variant(
            "diffusing", "probes follow the waits, and all that they reach report to the origin"
        ),
        Variant("central", "all report to a coordinator, which is process N"),
        Variant("hierarchical", "pairs report to a controller, and controllers to a root"),
        Variant("survey", "the rules of the survey of 1987, which miss some graphs", sound=False),
    ),
    parameters=(
        Parameter(
            "waits",
            RING,
            f"who waits for whom, such as '1>2 2>1|3 3>1&2', or {RING!r}",
            parse_waits,
        ),
    ),
)
