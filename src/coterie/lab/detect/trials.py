"""What each detector finds, and what it costs: on one graph, and in many random systems."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from coterie.algorithms.deadlock.condition import Condition
from coterie.algorithms.deadlock.detectors.party import STEP, Grant, Party, Request, ScriptStep
from coterie.algorithms.deadlock.detectors.survey import groups
from coterie.errors import ConfigError, UsageError
from coterie.lab.detect.systems import DETECTORS, Role, build_system, random_roles
from coterie.lab.simulate import Exponential, Network, Simulation
from coterie.trace import Header, Rang, Told

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.algorithms.deadlock.wait_for import Graph
    from coterie.lab.simulate import Result
    from coterie.process import Process, ProcessId

UNTIL = 10_000.0
SMALL_GROUP = 2  # so that waits of a small graph cross the groups of the hierarchy
LEAST_RANDOM = 4  # processes: each waits for up to three others
OF_RANDOM_SYSTEMS = tuple(each for each in DETECTORS if each != "survey")  # knows no "2 of 3"


class Found(msgspec.Struct, frozen=True):
    """What a detector made of one graph."""

    detector: str
    victims: tuple[str, ...]  # in order
    left: tuple[str, ...]  # those that still wait at the end
    messages: int  # of the detection alone
    refused: str | None = None  # why it cannot be run on this graph


class Costs(msgspec.Struct, frozen=True):
    """What a detector cost in random systems."""

    detector: str
    period: float | None
    waits: int
    messages_per_wait: float
    busiest: float  # share of all messages that the busiest process sends or receives
    victims: int
    victims_waited: float | None  # on average, until their wait was broken off


def detect(graph: Graph[str], detector: str, seed: int = 0) -> Found:
    """Let all waits of a graph begin at once under a detector; messages take times of the seed."""
    names = _names(graph)
    if not names:
        return Found(detector, (), (), 0)
    ids = {name: me for me, name in enumerate(names, 1)}
    waits = {name: _numbered(condition, ids) for name, condition in graph.waits.items()}
    if detector == "survey":
        try:
            for condition in waits.values():
                groups(condition)
        except ConfigError as error:
            return Found(detector, (), (), 0, refused=str(error))
    roles = [
        Role(
            (ScriptStep(0.0, waits[name]),) if name in waits else (),
            None if name in graph.resources else ids[name],
        )
        for name in names
    ]
    processes = build_system(detector, roles, group=SMALL_GROUP)
    result = _run(processes, seed)
    assert result.trace is not None
    told = [record.process for record in result.trace.records if isinstance(record, Told)]
    left = [name for name, party in zip(names, processes, strict=False) if _waits(party)]
    return Found(
        detector,
        tuple(names[process - 1] for process in told),
        tuple(left),
        _of_detection(result),
    )


def _names(graph: Graph[str]) -> list[str]:
    """Name all processes of a graph, those that wait first, in the order of the file."""
    targets = (name for condition in graph.waits.values() for name in condition.targets())
    return list(dict.fromkeys([*graph.waits, *targets, *graph.running]))


def _numbered(condition: Condition[str], ids: dict[str, ProcessId]) -> Condition[ProcessId]:
    parts = tuple(_numbered(group, ids) for group in condition.groups)
    nodes = tuple(ids[name] for name in condition.nodes)
    return Condition(condition.needed, nodes, parts)


def _run(processes: Sequence[Process[Any]], seed: int) -> Result:
    result = Simulation(
        processes,
        network=Network(latency=Exponential(1.0)),
        seed=seed,
        until=UNTIL,
        header=Header(algorithm="deadlocks", size=len(processes)),
    ).run()
    assert not result.violations, result.violations
    return result


def _waits(process: Process[Any]) -> bool:
    return isinstance(process, Party) and process.detector.wait is not None


def _of_detection(result: Result) -> int:
    kinds = Counter(result.messages_by_kind)
    return result.messages - kinds[Request.__name__] - kinds[Grant.__name__]


def detection_costs(detector: str, size: int, seeds: int, period: float | None = None) -> Costs:
    """Run random systems of that size to their end."""
    if size < LEAST_RANDOM:
        raise UsageError(f"random systems have {LEAST_RANDOM} processes at least, got {size}")
    messages = waits = victims = 0
    busiest = waited = 0.0
    for seed in range(seeds):
        processes = build_system(detector, random_roles(size, seed), period=period)
        result = _run(processes, seed)
        assert not any(_waits(process) for process in processes), "an undetected deadlock"
        messages += _of_detection(result)
        waits += sum(process.done for process in processes if isinstance(process, Party))
        busiest += result.load.max / result.messages / seeds
        times = _times_of_victims(result)
        victims, waited = victims + len(times), waited + sum(times)
    return Costs(
        detector,
        period,
        waits,
        messages / waits,
        busiest,
        victims,
        waited / victims if victims else None,
    )


def _times_of_victims(result: Result) -> list[float]:
    assert result.trace is not None
    began: dict[ProcessId, float] = {}
    times = []
    for record in result.trace.records:
        if isinstance(record, Rang) and record.timer == STEP:
            began[record.process] = record.time
        elif isinstance(record, Told):
            times.append(record.time - began[record.process])
    return times
