"""Quorums and order: a request that its quorum knows is overtaken by each other process twice at most."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from coterie.algorithms.mutex.quorum.maekawa.eager import Maekawa
from coterie.lab.simulate import Closed, Constant, Network, Simulation, Uniform, Workload
from coterie.trace import Called, Delivered, Header, Sent, Told
from tests.harness import broken_class, build

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.lab.simulate import Latency, World
    from coterie.process import Process, ProcessId
    from coterie.trace import Trace

WHEEL = "1,2 1,3 1,4 1,5 1,6 1,7 2,3,4,5,6,7"
OLD_HAND, LATE_COMERS = 2, (3, 4, 5, 6, 7)
HISTORY = 800

COTERIES = [
    pytest.param("weighted", {"votes": "1,0,0,0,0,0,0"}, id="one voter"),
    pytest.param("weighted", {"votes": "5,1,1,1,1,1,1"}, id="a heavy voter"),
    pytest.param("weighted", {"votes": "1,1,1,0,0,0,0"}, id="four clients"),
    pytest.param("maekawa", {"coterie": WHEEL}, id="wheel"),
    pytest.param("maekawa", {"coterie": "plane"}, id="plane"),
    pytest.param("maekawa", {"coterie": "tree"}, id="tree"),
    pytest.param("majority", {}, id="majority"),
    pytest.param("fault-tolerant", {"sigma": "20"}, id="fault-tolerant"),
]


@dataclass(frozen=True)
class LateComers(Workload):
    """One process enters many times alone; then the late comers ask, and it asks once more.

    The late comers ask again each time they have left, until it has entered.
    """

    def start(self, world: World) -> None:
        world.ask(OLD_HAND)

    def left(self, world: World, process: ProcessId) -> None:
        entries = world.entries(OLD_HAND)
        if process == OLD_HAND and entries == HISTORY:
            for late in LATE_COMERS:
                world.ask(late)
        if entries <= HISTORY:
            world.ask(process)


@pytest.mark.parametrize(("name", "parameters"), COTERIES)
def test_late_comers_do_not_enter_as_often_as_an_old_hand_has(
    name: str, parameters: dict[str, str]
) -> None:
    run = Simulation(build(name, 7, **parameters), workload=LateComers()).run()
    assert run.stopped == "done"
    assert run.fairness.overtaken_max <= 2 * len(LATE_COMERS)


def most_overtaken(processes: Sequence[Process[Any]], latency: Latency, seed: int) -> int:
    """Run, and count how often one process entered before a request that its quorum knew."""
    quorums = {process.me: process.quorum for process in processes if isinstance(process, Maekawa)}
    run = Simulation(
        processes,
        workload=Closed(12),
        network=Network(latency=latency),
        seed=seed,
        header=Header(algorithm="", size=len(processes)),
    ).run()
    assert not run.violations, run.violations
    assert run.trace is not None
    return _most_overtaken(run.trace, quorums)


def _most_overtaken(trace: Trace, quorums: dict[ProcessId, tuple[ProcessId, ...]]) -> int:
    requests: set[int] = set()
    unaware: dict[ProcessId, set[ProcessId]] = {}  # by waiting process: those it asked
    overtakers: dict[ProcessId, Counter[ProcessId]] = {}
    most = 0
    for record in trace.records:
        match record:
            case Called(process=process, call="acquire"):
                unaware[process] = set(quorums[process]) - {process}
                overtakers[process] = Counter()
            case Sent(number=number, message=["Request", *_]):
                requests.add(number)
            case Delivered(number=number, sender=process, receiver=arbiter) if number in requests:
                unaware[process].discard(arbiter)
            case Told(process=process):
                del unaware[process]
                for waiting in [other for other in unaware if not unaware[other]]:
                    overtakers[waiting][process] += 1
                    most = max(most, overtakers[waiting][process])
            case _:
                pass
    return most


LATENCIES: list[Latency] = [Constant(1.0), Uniform(0.5, 3.0), Uniform(0.1, 20.0)]


@pytest.mark.parametrize(("name", "parameters"), COTERIES)
def test_each_other_process_enters_at_most_twice_before_a_request_that_its_quorum_knows(
    name: str, parameters: dict[str, str]
) -> None:
    for latency in LATENCIES:
        for seed in range(4):
            most = most_overtaken(build(name, 7, **parameters), latency, seed)
            assert most <= 2, (latency, seed)


def test_a_lock_that_does_not_tell_the_highest_time_is_noticed() -> None:
    deaf: type[Maekawa] = broken_class(
        Maekawa, "self.highest = max(self.highest, highest)\n", "pass\n"
    )
    quorums = [(1,)] + [(1, process) for process in range(2, 8)]
    processes = [deaf(me, quorum) for me, quorum in enumerate(quorums, 1)]
    assert Simulation(processes, workload=LateComers()).run().fairness.overtaken_max > HISTORY
