"""What a crash and a return cost, measured and as the page derives it."""

from __future__ import annotations

import pytest

from coterie.lab.simulate import (
    Closed,
    Fault,
    OneAtATime,
    Result,
    Simulation,
    Workload,
    parse_fault,
)
from tests.harness import build

SIGMA, LAMBDA, T_D, T_MAX, QUARANTINE = 2.0, 1.0, 5.0, 20.0, 7.0


def run(workload: Workload, *faults: str, size: int = 7, coterie: str = "plane") -> Result:
    script: list[Fault] = [parse_fault(text) for text in faults]
    processes = build("fault-tolerant", size, coterie=coterie)
    result = Simulation(processes, workload=workload, faults=script).run()
    assert not result.violations
    return result


@pytest.mark.parametrize("size", [3, 5, 7, 10, 13])
def test_a_crash_costs_one_question_and_n_squared_minus_n_news(size: int) -> None:
    """Whoever detects it sends one to each other survivor, and so does whoever hears of it."""
    result = run(OneAtATime(1, [size]), "crash 1 @ 0", size=size, coterie="singleton")
    survivors = size - 1
    assert result.messages_by_kind["Down"] == survivors * (survivors - 1)
    assert result.messages_by_kind["IsAllright"] == 1
    assert "Allright" not in result.messages_by_kind


def test_a_request_that_meets_a_crash_costs_this_much_in_all() -> None:
    """4 asks 1 and 5, finds 1 dead, and asks 2 in its place; meanwhile arbiter 5 asks after 4."""
    result = run(OneAtATime(1, [4]), "crash 1 @ 0")
    assert result.messages_by_kind == {
        "Allright": 1,
        "Down": 6 * 5,
        "IsAllright": 2,
        "Locked": 2,
        "Release": 2,
        "Request": 3,
    }
    assert result.waiting is not None
    assert result.waiting.max == T_MAX + T_D + QUARANTINE


def test_the_news_costs_as_much_however_many_detect_the_crash() -> None:
    result = run(Closed(1, [2, 4, 6, 7]), "crash 5 @ 0")
    assert result.messages_by_kind["Down"] == 6 * 5
    assert result.messages_by_kind["IsAllright"] > result.messages_by_kind.get("Allright", 0) + 1


def test_whoever_is_inside_by_the_quorum_of_the_dead_costs_two_more_for_each_other() -> None:
    result = run(Closed(1, [4, 6], hold=100.0), "crash 5 @ 10")
    assert result.messages_by_kind["Hold"] == result.messages_by_kind["Unhold"] == 5


def test_a_return_costs_its_news_and_a_welcome_by_each() -> None:
    result = run(OneAtATime(1, [2]), "crash 1 @ 50", "restart 1 @ 60")
    assert result.messages_by_kind["Up"] == 6 + 6 * 5
    assert result.messages_by_kind["Welcome"] == 6
    assert "Hold" not in result.messages_by_kind


def test_a_later_return_costs_a_welcome_more_for_each_who_has_returned_before() -> None:
    faults = ["crash 1 @ 50", "restart 1 @ 60", "crash 2 @ 80", "restart 2 @ 90"]
    result = run(OneAtATime(1, [3]), *faults)
    assert result.messages_by_kind["Up"] == 2 * (6 + 6 * 5)
    assert result.messages_by_kind["Welcome"] == 6 + (6 + 1)


def test_a_return_while_others_are_down_costs_the_news_among_those_who_live() -> None:
    result = run(OneAtATime(7), "crash 1 @ 0", "restart 1 @ 300", "crash 2 @ 0")
    others = 5
    assert result.messages_by_kind["Up"] == 6 + others * (others - 1)
    assert result.messages_by_kind["Welcome"] == others


def test_a_return_while_somebody_is_inside_costs_two_more_for_each_other() -> None:
    result = run(Closed(1, [4], hold=100.0), "crash 2 @ 50", "restart 2 @ 60")
    assert result.messages_by_kind["Hold"] == result.messages_by_kind["Unhold"] == 6


def test_a_long_wait_costs_two_messages_a_question_and_questions_grow_rare() -> None:
    """6 waits for 4: 6 asks arbiter 5, arbiters 1 and 5 ask 4, arbiter 3 asks 6; then for 6."""
    questions = []
    for stay in (200.0, 1000.0):
        result = run(Closed(1, [4, 6], hold=stay))
        assert result.messages_by_kind["IsAllright"] == result.messages_by_kind["Allright"]
        questions.append(result.messages_by_kind["IsAllright"])
    assert questions == [16, 46]


def test_as_published_questions_do_not_grow_rare() -> None:
    processes = build("fault-tolerant", 7, "published")
    result = Simulation(processes, workload=Closed(1, [4, 6], hold=1000.0)).run()
    every = T_MAX + 2  # an answer takes two messages
    assert result.messages_by_kind["IsAllright"] == pytest.approx(6 * 1000 / every, rel=0.02)
