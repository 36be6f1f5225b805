"""Physical clocks over a graph: how far apart they come, beside Lamport's bound.

The first process has the fastest clock and all others the slowest: in a line the two ends differ most. All
begin at any time within a period of each other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from coterie.clocks.synchronisation import synchronisation_bound, synchronised_clocks
from coterie.errors import UsageError
from coterie.lab.simulate.faults import Drift
from coterie.lab.simulate.network import Network, Uniform
from coterie.lab.simulate.simulation import Simulation
from coterie.lab.simulate.workload import Workload
from coterie.process import ProcessId

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.clocks.synchronisation import PhysicalClock
    from coterie.lab.simulate.workload import World

Graph: TypeAlias = dict[ProcessId, list[ProcessId]]

SHAPES = ("line", "ring", "star", "complete")
READINGS = 100  # of all clocks, in each period


class Conditions(msgspec.Struct, frozen=True, kw_only=True):
    """How clocks run and messages travel, in seconds."""

    drift: float  # κ, by which rates differ from 1
    period: float  # τ, between two messages to a neighbour
    least_delay: float  # μ, of any message
    most_delay: float  # μ + ξ
    duration: float

    def __post_init__(self) -> None:
        """Refuse what no clock can do."""
        if not 0 <= self.drift < 1:
            raise UsageError(f"the drift must be from 0 to below 1, got {self.drift:g}")
        if not 0 <= self.least_delay <= self.most_delay:
            raise UsageError(
                f"delays must be 0 <= LOW <= HIGH, got {self.least_delay:g},{self.most_delay:g}"
            )


class ClockSpread(msgspec.Struct, frozen=True):
    """How far apart any two clocks were, in seconds."""

    processes: int
    diameter: int
    bound: float
    since: float  # when the clocks had had time to come together
    largest: float  # from then on
    mean: float
    left_alone: float  # at the end, without messages


def shape_of(name: str, size: int) -> Graph:
    """Return the neighbours of the processes 1 to N."""
    if size < 2:
        raise UsageError(f"clocks are kept together with others: choose 2 at least, got {size}")
    ids = range(1, size + 1)
    match name:
        case "line":
            return {me: [each for each in (me - 1, me + 1) if each in ids] for me in ids}
        case "ring":
            return {me: sorted({(me - 2) % size + 1, me % size + 1} - {me}) for me in ids}
        case "star":
            return {me: [1] if me > 1 else [*ids[1:]] for me in ids}
        case "complete":
            return {me: [each for each in ids if each != me] for me in ids}
        case _:
            raise UsageError(f"no graph {name!r}: choose one of {', '.join(SHAPES)}")


def diameter_of(graph: Graph) -> int:
    """Return the longest of all shortest paths."""
    return max(_farthest(graph, start) for start in graph)


def _farthest(graph: Graph, start: ProcessId) -> int:
    reached, edge, steps = {start}, [start], 0
    while True:
        edge = [peer for each in edge for peer in graph[each] if peer not in reached]
        if not edge:
            return steps
        reached.update(edge)
        steps += 1


@dataclass(frozen=True)
class _Watch(Workload):
    """Reads all clocks again and again."""

    clocks: Sequence[PhysicalClock]
    drifts: Sequence[Drift]
    interval: float
    until: float
    spreads: list[tuple[float, float]] = field(default_factory=list)  # when, and how far apart

    def start(self, world: World) -> None:
        self._look(world, 0)

    def _look(self, world: World, count: int) -> None:
        now = count * self.interval
        shown = [
            clock.read(drift.rate * now + drift.offset)
            for clock, drift in zip(self.clocks, self.drifts, strict=True)
        ]
        self.spreads.append((now, max(shown) - min(shown)))
        if now < self.until:
            world.after(self.interval, partial(self._look, world, count + 1))


def run_clocks(graph: Graph, conditions: Conditions, seed: int = 0) -> ClockSpread:
    """Run the clocks of a graph, and read them from one period after the news has crossed it."""
    diameter, period = diameter_of(graph), conditions.period
    since = (diameter + 1) * period
    if conditions.duration < since:
        raise UsageError(
            f"the clocks come together within {since:g} s: let them run longer than that,"
            f" got {conditions.duration:g}"
        )
    clocks = synchronised_clocks(graph, period=period, least_delay=conditions.least_delay)
    random = Random(f"{seed}/offsets")
    drifts = [
        Drift(me, 1 + conditions.drift * (1 if me == 1 else -1), period * random.random())
        for me in sorted(graph)
    ]
    watch = _Watch(clocks, drifts, period / READINGS, conditions.duration)
    Simulation(
        clocks,
        workload=watch,
        network=Network(latency=Uniform(conditions.least_delay, conditions.most_delay)),
        faults=drifts,
        seed=seed,
        until=conditions.duration,
    ).run()
    seen = [spread for time, spread in watch.spreads if time >= since]
    alone = [drift.rate * conditions.duration + drift.offset for drift in drifts]
    return ClockSpread(
        processes=len(graph),
        diameter=diameter,
        bound=synchronisation_bound(
            diameter=diameter,
            drift=conditions.drift,
            period=period,
            uncertainty=conditions.most_delay - conditions.least_delay,
        ),
        since=since,
        largest=max(seen),
        mean=sum(seen) / len(seen),
        left_alone=max(alone) - min(alone),
    )
