"""Messages that a search for a deadlock costs, beside the bounds of the literature.

    python benchmarks/deadlock_messages.py

One search of the diffusing computation on random graphs in which everyone waits for ever: e edges can be
reached from the initiator. Bracha and Toueg's algorithm for the general model takes 4e messages on a
snapshot that has to be made as well. What whole systems cost is shown by `coterie detect`.
"""

from __future__ import annotations

from random import Random

from coterie.algorithms.deadlock.detectors.diffusing import Diffusing
from coterie.algorithms.deadlock.detectors.party import DiffusingParty, ScriptStep
from coterie.algorithms.deadlock.wait_for import Graph
from coterie.lab.detect.systems import MODELS, random_condition
from coterie.lab.simulate import Simulation


def search_costs(model: str, size: int, seed: int) -> tuple[float, float]:
    """Mean edges within reach, and mean messages of a search."""
    random = Random(seed)
    waits = {me: random_condition(model, size, me, random) for me in range(1, size + 1)}
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


if __name__ == "__main__":
    main()
