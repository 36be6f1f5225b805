"""Lessons: every page begins as written, its goal is not reached at the start, and its solution reaches it."""

from __future__ import annotations

import msgspec
import pytest

from coterie.errors import ConfigError, CoterieError
from coterie.lab.play.exercises.editors import reaches
from coterie.lab.play.exercises.lesson import (
    AnswerQuestion,
    GoalQuestion,
    PageVerdict,
    judge_answer,
    judge_goal,
    lessons,
    parse_lesson,
)
from coterie.lab.play.exercises.quantity import measure
from coterie.lab.play.exploration.attempt import NOT_JUDGED
from coterie.lab.play.laboratory import Laboratory
from coterie.lab.play.questions import Question
from coterie.lab.play.runs.refusal import Refusal

LABORATORY = Laboratory(60_000)
PAGES = [
    (lesson.name, number) for lesson in lessons().values() for number in range(len(lesson.pages))
]
RUNS = [
    (name, number)
    for name, number in PAGES
    if lessons()[name].pages[number].goal and not lessons()[name].pages[number].editor
]
EDITORS = [(name, number) for name, number in PAGES if lessons()[name].pages[number].editor]
ASKS = [
    (name, number, place)
    for name, number in PAGES
    for place in range(len(lessons()[name].pages[number].asks))
]
SECONDS_ENOUGH = 60_000


def judged(name: str, number: int, moves: list[str]) -> PageVerdict:
    page = lessons()[name].pages[number]
    question = Question(page.first, moves, bound=page.bound, budget_ms=SECONDS_ENOUGH)
    return judge_goal(LABORATORY, GoalQuestion(name, number, question))


def played(name: str, number: int, moves: list[str]) -> list[str]:
    """Play moves of a page, and return them as they were understood."""
    return LABORATORY.play_whole(Question(lessons()[name].pages[number].first, moves)).moves


def solved(name: str, number: int) -> list[str]:
    """Play the solution, and return all moves as they were understood."""
    page = lessons()[name].pages[number]
    moves = played(name, number, [*page.moves, *page.solution])
    assert moves[: len(page.moves)] == page.moves, "given moves stand as they are shown"
    return moves


@pytest.mark.parametrize(("name", "number"), RUNS)
def test_a_goal_is_not_reached_at_the_start_and_by_the_solution(name: str, number: int) -> None:
    page = lessons()[name].pages[number]
    assert not judged(name, number, page.moves).reached
    assert judged(name, number, solved(name, number)).reached


@pytest.mark.parametrize(("name", "number"), EDITORS)
def test_a_text_reaches_its_goal_by_the_solution_alone(name: str, number: int) -> None:
    page = lessons()[name].pages[number]
    given = judge_goal(LABORATORY, GoalQuestion(name, number, text=page.text))
    assert given == PageVerdict(reached=False)
    assert judge_goal(LABORATORY, GoalQuestion(name, number, text=page.solved)) == PageVerdict(
        reached=True
    )
    with pytest.raises(CoterieError):
        judge_goal(LABORATORY, GoalQuestion(name, number, text="?"))


@pytest.mark.parametrize(
    ("name", "number", "moves"),
    [
        ("server", 3, "acquire 2; deliver 2 > 1; deliver 1 > 2; acquire 3; release 2; run"),
        (
            "server",
            2,
            "acquire 2; deliver 2 > 1; deliver 1 > 2; acquire 3; deliver 3 > 1; release 2; deliver 2 > 1; acquire 1; crash 3",
        ),
        ("server", 4, "acquire 2; run"),
        ("ring", 2, "acquire 2; ring 1 PAUSE; run"),
        ("faults", 1, "acquire 2; drop 2 > 1"),
        ("trees", 3, "acquire 3; drop 3 > 1"),
    ],
)
def test_a_run_without_what_the_page_tells_of_is_not_accepted(
    name: str, number: int, moves: str
) -> None:
    made = played(name, number, moves.split("; "))
    assert not judged(name, number, made).reached


def test_process_3_is_told_that_it_has_to_wait_before_it_enters() -> None:
    given = lessons()["server"].pages[3].moves
    granted = [*given, "release 2", "deliver 2 > 1", "deliver 1 > 3"]
    assert not judged("server", 3, granted).reached
    assert judged("server", 3, [*granted, "deliver 1 > 3"]).reached


@pytest.mark.parametrize(
    ("name", "number", "text"),
    [
        ("update", 0, "1,2"),
        ("update", 0, "2,3 2,4 3,4"),
        ("update", 1, "2"),
        ("quorums", 2, "1"),
        ("quorums", 3, "2"),
        ("transactions", 0, "r1(x) w1(x) c1"),
        ("transactions", 1, "r1(x) r2(x) w1(x) w2(x) c1 c2"),
        ("transactions", 2, "r2(x) c2"),
        ("transactions", 2, "a1 w2(y) r2(x) c2"),
        ("transactions", 3, "r1(x)"),
        ("deadlock", 0, '{"P1": "P2", "P2": "P1"}'),
        ("deadlock", 4, "{}"),
        ("deadlock", 4, '{"worker": null, "ledger": null, "batch": null, "orders": null}'),
        ("induction", 0, "token-ring without inside_with_the_token"),
        ("induction", 2, "centralized"),
    ],
)
def test_a_text_that_leaves_out_what_is_hard_is_not_accepted(
    name: str, number: int, text: str
) -> None:
    found = judge_goal(LABORATORY, GoalQuestion(name, number, text=text))
    assert found == PageVerdict(reached=False, text="too much is changed")


@pytest.mark.parametrize(
    ("name", "number", "text"),
    [
        ("update", 0, "1,2 1,3 1,4 2,3,4"),
        ("transactions", 0, "r2(x) w2(x) c2 r1(x) w1(x) c1"),
        (
            "deadlock",
            4,
            '{"worker": null, "ledger": {"held": ["batch"]}, "batch": "orders", "orders": {"held": ["worker"]}}',
        ),
    ],
)
def test_another_solution_is_accepted(name: str, number: int, text: str) -> None:
    found = judge_goal(LABORATORY, GoalQuestion(name, number, text=text))
    assert found == PageVerdict(reached=True)


@pytest.mark.parametrize(("name", "number", "place"), ASKS)
def test_an_answer_is_judged_by_what_the_run_measures(name: str, number: int, place: int) -> None:
    page = lessons()[name].pages[number]
    right = measure(LABORATORY, page.first, page.moves, page.bound, page.asks[place].measure)
    asked = AnswerQuestion(name, number, place, f" {right.upper()} ")
    assert judge_answer(LABORATORY, asked) == PageVerdict(reached=True)
    wrong = AnswerQuestion(name, number, place, "something else")
    assert judge_answer(LABORATORY, wrong) == PageVerdict(reached=False)


@pytest.mark.parametrize(
    ("name", "number", "right"),
    [
        ("server", 0, ["3", "0"]),
        ("permission", 0, ["6"]),
        ("permission", 2, ["6"]),
        ("clocks", 0, ["yes", "no", "yes"]),
        ("clocks", 1, ["1.2", "2.2"]),
        ("maekawa", 1, ["3"]),
        ("trees", 0, ["2", "4", "3"]),
        ("costs", 1, ["10"]),
        ("election", 2, ["none"]),
    ],
)
def test_answers_are_what_the_literature_says(name: str, number: int, right: list[str]) -> None:
    for place, answer in enumerate(right):
        asked = AnswerQuestion(name, number, place, answer)
        assert judge_answer(LABORATORY, asked) == PageVerdict(reached=True)


@pytest.mark.parametrize(
    ("name", "number", "answer"), [("maekawa", 1, "never"), ("election", 2, "none")]
)
def test_an_answer_that_needs_a_search_is_not_judged_by_one_that_was_cut(
    name: str, number: int, answer: str
) -> None:
    """What was not seen in the time given is not what cannot be."""
    with pytest.raises(Refusal, match=NOT_JUDGED):
        judge_answer(Laboratory(0), AnswerQuestion(name, number, 0, answer))


def test_a_graph_as_a_goal_is_no_larger_than_on_its_page() -> None:
    text = msgspec.json.encode({f"P{number}": None for number in range(61)}).decode()
    with pytest.raises(Refusal, match="at most 60 processes"):
        reaches("graph", "no deadlock", text, LABORATORY.solver)


def test_a_goal_is_reached_within_its_limit_only() -> None:
    page = lessons()["maekawa"].pages[1]
    late = ["acquire 1", "acquire 2", "deliver 1 > 2", "acquire 3", "deliver 2 > 3"]
    assert page.limit == 3
    assert judged("maekawa", 1, late) == PageVerdict(reached=False, text="too many moves")


def test_another_run_reaches_nothing() -> None:
    asked = GoalQuestion("maekawa", 2, Question("maekawa 3 variant=basic"))
    assert judge_goal(LABORATORY, asked) == PageVerdict(reached=False, text="another run")


@pytest.mark.parametrize(("name", "number"), [("nothing", 0), ("maekawa", 99), ("maekawa", -1)])
def test_a_page_that_does_not_exist_is_refused(name: str, number: int) -> None:
    with pytest.raises(Refusal, match="no page"):
        judge_goal(LABORATORY, GoalQuestion(name, number, Question("x")))
    with pytest.raises(Refusal, match="no page"):
        judge_answer(LABORATORY, AnswerQuestion(name, number, 0, "1"))


@pytest.mark.parametrize("ask", [-1, 5])
def test_a_question_that_does_not_exist_is_refused(ask: int) -> None:
    with pytest.raises(Refusal, match="no such question"):
        judge_answer(LABORATORY, AnswerQuestion("server", 0, ask, "1"))


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("words only", "no block to run"),
        ("```run\n@goal broken\n```", "no first line"),
        ("```run\nmaekawa 3\n@goal wonder\n```", "expected one of the goals"),
        ("```run\nmaekawa 3\n@goal starve\n```", "expected one of the goals"),
        ("```run\nmaekawa 3\n@goal broken\n@limit few\n```", "few"),
        ("```run\nmaekawa 3\n@goal broken\n@allow wonders 1\n```", "wonders"),
        ("```run\nmaekawa 3\n```", "neither a goal nor a question"),
        ("```run\nmaekawa 3\n@ask how much? = weight\n```", "expected one of the measures"),
        ("```graph\n{}\n@goal wonder\n```", "expected one of the goals"),
        ("```graph\n{}\n@goal cycle\n@require x\n```", "expected one of the requirements"),
    ],
)
def test_a_lesson_that_is_written_wrong_is_refused(body: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        parse_lesson("draft", f"# Draft\n\n## Page\n{body}\n")
