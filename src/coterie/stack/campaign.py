"""Runs of many seeds: each draws a cluster, a workload and faults; one that fails is made smaller."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from coterie.catalogue import algorithms
from coterie.process import Mutex
from coterie.stack.faults import draw_faults, inject
from coterie.stack.plan import LEASES, Plan, generator
from coterie.stack.scene import Scene
from coterie.stack.workload import WORKLOADS, node_names, program_names
from coterie.stack.world import ViolationError, World
from coterie.transactions.catalogue import schemes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.trace import Trace

FAULT_SECONDS_LEASES = 8  # in which faults begin


@dataclass(frozen=True)
class Outcome:
    """What came of one run."""

    seed: int
    workload: str
    details: str
    digest: str
    time: float
    turns: int
    grants: int
    counts: dict[str, int] = field(default_factory=dict)
    violation: str = ""  # the name of the promise that did not hold
    text: str = ""


def draw(seed: int, workload: str | None = None, details: str | None = None) -> Plan:
    """Decide everything about the run of a seed."""
    random = generator(seed, "cluster")
    name = workload or random.choice(MIXED)
    kind = WORKLOADS[name]
    lease = random.choice(LEASES)
    nodes = random.choice((3, 3, 3, 1, 2, 4, 5))
    programs = random.choice((2, 2, 3, 4))
    drawn = ""
    if name.startswith("classic"):
        drawn = random.choice(classics(crash=name != "classic"))
        nodes = random.choice((3, 3, 4, 5))
    elif name == "store":
        drawn = random.choice(list(schemes()))
        nodes = random.choice((2, 3, 3))
    elif name == "line":
        programs = 10
    delay = 0.0002 if random.random() < 0.7 else random.uniform(0.001, 0.03)
    plan = Plan(
        seed,
        name,
        nodes,
        programs,
        lease,
        drift=random.choice((0.0, 0.004)),
        wall_error=random.choice((0.0, 0.02, 30.0)),
        delay=delay,
        spread=delay * random.uniform(0, 2),
        duration=lease * FAULT_SECONDS_LEASES,
        details=drawn if details is None else details,
    )
    stage = program_names(plan) if name not in OF_NODES_ALONE else []
    longest = lease * kind.longest_leases
    faults = draw_faults(
        seed, kind.kinds, node_names(plan), stage, duration=plan.duration, longest=longest
    )
    return replace(plan, faults=faults)


OF_NODES_ALONE = ("store", "classic", "classic-crashes", "classic-returns")
MIXED = (
    "locks",
    "locks",
    "exclusive",
    "shared",
    "semaphore",
    "election",
    "lock-all",
    "circles",
    "line",
    "classic",
    "classic",
    "classic-crashes",
    "store",
    "store",
    "store",
    "store",
)


def classics(*, crash: bool) -> list[str]:
    """List the mutual exclusion algorithms with the variant to run: of those that bear crashes, or all."""
    found = []
    for name, entry in algorithms().items():
        if not issubclass(entry.process, Mutex) or name == "leased":
            continue
        for variant in entry.variants:
            bears = (*entry.bears, *variant.bears)
            if ("crash" in bears) == crash and variant.sound:
                found.append(f"{name}/{variant.name}")
    return found


def run_plan(plan: Plan, *, traced: bool = False) -> tuple[Outcome, Trace, list[str]]:
    """Run a plan; give what came of it, its trace, and a log for people."""
    violation = text = ""
    with World(plan.seed, traced=traced) as world:
        scene = Scene(world, plan)
        world.network.delay, world.network.spread = plan.delay, plan.spread
        workload = WORKLOADS[plan.workload](scene)
        for fault in plan.faults:
            world.at(fault.at, inject, scene, fault)
        try:
            workload.start()
            workload.run()
            world.raise_error()
        except ViolationError as error:
            violation, text = error.name, error.text
            world.recorder.violated(world.now, violation, text)
        outcome = Outcome(
            plan.seed,
            plan.workload,
            plan.details,
            world.digest(),
            world.now,
            world.turns,
            scene.locks.grants,
            dict(sorted(scene.counts.items())),
            violation,
            text,
        )
        title = f"seed {plan.seed}, {plan.workload} {plan.details}".strip()
        trace = world.recorder.trace(title, max(1, len(world.names())), plan.seed)
        lines = list(world.recorder.lines)
    return outcome, trace, lines


def run_seed(
    seed: int,
    workload: str | None = None,
    details: str | None = None,
    keep: Sequence[int] | None = None,
) -> Outcome:
    """Run a seed, with all its faults or only those with these numbers."""
    plan = draw(seed, workload, details)
    return run_plan(plan if keep is None else plan.keeping(keep))[0]


def shrink(plan: Plan, violation: str) -> list[int]:
    """Leave out faults for as long as the same promise is broken; give the numbers of the rest."""
    kept = list(range(len(plan.faults)))
    for number in reversed(range(len(plan.faults))):
        fewer = [each for each in kept if each != number]
        if run_plan(plan.keeping(fewer))[0].violation == violation:
            kept = fewer
    return kept
