"""Why a process waits, as the page says it."""

from __future__ import annotations

import pytest

from coterie.lab.play.exploration.bound import Bound
from coterie.lab.play.laboratory import Laboratory
from coterie.lab.play.questions import Question

ENOUGH = 600_000


def why(first: str, *moves: str, crashes: int = 0) -> dict[int, list[str]]:
    question = Question(first, list(moves), bound=Bound(crashes=crashes), budget_ms=ENOUGH)
    answer = Laboratory(ENOUGH).fates(question)
    return {each.process: each.sentences for each in answer.why}


INSIDE = "process 1 is inside"


@pytest.mark.parametrize(
    ("first", "moves", "expected"),
    [
        (
            "ricart-agrawala 3",
            "acquire 1/acquire 2/run",
            {2: ["process 2 waits for process 1", INSIDE]},
        ),
        (
            "ricart-agrawala 3 variant=keeping",
            "acquire 1/run/acquire 2/run",
            {2: ["process 2 waits for process 1", INSIDE]},
        ),
        ("lamport 3", "acquire 1/acquire 2/run", {2: ["process 2 waits for process 1", INSIDE]}),
        (
            "centralized 3",
            "acquire 2/run/acquire 3/run",
            {
                3: [
                    "process 3 waits for arbiter 1",
                    "arbiter 1 waits for process 2, which is inside",
                ]
            },
        ),
        (
            "centralized 3 variant=failover",
            "acquire 2/run/acquire 3/run",
            {
                3: [
                    "process 3 waits for arbiter 1",
                    "arbiter 1 waits for process 2, which is inside",
                ]
            },
        ),
        (
            "maekawa 3",
            "acquire 1",
            {
                1: [
                    "process 1 waits for arbiter 2",
                    "Request(1.1) is on its way from 1 to 2",
                ]
            },
        ),
        (
            "raymond 3 tree=chain",
            "acquire 1/acquire 3/run",
            {3: ["process 3 waits for process 2", "process 2 waits for process 1"]},
        ),
        (
            "naimi-trehel 3",
            "acquire 1/acquire 3/run",
            {3: ["process 3 waits for process 1", INSIDE]},
        ),
        (
            "suzuki-kasami 3",
            "acquire 1/acquire 3/run",
            {3: ["process 3 waits for process 1", INSIDE]},
        ),
        ("token-ring 3", "acquire 2", {2: ["process 2 waits for process 1"]}),
        ("decentralized 2", "acquire 2/crash 1", {2: ["process 2 waits"]}),
    ],
    ids=lambda value: value if isinstance(value, str) and "/" not in value else "",
)
def test_each_algorithm_says_what_its_processes_wait_for(
    first: str, moves: str, expected: dict[int, list[str]]
) -> None:
    said = why(first, *moves.split("/"))
    assert {process: text[: len(expected[process])] for process, text in said.items()} == expected


def test_a_deadlock_is_explained_as_soon_as_it_is_certain() -> None:
    asked = ["acquire 1", "acquire 2", "acquire 3"]
    lab = Laboratory(ENOUGH)
    for moves in (asked, [*asked, "run"]):
        answer = lab.fates(Question("maekawa 3 variant=basic", moves, budget_ms=ENOUGH))
        assert [(each.deadlock, each.core) for each in answer.why] == [
            ("cycle", [1, 2, 3]),
            ("cycle", [2, 3, 1]),
            ("cycle", [3, 1, 2]),
        ]
        assert answer.why[0].sentences[:2] == [
            "process 1 waits for arbiter 2",
            "arbiter 2 waits for process 2",
        ]


def test_what_an_inquiry_can_still_mend_is_no_deadlock() -> None:
    """The same three requests under the sound rules: the waits make a circle, and none is stuck."""
    question = Question("maekawa 3", ["acquire 1", "acquire 2", "acquire 3"], budget_ms=ENOUGH)
    answer = Laboratory(ENOUGH).fates(question)
    assert [each.deadlock for each in answer.why] == [None, None, None]


def test_one_that_waits_for_a_crashed_process_is_told_so() -> None:
    assert why("ricart-agrawala 3", "crash 3", "acquire 1", "run", crashes=1) == {
        1: ["process 1 waits for process 3", "process 3 has crashed"]
    }
    assert why("centralized 3", "crash 1", "acquire 2", crashes=1) == {
        2: ["process 2 waits for arbiter 1", "process 1 has crashed"]
    }


def test_a_request_that_is_forgotten_is_owed_by_none() -> None:
    moves = ["acquire 2", "acquire 3", "deliver 2 > 1", "deliver 2 > 3", "deliver 3 > 1"]
    moves += ["deliver 3 > 2", "deliver 1 > 2", "release 2"]
    assert why("suzuki-kasami 3 variant=survey", *moves) == {
        3: [
            "process 3 waits, and none owes it anything",
            "nothing is on its way, and no timer is set",
        ]
    }
