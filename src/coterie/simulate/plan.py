"""A run in words: the algorithm by its name, workload, network and faults, for any seed.

The commands and the pages make plans of what a user typed. A plan is a value that can be pickled, so
that `campaign` may hand it to other processes and machines.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from coterie.catalogue import ElectionCosts, algorithm, unknown
from coterie.errors import UsageError
from coterie.simulate.campaign import Trial, random_crashes
from coterie.simulate.faults import Fault, random_faults
from coterie.simulate.network import Constant, Latency, Network, check_size
from coterie.simulate.workload import Burst, Closed, HotSpot, OneAtATime, Poisson, Workload

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from coterie.catalogue import Algorithm, Setup

ANY_NUMBER = -1  # of random faults: the seed chooses
FAULTS_DURATION = 100.0


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Builds the trial of each seed; raises `UsageError` or `ConfigError` for what cannot be."""

    algorithm: str
    size: int = 5
    variant: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    workload: str = "closed"  # a name of WORKLOADS
    entries: int = 10  # per process
    rate: float = 0.1  # requests per unit of time, where they come at random moments
    hold: float | Latency = 0.0
    latency: Latency = field(default=Constant(1.0))
    fifo: bool | None = None
    loss: float = 0.0
    duplication: float = 0.0
    faults: Sequence[Fault] = ()
    random_faults: int | None = None  # so many crashes, or ANY_NUMBER
    max_time: float = 1e6

    def __call__(self, seed: int) -> Trial:
        """Build fresh processes, workload, network and faults."""
        entry = algorithm(self.algorithm)
        setup = entry.setup(self.size, self.variant, self.parameters)
        check_size(self.latency, self.size)
        return Trial(
            processes=entry.build(setup),
            workload=self._workload(entry, setup),
            network=Network(self.latency, self.fifo, self.loss, self.duplication),
            faults=self._faults(entry, setup, seed),
            max_time=self.max_time,
        )

    def _workload(self, entry: Algorithm, setup: Setup) -> Workload:
        if isinstance(entry.costs, ElectionCosts):
            return Workload()  # no calls: the processes notice crashes by themselves
        requesters = list(entry.requesters(setup))
        return make_workload(self.workload, requesters, self.entries, self.rate, self.hold)

    def _faults(self, entry: Algorithm, setup: Setup, seed: int) -> Sequence[Fault]:
        count = self.random_faults
        if count is None:
            return self.faults
        # An unsound variant gets the faults that the algorithm is meant to tolerate.
        tolerated = (*entry.tolerates, *entry.variant(setup.variant).tolerates)
        if "crash" in tolerated:
            if count == ANY_NUMBER:
                count = Random(f"{seed}/number of crashes").randrange(self.size)
            returns = "recovery without memory" in tolerated
            drawn = random_crashes(
                seed, self.size, duration=FAULTS_DURATION, crashes=count, returns=returns
            )
        else:
            if count == ANY_NUMBER:
                count = Random(f"{seed}/number of faults").randint(0, 3)
            drawn = random_faults(
                seed,
                self.size,
                duration=FAULTS_DURATION,
                crashes=count,
                pauses=count,
                partitions=count,
            )
        return [*self.faults, *drawn]


WORKLOADS = {
    "closed": "every process always wants in",
    "one-at-a-time": "in turn, the next when all is quiet",
    "one-at-random": "any other but the last, when all is quiet",
    "burst": "all at once, again when all is quiet",
    "poisson": "at random moments",
    "hot-spot": "at random moments, most from one process",
}


def make_workload(
    name: str, requesters: Sequence[int], entries: int, rate: float, hold: float | Latency
) -> Workload:
    """Make the workload of that name, of about so many entries for each requester."""
    total = entries * len(requesters)
    kinds: dict[str, Callable[[], Workload]] = {
        "closed": lambda: Closed(entries, requesters, hold=hold),
        "one-at-a-time": lambda: OneAtATime(total, requesters, hold=hold),
        "one-at-random": lambda: OneAtATime(total, requesters, order="random", hold=hold),
        "burst": lambda: Burst(entries, requesters, hold=hold),
        "poisson": lambda: Poisson(rate, total / rate, requesters, hold=hold),
        "hot-spot": lambda: HotSpot(rate, total / rate, requesters, hold=hold),
    }
    if name not in kinds:
        raise UsageError(unknown("workload", name, kinds))
    if rate <= 0:
        raise UsageError(f"the rate of requests must be greater than 0, got {rate:g}")
    return kinds[name]()
