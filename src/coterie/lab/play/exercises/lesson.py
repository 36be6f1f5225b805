"""Lessons: one idea a page, something to begin with, and a goal that the laboratory checks.

A lesson is a Markdown file in `lessons`. Its first heading is the title, each further one a page, as
`coterie.lab.play.exercises.page` reads it.
"""

from __future__ import annotations

import functools
from importlib import resources
from typing import TYPE_CHECKING, Literal

import msgspec

from coterie.lab.play.exercises.editors import reaches
from coterie.lab.play.exercises.page import Editor, Page, parse_pages
from coterie.lab.play.exercises.quantity import measure
from coterie.lab.play.exercises.requirement import kept
from coterie.lab.play.exploration.goal import parse_goal
from coterie.lab.play.questions import Question
from coterie.lab.play.runs.refusal import Refusal

if TYPE_CHECKING:
    from coterie.lab.play.laboratory import Laboratory

ORDER = (
    "server",
    "permission",
    "clocks",
    "quorums",
    "maekawa",
    "token",
    "trees",
    "ring",
    "election",
    "faults",
    "update",
    "deadlock",
    "transactions",
    "costs",
    "induction",
)
ANSWER_MAX = 200  # characters


class Lesson(msgspec.Struct, frozen=True):
    """Pages that belong together."""

    name: str
    title: str
    pages: list[Page]


class GoalQuestion(msgspec.Struct, frozen=True):
    """Whether a run, or the text of an editor, has reached the goal of a page."""

    lesson: str
    page: int
    question: Question | None = None
    text: str = ""


class AnswerQuestion(msgspec.Struct, frozen=True):
    """Whether the answer to a question of a page is right."""

    lesson: str
    page: int
    ask: int
    answer: str


class PageVerdict(msgspec.Struct, frozen=True):
    """Whether the goal is reached; if a rule of the page forbids how, the reason."""

    reached: bool
    text: Literal["", "too many moves", "another run", "too much is changed"] = ""


@functools.cache
def lessons() -> dict[str, Lesson]:
    """Read all lessons, in the order in which they are meant to be read."""
    folder = resources.files("coterie.lab.play.exercises") / "lessons"
    return {
        name: parse_lesson(name, (folder / f"{name}.md").read_text(encoding="utf-8"))
        for name in ORDER
    }


def parse_lesson(name: str, text: str) -> Lesson:
    """Read a lesson; raise a `ConfigError` that names the page where it is wrong."""
    title = text.partition("\n")[0].strip().removeprefix("# ")
    return Lesson(name, title, parse_pages(f"lesson {name}", text))


def judge_goal(laboratory: Laboratory, asked: GoalQuestion) -> PageVerdict:
    """Say whether what a reader has played or written reaches the goal of its page."""
    page = _find_page(asked.lesson, asked.page)
    if page.editor is not None:
        return _judge_text(laboratory, page, page.editor, asked.text)
    if asked.question is None or not page.goal:
        raise Refusal("this page asks for no run")
    return _judge_run(laboratory, page, asked.question)


def _judge_text(laboratory: Laboratory, page: Page, editor: Editor, text: str) -> PageVerdict:
    reached = reaches(editor, page.goal, text, laboratory.solver)
    if reached and page.requirement and not kept(page.requirement, page.text, text):
        return PageVerdict(reached=False, text="too much is changed")
    return PageVerdict(reached=reached)


def _judge_run(laboratory: Laboratory, page: Page, question: Question) -> PageVerdict:
    if question.first != page.first or question.moves[: len(page.moves)] != page.moves:
        return PageVerdict(reached=False, text="another run")
    whole = msgspec.structs.replace(question, bound=page.bound)
    reached = laboratory.reaches(whole, parse_goal(page.goal))
    made = len(question.moves) if question.cursor is None else question.cursor
    if reached and page.limit is not None and made > page.limit:
        return PageVerdict(reached=False, text="too many moves")
    return PageVerdict(reached=reached)


def judge_answer(laboratory: Laboratory, asked: AnswerQuestion) -> PageVerdict:
    """Say whether an answer is what the run of the page measures."""
    page = _find_page(asked.lesson, asked.page)
    if not 0 <= asked.ask < len(page.asks) or len(asked.answer) > ANSWER_MAX:
        raise Refusal("there is no such question, or the answer is too long")
    measured = measure(laboratory, page.first, page.moves, page.bound, page.asks[asked.ask].measure)
    return PageVerdict(reached=_plain(asked.answer) == _plain(measured))


def _find_page(name: str, number: int) -> Page:
    lesson = lessons().get(name)
    if lesson is None or not 0 <= number < len(lesson.pages):
        raise Refusal(f"no page {number} of a lesson {name[:40]!r}")
    return lesson.pages[number]


def _plain(answer: str) -> str:
    """Leave out what does not matter: capitals, the word process, and a P before its number."""
    return " ".join(answer.casefold().replace("process", " ").replace("p", " ").split())
