"""Lessons: one idea a page, a run to begin with, and a goal that the laboratory checks.

A lesson is a Markdown file in `lessons`. Its first heading is the title, each further one a page: words,
then a block `run` with the first line of a scenario, moves, and directives:

    @goal stuck            some process can never enter any more, or a property is violated already
    @goal broken           a property is violated
    @goal inside 2         process 2 is inside
    @goal served           every process has been inside, and none waits
    @limit 6               in at most so many moves, those that are given included
    @allow crashes 1       what could happen beside one entry of each process
    @solution a; b; c      moves that reach the goal from where the page begins
"""

from __future__ import annotations

import functools
import re
from importlib import resources
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from coterie.errors import ConfigError
from coterie.lab.address import Refusal
from coterie.lab.bound import Bound
from coterie.lab.questions import Fates, Position, Question

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coterie.lab.laboratory import Laboratory

ORDER = ("permission", "quorums", "maekawa", "token", "election", "faults")
GOALS = ("stuck", "broken", "served", "inside")
PARAGRAPH = re.compile(r"\n\s*\n")


class Page(msgspec.Struct, frozen=True):
    """One idea, and something to do."""

    title: str
    words: list[str]  # paragraphs
    first: str
    moves: list[str]
    goal: str
    limit: int | None
    bound: Bound
    solution: list[str]


class Lesson(msgspec.Struct, frozen=True):
    """Pages that belong together."""

    name: str
    title: str
    pages: list[Page]


class GoalQuestion(msgspec.Struct, frozen=True):
    """Whether a run has reached the goal of a page."""

    lesson: str
    page: int
    question: Question


class Verdict(msgspec.Struct, frozen=True):
    """Whether the goal is reached; if a rule of the page forbids how, the reason."""

    reached: bool
    text: Literal["", "too many moves", "another run"] = ""


@functools.cache
def lessons() -> dict[str, Lesson]:
    """Read all lessons, in the order in which they are meant to be read."""
    folder = resources.files("coterie.lab") / "lessons"
    return {
        name: parse_lesson(name, (folder / f"{name}.md").read_text(encoding="utf-8"))
        for name in ORDER
    }


def parse_lesson(name: str, text: str) -> Lesson:
    """Read a lesson; raise a `ConfigError` that names the page where it is wrong."""
    head, *parts = re.split(r"^## ", text, flags=re.MULTILINE)
    pages = []
    for part in parts:
        title, _, body = part.partition("\n")
        try:
            pages.append(_page(title.strip(), body))
        except ValueError as error:
            raise ConfigError(f"lesson {name}, page {title.strip()!r}: {error}") from None
    return Lesson(name, head.strip().removeprefix("# "), pages)


class _Block(NamedTuple):
    lines: list[str]
    directives: dict[str, str]


def _page(title: str, body: str) -> Page:
    words, fence, rest = body.partition("```run\n")
    if not fence:
        raise ValueError("it has no block to run")
    block = _block(rest.partition("```")[0].splitlines())
    if not block.lines:
        raise ValueError("its block has no first line")
    goal = block.directives.get("goal", "")
    if goal.partition(" ")[0] not in GOALS:
        raise ValueError(f"expected one of the goals {', '.join(GOALS)}, got {goal!r}")
    kind, _, count = block.directives.get("allow", "").partition(" ")
    limit = block.directives.get("limit")
    return Page(
        title,
        [" ".join(each.split()) for each in PARAGRAPH.split(words) if each.strip()],
        block.lines[0],
        block.lines[1:],
        goal,
        None if limit is None else int(limit),
        Bound(**{kind: int(count)}) if kind else Bound(),
        [move.strip() for move in block.directives.get("solution", "").split(";")],
    )


def _block(lines: Iterable[str]) -> _Block:
    block = _Block([], {})
    for line in lines:
        if line.startswith("@"):
            name, _, value = line[1:].partition(" ")
            block.directives[name] = value.strip()
        elif line.strip():
            block.lines.append(line.strip())
    return block


def judge_goal(laboratory: Laboratory, asked: GoalQuestion) -> Verdict | Refusal:
    """Say whether a run that a reader has played reaches the goal of its page."""
    lesson = lessons().get(asked.lesson)
    if lesson is None or not 0 <= asked.page < len(lesson.pages):
        return Refusal(f"no page {asked.page} of a lesson {asked.lesson!r}")
    page, question = lesson.pages[asked.page], asked.question
    if question.first != page.first or question.moves[: len(page.moves)] != page.moves:
        return Verdict(reached=False, text="another run")
    position = laboratory.play(question)
    if isinstance(position, Refusal):
        return position
    reached = _reached(laboratory, page, question, position)
    if reached and page.limit is not None and position.cursor > page.limit:
        return Verdict(reached=False, text="too many moves")
    return Verdict(reached=reached)


def _reached(laboratory: Laboratory, page: Page, question: Question, position: Position) -> bool:
    match page.goal.split():
        case ["inside", process]:
            return position.states[int(process) - 1].phase == "inside"
        case ["served"]:
            idle = all(state.phase == "idle" for state in position.states)
            return idle and _been_inside(position) == set(range(1, position.size + 1))
        case _:
            asked = msgspec.structs.replace(question, bound=page.bound)
            fates = laboratory.fates(asked)
            here = fates.here if isinstance(fates, Fates) else None
            wanted = {"broken"} if page.goal == "broken" else {"broken", "lost"}
            return here is not None and here.word in wanted


def _been_inside(position: Position) -> set[int]:
    return {
        state.process
        for step in position.steps[: position.cursor + 1]
        for state in step.states
        if state.phase == "inside"
    }
