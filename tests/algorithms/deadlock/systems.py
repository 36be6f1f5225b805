"""Random systems of processes that wait for each other, run to the end, with a referee."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from coterie.algorithms.deadlock.condition import Condition, all_of, any_of, some_of
from coterie.algorithms.deadlock.detectors.central import Coordinator, Reporting
from coterie.algorithms.deadlock.detectors.diffusing import Diffusing
from coterie.algorithms.deadlock.detectors.hierarchical import Controller
from coterie.algorithms.deadlock.detectors.party import (
    DiffusingParty,
    Party,
    ReportingParty,
    ScriptStep,
    SurveyParty,
)
from coterie.algorithms.deadlock.detectors.survey import SurveyDetector
from coterie.algorithms.deadlock.detectors.trial import Deadlocked
from coterie.algorithms.deadlock.detectors.waits import Wait, WaitId, graph_of
from coterie.lab.simulate import Exponential, Network, Simulation, Workload

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from coterie.lab.simulate import Result, World
    from coterie.process import Event, Process

MODELS = ("and", "or", "and-or", "k-of-n", "nested")
DETECTORS = ("diffusing", "survey", "central", "hierarchical")


def random_condition(model: str, size: int, me: int, random: Random) -> Condition[int]:
    """Draw a condition over a few other processes."""
    others = [process for process in range(1, size + 1) if process != me]
    names = random.sample(others, min(len(others), random.choice((1, 1, 2, 2, 3, 4))))
    if model == "and":
        return all_of(*names)
    if model == "or":
        return any_of(*names)
    if model == "k-of-n":
        return some_of(random.randint(1, len(names)), *names)
    place = random.randint(0, len(names) - 1)
    group = any_of(*names[place:])
    if model == "and-or":
        return all_of(*names[:place], group)
    rest = random.sample(others, min(len(others), 2))
    inner = some_of(random.randint(1, len(rest)), *rest)
    return some_of(random.randint(1, place + 2), *names[:place], group, inner)


def random_scripts(model: str, size: int, random: Random) -> list[tuple[ScriptStep, ...]]:
    """Draw what each process does: a few waits, at random times."""
    pause = random.choice((0.5, 2.0, 5.0))
    return [
        tuple(
            ScriptStep(random.uniform(0.0, pause), random_condition(model, size, me, random))
            for _ in range(random.randint(0, 4))
        )
        for me in range(1, size + 1)
    ]


def build(detector: str, scripts: Sequence[tuple[ScriptStep, ...]]) -> list[Process[Any]]:
    """Make a party for each script, and the controllers that the detector needs."""
    size = len(scripts)
    people = list(enumerate(scripts, 1))
    match detector:
        case "diffusing":
            return [DiffusingParty(me, Diffusing(me), script, born=me % 7) for me, script in people]
        case "survey":
            return [
                SurveyParty(me, SurveyDetector(me), script, born=me % 7) for me, script in people
            ]
        case "central":
            return [
                *(
                    ReportingParty(me, Reporting(me, coordinator=size + 1), script, born=me % 7)
                    for me, script in people
                ),
                Coordinator(size + 1),
            ]
        case _:
            return _tree(people, size)


def _tree(people: list[tuple[int, tuple[ScriptStep, ...]]], size: int) -> list[Process[Any]]:
    """Give each four neighbours a controller, and all of these a root, the last process."""
    leaves = (size + 3) // 4
    root = size + leaves + 1
    parties = [
        ReportingParty(me, Reporting(me, coordinator=size + 1 + (me - 1) // 4), script, born=me % 7)
        for me, script in people
    ]
    controllers = [
        Controller(
            size + 1 + leaf,
            below=frozenset(range(4 * leaf + 1, min(4 * leaf + 4, size) + 1)),
            parent=root,
        )
        for leaf in range(leaves)
    ]
    everyone = frozenset(range(1, size + 1))
    return [*parties, *controllers, Controller(root, below=everyone)]


@dataclass(frozen=True)
class Referee(Workload):
    """Sees everything at once: each victim must be deadlocked at the moment when it is aborted."""

    processes: Sequence[Process[Any]] = ()
    victims: list[WaitId] = field(default_factory=list)

    def told(self, world: World, process: int, event: Event) -> None:
        if not isinstance(event, Deadlocked):
            return
        waits = {
            party.me: party.detector.wait
            for party in self.processes
            if isinstance(party, Party) and party.detector.wait is not None
        }
        members = dict(event.members)
        waits[process] = members[process]  # it has ended within this very step
        changed = [member for member, wait in members.items() if not _same(waits.get(member), wait)]
        assert not changed, f"false victim {process}: {changed} waited no more"
        stuck = graph_of(waits).stuck(members)
        assert len(stuck) == len(members), f"false victim {process}: {event}"
        if not isinstance(self.processes[0], SurveyParty):  # which sees the conditions in part only
            assert len(graph_of(waits).smallest(stuck)) == len(stuck), "more than a cycle or knot"
        self.victims.append(WaitId(process, members[process].number))


def _same(now: Wait | None, then: Wait) -> bool:
    return now is not None and now.number == then.number


def run(
    processes: Sequence[Process[Any]], seed: int, max_events: int = 10_000_000
) -> tuple[Result, Referee]:
    """Run on links that reorder, until nothing happens any more."""
    referee = Referee(processes=processes)
    network = Network(latency=Exponential(1.0))
    simulation = Simulation(
        processes,
        workload=referee,
        network=network,
        seed=seed,
        until=10_000.0,
        max_events=max_events,
    )
    return simulation.run(), referee


def left_waiting(processes: Sequence[Process[Any]]) -> list[int]:
    """Who still waits."""
    return [
        process.me
        for process in processes
        if isinstance(process, Party) and process.detector.wait is not None
    ]
