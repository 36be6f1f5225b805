"""Lessons: every page begins as written, its goal is not reached at the start, and its solution reaches it."""

from __future__ import annotations

import pytest

from coterie.errors import ConfigError
from coterie.lab.address import Refusal
from coterie.lab.laboratory import Laboratory
from coterie.lab.lesson import GoalQuestion, Verdict, judge_goal, lessons, parse_lesson
from coterie.lab.questions import Position, Question

LABORATORY = Laboratory()
PAGES = [
    (lesson.name, number) for lesson in lessons().values() for number in range(len(lesson.pages))
]


def judged(name: str, number: int, moves: list[str]) -> Verdict:
    page = lessons()[name].pages[number]
    asked = GoalQuestion(name, number, Question(page.first, moves, bound=page.bound))
    verdict = judge_goal(LABORATORY, asked)
    assert isinstance(verdict, Verdict)
    return verdict


def solved(name: str, number: int) -> list[str]:
    """Play the solution, and return all moves as they were understood."""
    page = lessons()[name].pages[number]
    position = LABORATORY.play(Question(page.first, [*page.moves, *page.solution]))
    assert isinstance(position, Position)
    assert position.refusal is None
    return position.moves


@pytest.mark.parametrize(("name", "number"), PAGES)
def test_a_goal_is_not_reached_at_the_start_and_by_the_solution(name: str, number: int) -> None:
    page = lessons()[name].pages[number]
    assert not judged(name, number, page.moves).reached
    assert judged(name, number, solved(name, number)).reached


def test_a_goal_is_reached_within_its_limit_only() -> None:
    moves = solved("maekawa", 0)
    assert judged("maekawa", 0, moves).reached
    detour = ["acquire 1", "acquire 2", "deliver 1 > 2", "deliver 2 > 3"]
    position = LABORATORY.play(Question("maekawa 3 variant=basic", detour))
    assert isinstance(position, Position)
    assert not judged("maekawa", 0, detour).reached


def test_another_run_reaches_nothing() -> None:
    asked = GoalQuestion("maekawa", 2, Question("maekawa 3 variant=basic"))
    assert judge_goal(LABORATORY, asked) == Verdict(reached=False, text="another run")


@pytest.mark.parametrize(("name", "number"), [("nothing", 0), ("maekawa", 99), ("maekawa", -1)])
def test_a_page_that_does_not_exist_is_refused(name: str, number: int) -> None:
    assert isinstance(judge_goal(LABORATORY, GoalQuestion(name, number, Question("x"))), Refusal)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("words only", "no block to run"),
        ("```run\n@goal broken\n```", "no first line"),
        ("```run\nmaekawa 3\n@goal wonder\n```", "expected one of the goals"),
        ("```run\nmaekawa 3\n@goal broken\n@limit few\n```", "few"),
    ],
)
def test_a_lesson_that_is_written_wrong_is_refused(body: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        parse_lesson("draft", f"# Draft\n\n## Page\n{body}\n")
