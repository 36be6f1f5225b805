"""The wait-for graph: reduction, the criteria of the literature, and smallest deadlocked sets."""

from __future__ import annotations

from random import Random

import networkx as nx  # type: ignore[import-untyped]  # ships no types
import pytest

from coterie.algorithms.deadlock.condition import Condition, all_of, any_of, some_of
from coterie.algorithms.deadlock.wait_for import Graph
from tests.algorithms.deadlock.frozen import and_or_graphs, plain_graphs
from tests.algorithms.deadlock.systems import MODELS, random_condition


def random_graph(seed: int, size: int) -> Graph[int]:
    random = Random(seed)
    model = MODELS[seed % len(MODELS)]
    waits = {
        me: random_condition(model, size, me, random)
        for me in range(1, size + 1)
        if random.random() < 0.85
    }
    return Graph(waits)


def stuck_by_definition(waits: dict[int, Condition[int]], size: int) -> set[int]:
    """The union of all sets in which nobody's condition holds though all others grant."""
    found: set[int] = set()
    for bits in range(1 << size):
        members = {me for me in range(1, size + 1) if bits >> (me - 1) & 1}
        outside = set(range(1, size + 1)) - members
        if all(me in waits and not waits[me].holds(outside) for me in members):
            found |= members
    return found


@pytest.mark.parametrize("seed", range(60))
def test_reduction_is_the_definition(seed: int) -> None:
    graph = random_graph(seed, size := 3 + seed % 5)
    assert set(graph.deadlocked()) == stuck_by_definition(dict(graph.waits), size)


def test_a_condition_can_need_several_of_many_and_nest() -> None:
    condition = some_of(2, 1, 2, all_of(3, any_of(4, 5)))
    assert condition.holds({1, 2})
    assert condition.holds({1, 3, 5})
    assert not condition.holds({1, 3})
    assert condition.targets() == (1, 2, 3, 4, 5)
    assert str(condition) == "2 of 1, 2, (all of 3, (any of 4, 5))"


def test_who_has_granted_is_waited_for_no_more() -> None:
    assert some_of(2, 1, 2, 3).without({2}) == some_of(1, 1, 3)
    assert any_of(1, 2).without({2}).holds(set())
    assert not all_of(1, any_of(2, 3)).without({1}).holds(set())


def test_blockers_are_enough_to_keep_a_condition_from_holding_and_no_more() -> None:
    assert all_of(1, 2, 3).blockers({2, 3}) == (2,)
    assert any_of(1, 2).blockers({1}) == ()
    assert any_of(1, 2).blockers({1, 2}) == (1, 2)
    assert some_of(2, 1, 2, 3).blockers({1, 2, 3}) == (1, 2)


def test_where_all_conditions_are_and_deadlock_means_a_cycle() -> None:
    for waits in plain_graphs(3, alternatives=False):
        graph = Graph(waits)
        network = nx.DiGraph([(a, b) for a, named in graph.edges().items() for b in named])
        assert bool(graph.deadlocked()) == (not nx.is_directed_acyclic_graph(network))
        assert bool(graph.deadlocked()) == bool(graph.cycles())


def test_where_all_conditions_are_or_deadlock_means_a_knot() -> None:
    """Yet some are deadlocked outside the knot, and a cycle alone means nothing (9.2 of the notes)."""
    outside_the_knot = cycles_alone = 0
    for waits in plain_graphs(4, alternatives=True):
        graph = Graph(waits)
        stuck, knots = set(graph.deadlocked()), graph.knots()
        assert bool(stuck) == bool(knots)
        outside_the_knot += bool(stuck.difference(*knots))
        cycles_alone += bool(graph.cycles()) and not stuck
    assert (outside_the_knot, cycles_alone) == (828, 990)


def test_with_and_and_or_mixed_a_deadlock_need_not_contain_a_knot() -> None:
    """Of 587 deadlocks among three processes 63 have none; a knot is always a deadlock."""
    deadlocks = without_knot = 0
    for waits in and_or_graphs(3):
        graph = Graph(waits)
        stuck, knots = set(graph.deadlocked()), graph.knots()
        assert all(stuck >= set(knot) for knot in knots)
        deadlocks += bool(stuck)
        without_knot += bool(stuck) and not knots
    assert (deadlocks, without_knot) == (587, 63)


def test_the_smallest_deadlock_without_a_knot() -> None:
    graph = Graph({1: all_of(2), 2: all_of(1, 3)})
    assert graph.deadlocked() == (1, 2)
    assert graph.knots() == []
    assert graph.cores() == [(1, 2)]


@pytest.mark.parametrize("seed", range(150))
def test_aborting_any_member_of_a_core_lets_all_its_others_go_on(seed: int) -> None:
    graph = random_graph(seed, 12)
    cores = graph.cores()
    assert bool(cores) == bool(graph.deadlocked())
    for core in cores:
        for victim in core:
            assert graph.stuck(member for member in core if member != victim) == ()


@pytest.mark.parametrize("seed", range(40))
def test_knots_and_cycles_are_those_of_another_library(seed: int) -> None:
    graph = random_graph(seed, 15)
    edges = graph.edges()
    network = nx.DiGraph([(a, b) for a, named in edges.items() for b in named])
    components = list(nx.strongly_connected_components(network))
    cyclic = [c for c in components if len(c) > 1 or network.has_edge(*(2 * tuple(c)))]
    closed = [c for c in cyclic if all(set(network[node]) <= c for node in c)]
    assert {frozenset(c) for c in graph.cycles()} == {frozenset(c) for c in cyclic}
    assert {frozenset(c) for c in graph.knots()} == {frozenset(c) for c in closed}


def test_a_cycle_with_an_escape_is_no_deadlock_until_the_escape_closes() -> None:
    waits = {"P1": any_of("P2", "P3"), "P2": any_of("P1")}
    assert Graph(waits).deadlocked() == ()
    assert Graph({**waits, "P3": all_of("P2")}).deadlocked() == ("P1", "P2", "P3")


def test_a_waiter_at_two_places_is_caught_by_a_cycle_through_either() -> None:
    for place in ("A", "B"):
        graph = Graph(
            {"P1": all_of("A", "B"), "P2": all_of("C"), "C": all_of("P1")} | {place: all_of("P2")}
        )
        assert set(graph.deadlocked()) == {"P1", "P2", "C", place}


@pytest.mark.slow
def test_a_hot_lock_with_a_thousand_waiters_has_a_thousand_and_one_edges() -> None:
    waits = {f"P{index}": all_of("hot") for index in range(1000)}
    graph = Graph({**waits, "hot": all_of("P0")})
    assert sum(map(len, graph.edges().values())) == 1001
    assert len(graph.deadlocked()) == 1001
    assert graph.cores() == [("P0", "hot")]


def test_long_chains_need_no_deep_recursion() -> None:
    chain = Graph({index: all_of(index + 1) for index in range(20_000)})
    assert chain.deadlocked() == ()
    ring = Graph({index: all_of((index + 1) % 5000) for index in range(5000)})
    assert len(ring.deadlocked()) == 5000
    assert len(ring.cycles()) == 1
