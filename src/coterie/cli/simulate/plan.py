"""The plan of a simulation: what the options of `coterie simulate` say about a run of any seed."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from coterie.catalogue import ElectionCosts, unknown
from coterie.cli.common.options import Choice, choose
from coterie.errors import UsageError
from coterie.simulate import (
    Burst,
    Closed,
    HotSpot,
    Network,
    OneAtATime,
    Poisson,
    Trial,
    Workload,
    parse_fault,
    parse_latency,
    random_crashes,
    random_faults,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from coterie.simulate import Fault

PLAN_OPTIONS = (
    "workload",
    "entries",
    "rate",
    "hold",
    "latency",
    "fifo",
    "loss",
    "duplication",
    "faults",
    "crashes",
    "max_time",
)
ANY_NUMBER = -1  # of random faults
FAULTS_DURATION = 100.0


@dataclass(frozen=True)
class PlannedTrials:
    """Builds the trial of each seed."""

    algorithm: str
    size: int
    variant: str | None
    parameters: dict[str, str | None]
    plan: dict[str, Any]
    source: str | None = None  # of the algorithm, for workers that do not have its file

    def __call__(self, seed: int) -> Trial:
        """Build fresh processes, workload, network and faults."""
        choice = choose(
            self.algorithm, self.size, self.variant, self.parameters, seed, source=self.source
        )
        plan = self.plan
        return Trial(
            processes=choice.build(),
            workload=_workload(choice, plan),
            network=Network(
                latency=parse_latency(plan["latency"]),
                fifo=plan["fifo"],
                loss=plan["loss"],
                duplication=plan["duplication"],
            ),
            faults=_faults(choice, plan, self.size, seed),
            max_time=plan["max_time"],
        )


def _workload(choice: Choice, plan: dict[str, Any]) -> Workload:
    if isinstance(choice.algorithm.costs, ElectionCosts):
        return Workload()  # no calls: the processes notice crashes by themselves
    requesters = list(choice.algorithm.requesters(choice.setup))
    entries, rate, hold = plan["entries"], plan["rate"], parse_latency(_hold(choice, plan))
    total = entries * len(requesters)
    kinds: dict[str, Callable[[], Workload]] = {
        "closed": lambda: Closed(entries, requesters, hold=hold),
        "one-at-a-time": lambda: OneAtATime(total, requesters, hold=hold),
        "burst": lambda: Burst(entries, requesters, hold=hold),
        "poisson": lambda: Poisson(rate, total / rate, requesters, hold=hold),
        "hot-spot": lambda: HotSpot(rate, total / rate, requesters, hold=hold),
    }
    if plan["workload"] not in kinds:
        raise UsageError(unknown("workload", plan["workload"], kinds))
    if rate <= 0:
        raise UsageError(f"--rate must be positive, got {rate:g}")
    return kinds[plan["workload"]]()


def _hold(choice: Choice, plan: dict[str, Any]) -> str:
    """Return the time inside: the costs of the catalogue are those of entries that take none.

    Two that are inside at once meet only if they stay a while. So what is not known to be right
    stays for as long as a message takes.
    """
    if plan["hold"] is not None:
        return str(plan["hold"])
    known = choice.algorithm.variant(choice.setup.variant).sound and not choice.algorithm.own
    return "0" if known else "1"


def _faults(choice: Choice, plan: dict[str, Any], size: int, seed: int) -> Sequence[Fault]:
    faults = [parse_fault(text) for text in plan["faults"]]
    count = plan["crashes"]
    if count is None:
        return faults
    # An unsound variant gets the faults that the algorithm is meant to tolerate.
    variant = choice.algorithm.variant(choice.setup.variant)
    tolerated = (*choice.algorithm.tolerates, *variant.tolerates)
    if "crash" in tolerated:
        if count == ANY_NUMBER:
            count = Random(f"{seed}/number of crashes").randrange(size)
        returns = "recovery without memory" in tolerated
        return faults + random_crashes(
            seed, size, duration=FAULTS_DURATION, crashes=count, returns=returns
        )
    if count == ANY_NUMBER:
        count = Random(f"{seed}/number of faults").randint(0, 3)
    return faults + random_faults(
        seed, size, duration=FAULTS_DURATION, crashes=count, pauses=count, partitions=count
    )
