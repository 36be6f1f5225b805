"""The survey's continuous detection: its rules, what it finds, and the graph that it misses."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from coterie.algorithms.deadlock.condition import Condition, all_of, any_of, some_of
from coterie.algorithms.deadlock.detectors.survey import Detection, Hop, SurveyDetector, groups
from coterie.algorithms.deadlock.detectors.waits import Wait
from coterie.algorithms.deadlock.wait_for import Graph
from coterie.errors import ConfigError
from coterie.process import Outbox
from tests.algorithms.deadlock.frozen import and_or_graphs, detect, plain_graphs
from tests.algorithms.deadlock.systems import build, left_waiting, random_scripts, run


def waiting(me: int, condition: Condition[int]) -> SurveyDetector:
    survey = SurveyDetector(me)
    survey.begin(condition, Outbox(me), born=me)
    return survey


def sent(survey: SurveyDetector, message: Detection) -> list[tuple[int, tuple[int, ...]]]:
    """Deliver, and give the receivers with the processes on the path."""
    out: Outbox[Any] = Outbox(survey.me)
    survey.receive(0, message, out)
    return [
        (to, tuple(hop.process for hop in m.path))
        for to, m in out.sends
        if isinstance(m, Detection)
    ]


def hop(process: int, targets: tuple[int, ...], taken: int) -> Hop:
    return Hop(process, Wait(1, any_of(*targets), born=process), taken)


def test_rule_1_an_and_edge_carries_one_name_and_an_or_edge_the_whole_group() -> None:
    survey = waiting(1, all_of(2, any_of(3, 4)))
    out: Outbox[Detection] = Outbox(1)
    survey.search(out)
    carried = {to: m.path[0].wait.condition.nodes for to, m in out.sends}
    assert carried == {2: (2,), 3: (3, 4), 4: (3, 4)}


def test_rule_2_one_who_runs_drops_the_message() -> None:
    assert sent(SurveyDetector(2), Detection((hop(1, (2,), 2),))) == []


def test_rule_2_one_who_waits_sends_it_on_along_all_its_edges() -> None:
    survey = waiting(2, all_of(3, any_of(4, 5)))
    assert sent(survey, Detection((hop(1, (2,), 2),))) == [(3, (1, 2)), (4, (1, 2)), (5, (1, 2))]


def test_rule_a_a_message_that_comes_again_by_an_and_edge_is_dropped() -> None:
    survey = waiting(2, all_of(3))
    assert sent(survey, Detection((hop(1, (2,), 2), hop(2, (3,), 3), hop(3, (2,), 2)))) == []


def test_rule_b_an_or_edge_is_not_passed_twice() -> None:
    survey = waiting(2, any_of(3, 4))
    path = (hop(1, (2,), 2), hop(2, (3, 4), 3), hop(3, (2, 5), 2))
    assert sent(survey, Detection(path)) == [(4, (1, 2, 3, 2))]


def test_rule_3_messages_are_kept_until_they_hold_a_knot() -> None:
    outcome = detect(SurveyDetector, {1: any_of(2, 3), 2: all_of(1), 3: all_of(1)}, [1])
    assert outcome.suspicions == [(1, 3, frozenset({1, 2, 3}))]
    assert detect(SurveyDetector, {1: any_of(2, 3), 2: all_of(1)}, [1]).suspicions == []


def test_rule_3_what_comes_back_after_the_wait_is_dropped() -> None:
    survey = waiting(1, all_of(2))
    survey.end(Outbox(1))
    out: Outbox[Any] = Outbox(1)
    survey.receive(2, Detection((hop(1, (2,), 2), hop(2, (1,), 1))), out)
    survey.begin(all_of(2), Outbox(1), born=1)
    survey.receive(2, Detection((hop(1, (2,), 2), hop(2, (1,), 1))), out)
    assert out.sends == []
    assert survey.kept == []


def test_conditions_that_the_survey_does_not_know_are_refused() -> None:
    assert groups(all_of(1, any_of(2, 3))) == [(1,), (2, 3)]
    assert groups(any_of(1, 2)) == [(1, 2)]
    for condition in (some_of(2, 1, 2, 3), any_of(1, all_of(2, 3))):
        with pytest.raises(ConfigError, match="AND edges and OR groups"):
            groups(condition)


@pytest.mark.slow
def test_on_three_processes_somebody_finds_every_deadlock_and_nobody_a_false_one() -> None:
    for waits in and_or_graphs(3):
        if waits:
            graph = Graph(waits)
            suspicions = detect(SurveyDetector, waits).suspicions
            assert bool(suspicions) == bool(graph.deadlocked())
            assert all(len(graph.stuck(core)) == len(core) for _, _, core in suspicions)


@pytest.mark.parametrize("alternatives", [False, True])
def test_and_alone_and_or_alone_are_detected(alternatives: bool) -> None:
    for waits in plain_graphs(3, alternatives=alternatives):
        if waits:
            assert bool(detect(SurveyDetector, waits).suspicions) == bool(Graph(waits).deadlocked())


def test_the_graph_that_separates_it_from_the_oracle() -> None:
    """All four are deadlocked, and no initiator ever learns of it: rule a drops what it needs."""
    waits = {1: all_of(4), 2: all_of(3), 3: any_of(2, 4), 4: any_of(1, 3)}
    assert Graph(waits).deadlocked() == (1, 2, 3, 4)
    assert detect(SurveyDetector, waits).suspicions == []


@pytest.mark.slow
def test_random_systems_have_no_false_victims_and_and_or_alone_leave_nobody_waiting() -> None:
    for seed in range(200):
        random = Random(seed)
        model = ("and", "or", "and-or")[seed % 3]
        processes = build("survey", random_scripts(model, random.choice((2, 3, 4, 5)), random))
        result, _ = run(processes, seed)
        assert not result.violations, f"seed {seed}: {result.violations}"
        assert model == "and-or" or not left_waiting(processes), f"seed {seed}"
