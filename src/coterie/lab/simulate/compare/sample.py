"""The runs that a comparison measures with one seed.

Delays are measured at a constant latency of one, so that they are in message delays. The saturated
run has latencies that vary around one, since requests that meet by chance are what costs some
algorithms more, and stays that are longer than any latency, so that everyone really waits.

Requesters come in turn where theory has an exact cost for that. Where it knows a mean over random
requesters instead, they are drawn at random, and the entries that lead away from the first state
are not counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

import msgspec

from coterie.catalogue import Costs
from coterie.lab.simulate.metrics import Result
from coterie.lab.simulate.monitors import ViolationError
from coterie.lab.simulate.network import Constant, Latency, Network, Uniform, check_size
from coterie.lab.simulate.simulation import Simulation
from coterie.lab.simulate.workload import Closed, HandOver, OneAtATime, make_workload

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.catalogue import Algorithm, Setup
    from coterie.lab.simulate.workload import Workload
    from coterie.process import ProcessId

ENTRIES_MAX = 1000  # of one run, unless it takes more to let each process enter once
PAIRS_MAX = 200
ROUNDS_AHEAD = 5  # of random requesters: after four, the first state has left no trace in the costs
UNIT = Constant(1.0)
AROUND_UNIT = Uniform(0.5, 1.5)
LONG_STAY = 2.0


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """How costs are measured; None stands for what the formulas assume."""

    workload: str | None = None  # a name of `coterie.lab.simulate.workload.WORKLOADS`
    entries: int = 10  # per process, with a workload
    rate: float = 0.1  # requests per unit of time, where they come at random moments
    hold: float | Latency | None = None
    latency: Latency | None = None
    multicast: bool = False  # a message to several is counted once

    @property
    def assumed(self) -> bool:
        """Whether delays and stays are those that the formulas assume."""
        return self.hold is None and self.latency is None


AS_ASSUMED = Conditions()


class Sample(msgspec.Struct, frozen=True):
    """One seed: requesters one at a time, each twice, all always, and two of them handing over."""

    idle: Result
    idle_messages: float | None  # per entry, those of the beginning left out
    again: Result | None = None  # None in a sample of random requesters alone
    saturated: Result | None = None  # likewise
    handover: Result | None = None  # likewise, and without a second requester


def costs_of(algorithm: Algorithm, *, multicast: bool = False) -> Costs:
    """Return the costs of a mutex."""
    costs = algorithm.costs
    assert isinstance(costs, Costs), f"{algorithm.name} is no mutex"
    few = algorithm.multicast if multicast else None
    if few is None:
        return costs
    return msgspec.structs.replace(costs, idle=few.idle, again=few.again, saturated=few.saturated)


def no_costs(algorithm: Algorithm, setup: Setup) -> str:
    """Begin the line that says why an algorithm cannot be measured."""
    return f"{algorithm.name}, N = {setup.size}, has no costs, since it does not work"


def draws_requesters(algorithm: Algorithm, setup: Setup) -> bool:
    """Return whether theory knows the cost of random requesters, and no exact one in turn."""
    idle = costs_of(algorithm).idle(setup)
    return idle.mean is not None and idle.low != idle.high


def take_sample(algorithm: Algorithm, setup: Setup, conditions: Conditions, seed: int) -> Sample:
    """Make the runs that each cost is measured in."""
    run = _Runs(algorithm, setup, conditions, seed)
    requesters = list(algorithm.requesters(setup))
    count = len(requesters)
    turns = count * (2 if 2 * count <= ENTRIES_MAX else 1)
    share = max(1, min(10, ENTRIES_MAX // count))
    idle_messages: float | None
    if draws_requesters(algorithm, setup):
        idle, idle_messages = _drawn(run, requesters)
    else:
        idle = run(OneAtATime(turns, requesters, hold=run.hold()))
        idle_messages = idle.messages_per_entry
    return Sample(
        idle=idle,
        idle_messages=idle_messages,
        # Each twice, or the mean would be that of some requesters beside a formula for all.
        again=run(OneAtATime(2 * count, requesters, repeat=2, hold=run.hold())),
        saturated=run(Closed(share, requesters, hold=run.hold(LONG_STAY)), AROUND_UNIT),
        handover=run(HandOver(_pairs(requesters))) if count > 1 else None,
    )


def draw_sample(algorithm: Algorithm, setup: Setup, conditions: Conditions, seed: int) -> Sample:
    """Make the runs of random requesters alone: a mean of theory takes more of them."""
    requesters = list(algorithm.requesters(setup))
    return Sample(*_drawn(_Runs(algorithm, setup, conditions, seed), requesters))


def run_workload(algorithm: Algorithm, setup: Setup, conditions: Conditions, seed: int) -> Result:
    """Run the workload of the conditions."""
    run = _Runs(algorithm, setup, conditions, seed)
    requesters = list(algorithm.requesters(setup))
    name = conditions.workload or "closed"
    workload = make_workload(
        name, requesters, entries=conditions.entries, rate=conditions.rate, hold=run.hold()
    )
    return run(workload)


class _Runs:
    """Runs an algorithm under the conditions, and accepts only runs that came to their end."""

    def __init__(
        self, algorithm: Algorithm, setup: Setup, conditions: Conditions, seed: int
    ) -> None:
        self._algorithm, self._setup, self._conditions = algorithm, setup, conditions
        self._seed = seed
        if conditions.latency is not None:
            check_size(conditions.latency, setup.size)

    def hold(self, assumed: float = 0.0) -> float | Latency:
        """Return how long a user stays inside."""
        return assumed if self._conditions.hold is None else self._conditions.hold

    def __call__(self, workload: Workload, assumed: Latency = UNIT) -> Result:
        latency = self._conditions.latency
        result = Simulation(
            self._algorithm.build(self._setup),
            workload=workload,
            network=Network(
                assumed if latency is None else latency, multicast=self._conditions.multicast
            ),
            seed=self._seed,
        ).run()
        for violation in result.violations:
            raise ViolationError(violation.name, f"{self._why}: {violation.text}")
        if result.unserved or result.stopped != "done":
            raise ViolationError(
                "stuck",
                f"{self._why}: {result.unserved} requests were never served in"
                f" {result.events:,} events",
            )
        return result

    @property
    def _why(self) -> str:
        return no_costs(self._algorithm, self._setup)


def _drawn(run: _Runs, requesters: Sequence[ProcessId]) -> tuple[Result, float]:
    """Let random requesters enter one at a time, and count from the state that they have led to.

    A seed draws the same requesters in a longer run, so that the difference of two runs is what the
    last entries cost.
    """
    ahead = ROUNDS_AHEAD * len(requesters)
    counted = max(ENTRIES_MAX, len(requesters))
    before = run(OneAtATime(ahead, requesters, order="random", hold=run.hold()))
    whole = run(OneAtATime(ahead + counted, requesters, order="random", hold=run.hold()))
    return whole, (whole.messages - before.messages) / counted


def _pairs(requesters: Sequence[ProcessId]) -> list[tuple[ProcessId, ProcessId]]:
    """Choose leavers and waiters: all pairs if they are few, else a sample that never changes."""
    count = len(requesters)
    if count * (count - 1) <= PAIRS_MAX:
        return [(a, b) for a in requesters for b in requesters if a != b]
    random = Random(count)
    return [(a, b) for a, b in (random.sample(requesters, 2) for _ in range(PAIRS_MAX))]
