"""Messages that deadlock detection costs, beside the bounds of the literature.

    python benchmarks/deadlock_messages.py

First one search of the diffusing computation on random graphs in which everyone waits for ever: e
edges can be reached from the initiator. Bracha and Toueg's algorithm for the general model takes 4e messages on
a snapshot that has to be made as well. Then whole systems, in which processes wait and go on: what
each detector costs per wait, and how many victims it took until nobody was left waiting.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from coterie.algorithms.deadlock.condition import Condition, all_of, any_of, some_of
from coterie.algorithms.deadlock.detectors.central import Coordinator, Reporting
from coterie.algorithms.deadlock.detectors.diffusing import Diffusing
from coterie.algorithms.deadlock.detectors.hierarchical import Controller
from coterie.algorithms.deadlock.detectors.party import (
    DiffusingParty,
    Grant,
    Party,
    ReportingParty,
    Request,
    ScriptStep,
)
from coterie.algorithms.deadlock.wait_for import Graph
from coterie.lab.simulate import Exponential, Network, Simulation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.process import Process

MODELS = ("AND", "OR", "2 of 3")
GROUP = 10  # processes under one controller


def condition(model: str, size: int, me: int, random: Random) -> Condition[int]:
    others = random.sample([other for other in range(1, size + 1) if other != me], 3)
    if model == "AND":
        return all_of(*others[: random.randint(1, 3)])
    return any_of(*others) if model == "OR" else some_of(2, *others)


def search_costs(model: str, size: int, seed: int) -> tuple[float, float]:
    """Mean edges within reach, and mean messages of a search."""
    random = Random(seed)
    waits = {me: condition(model, size, me, random) for me in range(1, size + 1)}
    processes = [
        DiffusingParty(me, Diffusing(me), (ScriptStep(0.0, waits[me]),), born=None) for me in waits
    ]
    kinds = Simulation(processes, until=1000.0).run().messages_by_kind
    edges = sum(reachable_edges(Graph(waits), me) for me in waits)
    return edges / len(waits), (kinds["Probe"] + kinds["Report"]) / len(waits)


def reachable_edges(graph: Graph[int], start: int) -> int:
    edges = graph.edges()
    reached, border, count = {start}, [start], 0
    while border:
        targets = edges.get(border.pop(), ())
        count += len(targets)
        border += [target for target in targets if target not in reached]
        reached.update(targets)
    return count


def system(detector: str, size: int, seed: int) -> Sequence[Process[Any]]:
    random = Random(seed)
    model = MODELS[seed % 3]
    scripts = [
        tuple(
            ScriptStep(random.expovariate(0.1), condition(model, size, me, random))
            for _ in range(5)
        )
        for me in range(1, size + 1)
    ]
    people = list(enumerate(scripts, 1))
    if detector == "diffusing":
        return [DiffusingParty(me, Diffusing(me), script, born=me) for me, script in people]
    groups = (size + GROUP - 1) // GROUP if detector == "hierarchical" else 0
    parties = [
        ReportingParty(
            me,
            Reporting(me, coordinator=size + 1 + ((me - 1) // GROUP if groups else 0)),
            script,
            born=me,
        )
        for me, script in people
    ]
    controllers = [
        Controller(
            size + 1 + group,
            below=frozenset(range(group * GROUP + 1, min((group + 1) * GROUP, size) + 1)),
            parent=size + groups + 1,
        )
        for group in range(groups)
    ]
    everyone = frozenset(range(1, size + 1))
    root = Controller(size + groups + 1, below=everyone) if groups else Coordinator(size + 1)
    return [*parties, *controllers, root]


def system_costs(detector: str, size: int, seeds: int) -> tuple[float, float, int]:
    """Messages of detection per wait, the busiest process's share of them, and victims."""
    messages = waits = victims = 0
    busiest = 0.0
    for seed in range(seeds):
        processes = system(detector, size, seed)
        network = Network(latency=Exponential(1.0))
        result = Simulation(processes, network=network, seed=seed, until=10_000.0).run()
        assert not result.violations, result.violations
        parties = [process for process in processes if isinstance(process, Party)]
        assert all(party.detector.wait is None for party in parties), "an undetected deadlock"
        own = [Request.__name__, Grant.__name__]
        messages += result.messages - sum(result.messages_by_kind[kind] for kind in own)
        waits += sum(party.done for party in parties)
        victims += sum(party.picked for party in parties)
        busiest += result.load.max / result.messages / seeds
    return messages / waits, busiest, victims


def main() -> None:
    print("one search                          edges within reach e, messages, and bounds")
    print(f"{'model':8}{'processes':>10}{'e':>9}{'measured':>10}{'2e':>9}{'4e':>9}")
    for model in MODELS:
        for size in (10, 50, 100):
            costs = [search_costs(model, size, seed) for seed in range(3)]
            edges = sum(cost[0] for cost in costs) / 3
            measured = sum(cost[1] for cost in costs) / 3
            assert measured <= 2 * edges
            print(
                f"{model:8}{size:>10}{edges:>9.1f}{measured:>10.1f}{2 * edges:>9.1f}{4 * edges:>9.1f}"
            )
    print("\nwhole systems, 20 seeds      messages of detection per wait")
    print(f"{'detector':14}{'processes':>10}{'per wait':>10}{'busiest':>10}{'victims':>9}")
    for detector in ("diffusing", "central", "hierarchical"):
        for size in (10, 50):
            per_wait, busiest, victims = system_costs(detector, size, seeds=20)
            print(f"{detector:14}{size:>10}{per_wait:>10.1f}{busiest:>10.0%}{victims:>9}")


if __name__ == "__main__":
    main()
