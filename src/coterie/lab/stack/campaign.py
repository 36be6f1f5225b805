"""Runs of many seeds: each draws a cluster, a workload and faults; one that fails is made smaller."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from coterie.catalogue import algorithms
from coterie.lab.stack.points import count_points, visits
from coterie.lab.stack.scene.faults import draw_faults, inject
from coterie.lab.stack.scene.monitors import AccusationMonitor
from coterie.lab.stack.scene.plan import LEASES, RunPlan, generator
from coterie.lab.stack.scene.scene import Scene
from coterie.lab.stack.workloads.catalogue import WORKLOADS
from coterie.lab.stack.workloads.locks import HEDGE_SHARE
from coterie.lab.stack.workloads.workload import node_names, program_names
from coterie.lab.stack.world import ViolationError, World
from coterie.process import Election, Mutex
from coterie.transactions.catalogue import schemes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from random import Random

    from coterie.lab.stack.scene.plan import Fault
    from coterie.lab.stack.workloads.workload import Workload
    from coterie.trace import Trace

LEASE_DELAYS = 20  # one way, that a lease of classic nodes is longer than
FAULT_SECONDS_LEASES = 8  # in which faults begin
TLS_SHARE = 0.2  # of the seeds of a mixed campaign


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
    tls: bool = False
    points: dict[str, int] = field(default_factory=dict)  # rare places, and how often it was there

    @property
    def command(self) -> str:
        """How to see this run again."""
        words = ["coterie", "simulate-stack", "--seed", str(self.seed), "--workload", self.workload]
        if self.details:
            words += ["--details", self.details]
        if self.tls:
            words.append("--tls")
        return " ".join(words)


def draw(
    seed: int, workload: str | None = None, details: str | None = None, *, tls: bool = False
) -> RunPlan:
    """Decide everything about the run of a seed; without a workload also what that is, and whether over TLS."""
    random = generator(seed, "cluster")
    # From generators of their own: the command that names all this draws the same cluster.
    name = workload
    if name is None:
        name, details = draw_workload(generator(seed, "workload"))
        tls = tls or generator(seed, "tls").random() < TLS_SHARE
    kind = WORKLOADS[name]
    lease = random.choice(LEASES)
    nodes = random.choice(kind.sizes)
    programs = 10 if "line" in name else random.choice((2, 2, 3, 4))
    delay = 0.0002 if random.random() < 0.7 else random.uniform(0.001, 0.03)
    spread = delay * random.uniform(0, 2)
    if name == "circles":
        delay = spread = 0.0002  # `far-circles` has the others
    elif name.startswith("far"):
        lease, delay, spread = 5.0, random.uniform(0.01, 0.12), 0.001
    elif name == "once-per-lease":
        # An answer takes from a fifth to nearly all of the time after which one is overdue.
        delay = random.uniform(0.1, 0.35) * lease * HEDGE_SHARE
        spread = delay / 50
    if name == "leaders" or name.startswith("classic"):
        # A node that has not been connected for a lease is lost, and a connection takes round trips.
        lease = max(lease, LEASE_DELAYS * (delay + spread))
    if name in OF_NODES_ALONE and name != "classic-rejoins":  # which has sizes of its own
        nodes = random.choice((2, 3, 3) if "store" in name else (3, 3, 4, 5))
    plan = RunPlan(
        seed,
        name,
        nodes,
        programs,
        lease,
        drift=random.choice(kind.drifts),
        wall_error=random.choice(kind.wall_errors),
        delay=delay,
        spread=spread,
        duration=kind.prologue_seconds + lease * FAULT_SECONDS_LEASES,
        details=random.choice(_details(name)) if details is None else details,
        tls=tls,
    )
    return replace(plan, faults=_faults(plan, kind))


def _faults(plan: RunPlan, kind: type[Workload]) -> tuple[Fault, ...]:
    stage = program_names(plan) if plan.workload not in OF_NODES_ALONE else []
    return draw_faults(
        plan.seed,
        kind.kinds,
        [*node_names(plan), *kind.spares],
        [*stage, *kind.administrators],
        duration=plan.duration,
        longest=plan.lease * kind.longest_leases,
        least=kind.faults_least,
        most=kind.faults_most,
        begin=kind.prologue_seconds + 0.2,
    )


def _details(workload: str) -> list[str]:
    match workload:
        case "classic":
            return classics(crash=False)
        case "classic-crashes" | "classic-long" | "classic-late":
            return classics(crash=True)
        case "classic-returns":
            return classics(crash=False) + classics(crash=True)
        case "leaders" | "leaders-apart":
            # A list of `ring` may be lost where a node takes its beginner for lost.
            return elections() if workload == "leaders" else ["bully/watching"]
        case "store" | "store-lives" | "store-disks" | "store-mixture":
            return variants_of_schemes() if workload == "store-mixture" else list(schemes())
        case _:
            return [ONLY.get(workload, "")]


ONLY = {
    "far-store": "two-phase-locking",
    "classic-rejoins": "fault-tolerant/repaired",  # no other has a rule for the return of a process
}
OF_NODES_ALONE = (
    "store",
    "store-disks",
    "store-lives",
    "store-mixture",
    "far-store",
    "classic",
    "classic-crashes",
    "classic-long",
    "classic-late",
    "classic-returns",
    "classic-rejoins",
    "leaders",
    "leaders-apart",
)
CLASSIC = "classic and any other"  # draws one of the pairs below
OF_CLASSICS = (
    "classic",
    "classic-crashes",
    "classic-long",
    "classic-late",
    "classic-returns",
    "classic-rejoins",
    "leaders",
    "leaders-apart",
)
MIXED = (
    "locks",
    "locks",
    "exclusive",
    "shared",
    "semaphore",
    "election",
    "lock-all",
    "circles",
    "far-circles",
    "line",
    "shared-line",
    "once-per-lease",
    "impatience",
    "restarts",
    "shutdowns",
    "diskless",
    "new-disks",
    "pauses",
    "resets",
    *[CLASSIC] * 10,
    "changes",
    "change-crashes",
    "change-pauses",
    "change-resets",
    "change-disks",
    "installations",
    "mixed-disks",
    "misplaced-disks",
    "set-back-disks",
    "renumbering",
    "witnesses",
    "small-changes",
    "huge-times",
    "forces",
    "two-forces",
    "breaks",
    "edited-files",
    "far-store",
    "store-lives",
    "store-disks",
    "store",
    "store",
    "store-mixture",
)


def draw_workload(random: Random) -> tuple[str, str | None]:
    """Draw a workload of the mixed campaign, and its details if they are not left to the cluster's draw."""
    name = random.choice(MIXED)
    return random.choice(classic_pairs()) if name == CLASSIC else (name, None)


def classic_pairs() -> list[tuple[str, str]]:
    """List each classic algorithm with each workload of faults that it claims to bear.

    One is drawn among these and not among workloads, or an algorithm that shares its kind of fault with
    ten others would hardly be seen under it.
    """
    return [(workload, details) for workload in OF_CLASSICS for details in _details(workload)]


def classics(*, crash: bool) -> list[str]:
    """List the mutual exclusion algorithms with the variant to run: of those that tolerate crashes, or the others."""
    found = []
    for name, entry in algorithms().items():
        if not issubclass(entry.process, Mutex) or name == "leased":
            continue
        for variant in entry.variants:
            tolerates = (*entry.tolerates, *variant.tolerates)
            if ("crash" in tolerates) == crash and variant.sound:
                found.append(f"{name}/{variant.name}")
    return found


def elections() -> list[str]:
    """List the sound election algorithms with the variant to run."""
    return [
        f"{name}/{variant.name}"
        for name, entry in algorithms().items()
        if issubclass(entry.process, Election)
        for variant in entry.variants
        if variant.sound
    ]


def variants_of_schemes() -> list[str]:
    """List the schemes of a store, each with the variant to run."""
    return [
        f"{scheme.name}/{variant.name}"
        for scheme in schemes().values()
        for variant in scheme.variants
    ]


def run_plan(
    plan: RunPlan, *, traced: bool = False, folder: Path | None = None
) -> tuple[Outcome, Trace, list[str]]:
    """Run a plan; give what came of it, its trace, and a log for people."""
    violation = text = ""
    kind = WORKLOADS[plan.workload]
    first = min((fault.at for fault in plan.faults), default=math.inf)
    if kind.administrators:
        first = 0.0  # they die, and kill, as they please
    count_points()
    visits.clear()
    with (
        World(plan.seed, traced=traced, folder=folder) as world,
        AccusationMonitor(world, first, kind.excuses),
    ):
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
            plan.tls,
            dict(visits),
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
    folder: Path | None = None,
    *,
    tls: bool = False,
) -> Outcome:
    """Run a seed, with all its faults or only those with these numbers; disks are in `folder`."""
    plan = draw(seed, workload, details, tls=tls)
    return run_plan(plan if keep is None else plan.keeping(keep), folder=folder)[0]


def shrink(plan: RunPlan, violation: str) -> list[int]:
    """Leave out faults for as long as the same promise is broken; return the numbers of the rest."""
    kept = list(range(len(plan.faults)))
    if run_plan(plan.keeping([]))[0].violation == violation:
        return []
    for number in reversed(range(len(plan.faults))):
        fewer = [each for each in kept if each != number]
        if run_plan(plan.keeping(fewer))[0].violation == violation:
            kept = fewer
    return kept
