"""The classes of cycles are those that a list of all cycles shows, and the cycles are shortest."""

from __future__ import annotations

from itertools import pairwise, product
from typing import TYPE_CHECKING

import networkx as nx  # type: ignore[import-untyped]  # ships no types
import pytest

from coterie.lab.serializability import check, cycles
from coterie.lab.serializability.report import Edge, Kind
from tests.harness import Mutant, broken
from tests.transactions.histories import tangled

if TYPE_CHECKING:
    from coterie.transactions.history import History

MUTANTS = {
    "wr cycles are G0": ('return "G1c" if "wr" in kinds else "G0"', 'return "G0"'),
    "any path will do": ("steps + 1 < shorter_than", "False"),
    "the first cycle is the shortest": (
        "for pivot in pivots[:PIVOTS]:",
        "for pivot in pivots[:1]:",
    ),
    "anti-dependencies count for nothing": (
        'SEVERE = (_Class("ww", ("ww",)), _Class("wr", ("ww", "wr")), _Class("rw", ("ww", "wr")))',
        'SEVERE = (_Class("ww", ("ww",)), _Class("wr", ("ww", "wr")))',
    ),
    "no anti-dependency goes back": ("places[edge.target] < places[edge.source]", "False"),
}


def dependencies(history: History) -> dict[tuple[object, object], set[Kind]]:
    """Draw the dependencies between committed transactions from stated versions, plainly."""
    report = check(history)
    counted = [
        transaction
        for transaction in history.transactions.values()
        if transaction.outcome.value == "committed" or transaction.name in report.presumed_committed
    ]
    edges: dict[tuple[object, object], set[Kind]] = {}
    writes = sorted(
        (access.key, access.version, transaction.name, access.value)
        for transaction in counted
        for access in transaction.accesses
        if access.op == "write"
    )
    for (key, _, first, _), (other, _, second, _) in pairwise(writes):
        if key == other:
            edges.setdefault((first, second), set()).add("ww")
    for transaction in counted:
        for access in transaction.accesses:
            if access.op == "read":
                chain = [(None, None), *(w[2:] for w in writes if w[0] == access.key)]
                seen = next((i for i, (_, v) in enumerate(chain) if v == access.value), None)
                if seen is None:
                    continue  # from an aborted one
                if seen:
                    edges.setdefault((chain[seen][0], transaction.name), set()).add("wr")
                for successor, _ in chain[seen + 1 : seen + 2]:
                    if successor != transaction.name:
                        edges.setdefault((transaction.name, successor), set()).add("rw")
    return edges


def shortest_of_each_class(history: History) -> list[dict[str, int]]:
    """For each strong component the classes of its cycles, with the least number of edges."""
    edges = dependencies(history)
    graph = nx.DiGraph(list(edges))
    found = []
    for component in nx.strongly_connected_components(graph):
        lengths: dict[str, int] = {}
        for cycle in nx.simple_cycles(graph.subgraph(component)):
            steps = [edges[pair] for pair in zip(cycle, cycle[1:] + cycle[:1], strict=True)]
            for kinds in product(*steps):
                drawn = [Edge(0, 0, kind, "x") for kind in kinds]
                name, _ = cycles.named(drawn)
                lengths[name] = min(len(cycle), lengths.get(name, 99))
        if len(lengths) > 1:
            lengths.pop("G2-item", None)
        found.append(lengths)
    return sorted((lengths for lengths in found if lengths), key=str)


def misnamed(history: History) -> bool:
    """Compare the anomalies, one tangle after the other, with the list of all cycles."""
    report = check(history)
    if report.versions != "stated":
        return False
    named = [(a.name, len(a.cycle)) for a in report.anomalies if a.name not in ("G1a", "G1b")]
    expected = [item for lengths in shortest_of_each_class(history) for item in lengths.items()]
    return sorted(named) != sorted(expected)


@pytest.mark.slow
def test_each_tangle_shows_a_shortest_cycle_of_each_class_that_it_has() -> None:
    for seed in range(1500):
        assert not misnamed(tangled(seed)), f"seed {seed}"


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_rule_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = broken("coterie.lab.serializability.cycles", Mutant(*MUTANTS[name]))
    checker = "coterie.lab.serializability.checker.anomalies"
    monkeypatch.setattr(checker, module.anomalies)
    assert any(misnamed(tangled(seed)) for seed in range(3000))
