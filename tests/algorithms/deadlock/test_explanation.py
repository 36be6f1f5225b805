"""Why a process is deadlocked."""

from __future__ import annotations

import pytest

from coterie.algorithms.deadlock.condition import all_of, any_of, some_of
from coterie.algorithms.deadlock.explanation import explain
from coterie.algorithms.deadlock.wait_for import Graph
from tests.algorithms.deadlock.test_wait_for import random_graph


def test_a_cycle_is_told_in_order_with_resources_and_times() -> None:
    graph = Graph(
        {"ann": all_of("A"), "A": all_of("bob"), "bob": all_of("B"), "B": all_of("ann")},
        since={"ann": "10:31", "bob": "10:32"},
        resources=frozenset({"A", "B"}),
    )
    explanation = explain(graph, "bob")
    assert explanation.kind == "cycle"
    assert explanation.text == (
        "bob waits for lock B since 10:32",
        "B is held by ann",
        "ann waits for lock A since 10:31",
        "A is held by bob",
    )


def test_a_knot_is_what_nobody_waits_out_of() -> None:
    graph = Graph({1: any_of(2, 3), 2: any_of(1), 3: any_of(2)})
    explanation = explain(graph, 1)
    assert (explanation.kind, set(explanation.core)) == ("knot", {1, 2, 3})


def test_a_b_knot_has_waits_out_of_it_that_do_not_help() -> None:
    graph = Graph({1: some_of(2, 2, 3, 4), 2: all_of(1), 3: all_of(1)})
    explanation = explain(graph, 2)
    assert (explanation.kind, set(explanation.core)) == ("b-knot", {1, 2, 3})
    assert "1 waits for 2 of 2, 3, 4; 2 and 3 cannot come" in explanation.text


def test_one_who_only_waits_for_a_cycle_is_not_of_it() -> None:
    graph = Graph({1: all_of(2, 9), 2: all_of(3), 3: all_of(2)})
    explanation = explain(graph, 1)
    assert explanation.members == (1, 2, 3)
    assert explanation.core == (2, 3)
    assert explanation.text[0] == "1 waits for all of 2, 9; 2 cannot come"


@pytest.mark.slow
def test_an_explanation_proves_what_it_says_and_nothing_in_it_can_be_spared() -> None:
    for seed in range(100):
        graph = random_graph(seed, 10)
        for node in graph.deadlocked():
            explanation = explain(graph, node)
            members = explanation.members
            assert members[0] == node
            assert set(graph.stuck(members)) == set(members)
            for other in members[1:]:
                assert node not in graph.stuck(member for member in members if member != other)
            assert set(explanation.core) <= set(members)
            assert graph.smallest(explanation.core) == graph.stuck(explanation.core)
