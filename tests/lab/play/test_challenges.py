"""Challenges: each can be done, the shortest way is known, and an answer is scored by being played again."""

from __future__ import annotations

import contextlib
import random
import string

import pytest

from coterie.lab.play import laboratory
from coterie.lab.play.exercises.challenge import (
    ChallengeQuestion,
    Score,
    challenges,
    hint,
    read_answer,
    score,
)
from coterie.lab.play.exploration.attempt import NOT_JUDGED, Task
from coterie.lab.play.exploration.bound import Bound
from coterie.lab.play.exploration.goal import Goal, parse_goal
from coterie.lab.play.laboratory import Laboratory
from coterie.lab.play.questions import Question
from coterie.lab.play.runs.address import code_of
from coterie.lab.play.runs.refusal import Refusal
from tests.lab.play.exhaustive import Exhaustive

ENOUGH = 60_000
LABORATORY = Laboratory(ENOUGH)
SHORTEST = {
    "no-answer": 2,
    "deadlock": 6,
    "two-inside": 5,
    "two-tokens": 5,
    "out-of-order": 7,
    "overtaken": 4,
    "starve-3": 5,
    "as-surveyed": 7,
    "no-leader": 5,
    "ring-goes-on": 6,
    "twice": 4,
    "served": 12,
}


def scored(name: str, moves: list[str]) -> Score:
    return score(LABORATORY, ChallengeQuestion(name, moves, budget_ms=ENOUGH))


def test_every_challenge_is_listed_here() -> None:
    assert list(challenges()) == list(SHORTEST)


def test_a_challenge_is_as_hard_as_its_shortest_way_is_long() -> None:
    levels = {name: 1 if moves <= 4 else 2 if moves <= 6 else 3 for name, moves in SHORTEST.items()}
    assert {name: page.level for name, page in challenges().items()} == levels


@pytest.mark.parametrize("name", SHORTEST)
def test_the_shortest_way_reaches_the_goal_and_its_beginnings_do_not(name: str) -> None:
    page = challenges()[name]
    way = hint(LABORATORY, ChallengeQuestion(name, page.moves, budget_ms=ENOUGH))
    assert len(way) == SHORTEST[name]
    best = scored(name, [*page.moves, *way])
    assert (best.reached, best.moves, best.ratio) == (True, len(way), 1.0)
    for short in range(len(way)):
        assert not scored(name, [*page.moves, *way[:short]]).reached
    (read,) = read_answer(f"#/break/{name}/{'/'.join(map(code_of, way))}")
    assert read.moves == [*page.moves, *way]


@pytest.mark.parametrize("name", SHORTEST)
def test_the_fewest_moves_are_those_of_a_search_that_knows_no_atlas(name: str) -> None:
    assert Exhaustive(challenges()[name]).fewest() == SHORTEST[name]


@pytest.mark.parametrize(
    ("name", "moves"),
    [
        ("no-answer", ["acquire 2", "deliver 2 > 1", "acquire 1", "crash 2"]),
        ("no-answer", ["acquire 2", "crash 2"]),
    ],
)
def test_a_crashed_process_does_not_wait(name: str, moves: list[str]) -> None:
    assert not scored(name, moves).reached


@pytest.mark.parametrize(
    ("goal", "moves"),
    [
        ("starve 2", ["acquire 2", "deliver 2 > 1", "acquire 1", "crash 2"]),
        ("inside 2", ["acquire 2", "deliver 2 > 1", "deliver 1 > 2", "crash 2"]),
        ("inside 1 before 2", ["acquire 1", "acquire 2", "deliver 2 > 1", "crash 2"]),
    ],
)
def test_no_goal_is_reached_by_a_process_that_has_crashed(goal: str, moves: list[str]) -> None:
    question = Question("centralized 3", moves, bound=Bound(crashes=1), budget_ms=ENOUGH)
    assert not LABORATORY.reaches(question, parse_goal(goal))


def test_a_process_does_not_starve_if_another_request_lets_it_in() -> None:
    stalled = ["acquire 2", "acquire 3", "deliver 2 > 1", "deliver 3 > 2"]
    assert not scored("starve-3", stalled).reached


def test_a_goal_that_a_search_has_not_come_to_is_not_called_out_of_reach() -> None:
    asked = ChallengeQuestion("deadlock", ["acquire 1"])
    for judge in (hint, score):
        with pytest.raises(Refusal, match=NOT_JUDGED):
            judge(Laboratory(0), asked)


def test_a_longer_way_has_a_higher_number_and_what_follows_the_goal_does_not_count() -> None:
    starved = ["acquire 2", "acquire 3", "deliver 2 > 3", "deliver 2 > 1", "deliver 3 > 2"]
    starved.append("deliver 3 > 1")
    found = scored("starve-3", starved)
    assert found.reached
    assert found.ratio == pytest.approx(len(starved) / 5)
    assert scored("starve-3", [*starved, "deliver 1 > 2"]) == found


def test_a_move_outside_the_bound_ends_an_attempt() -> None:
    found = scored("deadlock", ["acquire 1", "crash 2"])
    assert not found.reached
    assert "move 2, crash 2, is outside the bound" in found.text


@pytest.mark.parametrize(
    ("question", "text"),
    [
        (ChallengeQuestion("nothing"), "there is no challenge"),
        (ChallengeQuestion("overtaken", ["acquire 2"]), "begins with other moves"),
        (ChallengeQuestion("deadlock", ["acquire 9"]), "cannot"),
        (ChallengeQuestion("deadlock", ["release 1"]), "cannot"),
        (ChallengeQuestion("deadlock", [f"acquire {'1' * 5_000}"]), "cannot"),
    ],
)
def test_what_is_no_answer_is_refused(question: ChallengeQuestion, text: str) -> None:
    with pytest.raises(Refusal, match=text):
        score(LABORATORY, question)


@pytest.mark.parametrize(
    "address",
    [
        "#/break/deadlock/a1/a2@1",
        "http://127.0.0.1:8421/#/break/deadlock/a1/a2",
        "#/run/maekawa%203%20variant=basic/a1/a2@0",
    ],
)
def test_an_answer_is_read_from_an_address(address: str) -> None:
    assert read_answer(address) == [ChallengeQuestion("deadlock", ["acquire 1", "acquire 2"])]


def test_any_text_is_read_or_refused() -> None:
    chance = random.Random(5)
    for length in (0, 1, 40, 2_000):
        for start in ("", "#/break/", "#/break/deadlock/", "#/run/"):
            text = start + "".join(chance.choices(string.printable, k=length))
            with contextlib.suppress(Refusal):
                read_answer(text)


@pytest.mark.parametrize(
    ("text", "goal"),
    [
        ("two inside", Goal("two inside")),
        ("starve 3", Goal("starve", 3)),
        ("inside 2 before 1", Goal("inside", 2, 1)),
    ],
)
def test_goals_are_read(text: str, goal: Goal) -> None:
    assert parse_goal(text) == goal


@pytest.mark.parametrize(
    ("first", "kind"),
    [
        ("maekawa 3 variant=basic", "broken"),
        ("maekawa 3 variant=basic", "stuck"),
        ("maekawa 3 variant=basic", "deadlock"),
        ("maekawa 3 variant=basic", "starve 1"),
        ("majority 3", "inside 3"),
        ("centralized 2", "served"),
    ],
)
def test_a_goal_is_marked_on_the_atlas_where_a_play_reaches_it(first: str, kind: str) -> None:
    """What is looked up and what is seen must agree, else the shortest way would not be one."""
    goal, chance = parse_goal(kind), random.Random(kind)
    reached = 0
    for _ in range(10):
        moves: list[str] = []
        for _ in range(12):
            question = Question(first, moves, budget_ms=ENOUGH)
            way = LABORATORY.hint(question, Task(goal))
            seen = LABORATORY.reaches(question, goal)
            assert seen is (way.moves == [])
            reached += seen is True
            position = LABORATORY.play(question)
            choices = [x.text for x in position.enabled if not x.fault]
            asked = [x for x in choices if x not in moves]  # one entry of each
            if not asked:
                break
            moves.append(chance.choice(asked))
    assert reached


@pytest.mark.parametrize("goal", ["starve 1", "stuck"])
def test_a_search_that_was_cut_leaves_undecided_what_only_all_of_the_future_can_show(
    goal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = Question("maekawa 3 variant=basic", ["acquire 1"], budget_ms=ENOUGH)
    assert LABORATORY.reaches(question, parse_goal(goal)) is False
    monkeypatch.setattr(laboratory, "STATES_MAX", 5)
    with pytest.raises(Refusal, match=r"undecided: .*\b\d+ states, .*then the search was cut"):
        Laboratory(ENOUGH).reaches(question, parse_goal(goal))


def test_what_shows_in_a_state_is_decided_there_however_little_was_searched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    question = Question("maekawa 3 variant=basic", ["acquire 1"], budget_ms=ENOUGH)
    monkeypatch.setattr(laboratory, "STATES_MAX", 5)
    assert Laboratory(ENOUGH).reaches(question, parse_goal("deadlock")) is False


def test_what_the_explorer_cannot_have_is_undecided() -> None:
    """It relies on bounds of time, which a search without a clock does not know."""
    with pytest.raises(Refusal, match="undecided"):
        LABORATORY.reaches(Question("fault-tolerant 3", []), parse_goal("deadlock"))
