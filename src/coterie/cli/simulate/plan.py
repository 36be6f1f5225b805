"""The plan of a simulation: what the options of `coterie simulate` say about a run of any seed."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from coterie.catalogue import ElectionCosts
from coterie.cli.common.options import Choice, choose
from coterie.simulate import (
    Network,
    Trial,
    Workload,
    make_workload,
    parse_fault,
    parse_latency,
    random_crashes,
    random_faults,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

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

    def __call__(self, seed: int) -> Trial:
        """Build fresh processes, workload, network and faults."""
        choice = choose(self.algorithm, self.size, self.variant, self.parameters, seed)
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
    hold = parse_latency(plan["hold"])
    return make_workload(
        plan["workload"], requesters, entries=plan["entries"], rate=plan["rate"], hold=hold
    )


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
