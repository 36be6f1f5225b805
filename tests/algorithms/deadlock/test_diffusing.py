"""The default detector: its rules, the oracle on every small graph, its cost, and random systems."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from coterie.algorithms.deadlock.condition import Condition, all_of, any_of, some_of
from coterie.algorithms.deadlock.detectors.diffusing import Diffusing, Probe, Report
from coterie.algorithms.deadlock.detectors.waits import Wait
from coterie.algorithms.deadlock.wait_for import Graph
from coterie.process import Outbox
from tests.algorithms.deadlock.frozen import and_or_graphs, detect
from tests.algorithms.deadlock.systems import MODELS, build, left_waiting, random_scripts, run
from tests.algorithms.deadlock.test_detector import Bench
from tests.algorithms.deadlock.test_wait_for import random_graph


def test_a_search_probes_everyone_whom_the_condition_names() -> None:
    detector = Diffusing(1)
    out: Outbox[Any] = Outbox(1)
    detector.begin(all_of(2, any_of(3, 2)), out)
    detector.search(out)
    assert out.sends == [(2, Probe(1, 1)), (3, Probe(1, 1))]


def test_one_who_runs_reports_so_and_passes_nothing_on() -> None:
    assert Bench(2).receive(1, Probe(1, 1)) == [(1, Report(1, None))]


def test_one_who_waits_reports_its_wait_and_passes_the_probe_on_once() -> None:
    bench = Bench(2)
    bench.begin(any_of(3, 4))
    wait = Wait(1, any_of(3, 4), born=2)
    assert bench.receive(1, Probe(1, 1)) == [
        (1, Report(1, wait)),
        (3, Probe(1, 1)),
        (4, Probe(1, 1)),
    ]
    assert bench.receive(3, Probe(1, 1)) == []
    assert bench.receive(3, Probe(1, 2)) != []
    assert bench.receive(3, Probe(1, 1)) == []


def test_a_report_to_a_search_that_is_over_is_ignored() -> None:
    bench = Bench(1)
    out: Outbox[Any] = Outbox(1)
    bench.begin(all_of(2))
    bench.detector.search(out)
    bench.end()
    bench.begin(all_of(2))
    bench.detector.search(out)
    assert bench.receive(2, Report(1, Wait(1, all_of(1)))) == []
    assert bench.receive(2, Report(2, Wait(1, all_of(1), born=2))) != []


@pytest.mark.slow
def test_every_graph_of_three_processes_is_judged_as_the_oracle_does() -> None:
    for waits in and_or_graphs(3):
        if waits:
            accusers = {accuser for accuser, _, _ in detect(Diffusing, waits).suspicions}
            assert accusers == set(Graph(waits).deadlocked())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_large_frozen_graphs_are_judged_as_the_oracle_does(seed: int) -> None:
    graph = random_graph(seed, 50)
    outcome = detect(Diffusing, graph.waits)
    assert {accuser for accuser, _, _ in outcome.suspicions} == set(graph.deadlocked())
    assert all(len(graph.stuck(core)) == len(core) for _, _, core in outcome.suspicions)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_all_who_see_the_same_cycle_name_the_same_victim(seed: int) -> None:
    graph = random_graph(seed, 30)
    for core in graph.cores():
        named = {
            victim
            for accuser, victim, _ in detect(Diffusing, graph.waits).suspicions
            if accuser in core
        }
        assert len(named) == 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_a_search_costs_a_probe_for_each_edge_and_a_report_for_each_process(seed: int) -> None:
    """At most 2e in all, e being the edges it can reach; snapshot algorithms take up to 4e."""
    graph = random_graph(seed, 30)
    for initiator in graph.waits:
        reached = _reach(graph, initiator)
        edges = sum(len(graph.waits[node].targets()) for node in reached if node in graph.waits)
        messages = detect(Diffusing, graph.waits, [initiator]).messages
        assert messages["Probe"] == edges
        assert messages["Report"] == len(reached) - 1
        assert messages.total() <= 2 * edges


def _reach(graph: Graph[int], start: int) -> set[int]:
    edges = graph.edges()
    reached, border = {start}, [start]
    while border:
        for target in edges.get(border.pop(), ()):
            if target not in reached:
                reached.add(target)
                border.append(target)
    return reached


def test_a_thousand_waiters_for_one_lock_cost_four_messages_each() -> None:
    waits: dict[int, Condition[int]] = {me: all_of(1) for me in range(3, 1003)}
    outcome = detect(Diffusing, {1: all_of(2), **waits}, list(waits))
    assert outcome.messages.total() == 4 * 1000
    assert outcome.suspicions == []


def test_the_graph_that_the_survey_misses_is_found_by_all_of_its_members() -> None:
    waits = {1: all_of(4), 2: all_of(3), 3: any_of(2, 4), 4: any_of(1, 3)}
    suspicions = detect(Diffusing, waits).suspicions
    assert {accuser for accuser, _, _ in suspicions} == {1, 2, 3, 4}
    assert {victim for _, victim, _ in suspicions} == {4}


def test_quorums_can_deadlock_with_fewer_than_all() -> None:
    """Two processes hold one vote of three each and want two; the third voter waits as well."""
    waits = {1: some_of(2, 2, 3, 4), 2: some_of(2, 1, 3, 4), 3: all_of(1)}
    assert {accuser for accuser, _, _ in detect(Diffusing, waits).suspicions} == {1, 2, 3}
    del waits[3]
    assert detect(Diffusing, waits).suspicions == []


SEEDS = 1000


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_random_systems_end_with_nobody_waiting_and_no_false_victim(part: int) -> None:
    """Up to 50 processes on links that reorder; the referee judges each victim as it is aborted."""
    victims = 0
    for seed in range(part * SEEDS // 10, (part + 1) * SEEDS // 10):
        random = Random(seed)
        size = random.choice((2, 3, 3, 4, 5, 6, 8, 12, 20, 50))
        scripts = random_scripts(MODELS[seed % len(MODELS)], size, random)
        processes = build("diffusing", scripts)
        result, referee = run(processes, seed)
        assert not result.violations, f"seed {seed}: {result.violations}"
        assert not left_waiting(processes), f"seed {seed}: an undetected deadlock"
        victims += len(referee.victims)
    assert victims > SEEDS / 20, "too peaceful to prove anything"
