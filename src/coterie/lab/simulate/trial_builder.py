"""A run in words: the algorithm by its name, workload, network and faults, for any seed.

The commands and the pages make a builder of what a user typed. It is a value that can be pickled, so
that `campaign` may hand it to other processes and machines.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from coterie.catalogue import find, load
from coterie.errors import UsageError
from coterie.lab.simulate.campaign import Trial, random_crashes
from coterie.lab.simulate.faults import Fault, random_faults
from coterie.lab.simulate.network import Constant, Latency, Network, check_size
from coterie.lab.simulate.workload import Workload, make_workload
from coterie.process import Mutex

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from coterie.catalogue import Algorithm, Setup

ANY_NUMBER = -1  # of random faults: the seed chooses
FAULTS_DURATION = 100.0


@dataclass(frozen=True, kw_only=True)
class TrialBuilder:
    """Builds the trial of each seed; raises `UsageError` or `ConfigError` for what cannot be.

    An algorithm of one's own is named by its file, which is run: take no such name from strangers.
    """

    algorithm: str
    size: int = 5
    variant: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    source: str | None = None  # of an algorithm of one's own, for workers that do not have its file
    workload: str = "closed"  # a name of `coterie.lab.simulate.workload.WORKLOADS`
    entries: int = 10  # per process
    rate: float = 0.1  # requests per unit of time, where they come at random moments
    hold: float | Latency | None = None  # None: 0, or 1 where a failure is to be noticed
    latency: Latency = field(default=Constant(1.0))
    fifo: bool | None = None
    loss: float = 0.0
    duplication: float = 0.0
    multicast: bool = False  # a message to several is counted once
    faults: Sequence[Fault] = ()
    random_faults: int | None = None  # so many crashes, or ANY_NUMBER
    max_time: float = 1e6

    def __call__(self, seed: int) -> Trial:
        """Build fresh processes, workload, network and faults."""
        source = self.source
        entry = find(self.algorithm) if source is None else load(self.algorithm, source)
        setup = entry.setup(self.size, self.variant, self.parameters)
        check_size(self.latency, self.size)
        return Trial(
            processes=entry.build(setup),
            workload=self._workload(entry, setup),
            network=Network(self.latency, self.fifo, self.loss, self.duplication, self.multicast),
            faults=self._faults(entry, setup, seed),
            max_time=self.max_time,
        )

    def _workload(self, entry: Algorithm, setup: Setup) -> Workload:
        if not issubclass(entry.process, Mutex):
            return _of_what_works_by_itself(entry)
        requesters = list(entry.requesters(setup))
        return make_workload(
            self.workload,
            requesters,
            entries=self.entries,
            rate=self.rate,
            hold=self._hold(entry, setup),
        )

    def _hold(self, entry: Algorithm, setup: Setup) -> float | Latency:
        """Return the time inside: the costs of the catalogue are those of entries that take none.

        Two that are inside at once meet only if they stay a while. So what is not known to be right
        stays for as long as a message takes.
        """
        if self.hold is not None:
            return self.hold
        known = entry.variant(setup.variant).sound and not entry.own
        return 0.0 if known else 1.0

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


def _of_what_works_by_itself(entry: Algorithm) -> Workload:
    """Return the workload of processes that users ask for nothing: they notice crashes, or wait by a script."""
    if entry.process.inputs:
        raise UsageError(
            f"{entry.name} waits for calls of its users ({', '.join(entry.process.inputs)}), and nothing says"
            " when they come: coterie check tries them at all times, coterie lab by hand"
        )
    return Workload()
