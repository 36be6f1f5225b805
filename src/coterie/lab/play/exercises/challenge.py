"""Challenges: bring something about in as few moves as can be. The atlas knows how few that is.

They are pages of `challenges.md`, each with a name. An answer is a run, written as an address:
`#/break/deadlock/a1/a2/a3/d1.2/d2.3/d3.1`. It holds moves and nothing else, so that a teacher
plays it again and has to believe nothing.
"""

from __future__ import annotations

import functools
from importlib import resources
from typing import TYPE_CHECKING

import msgspec

from coterie.lab.play.exercises.page import Page, parse_pages
from coterie.lab.play.exploration.attempt import Attempt, Task
from coterie.lab.play.exploration.goal import parse_goal
from coterie.lab.play.questions import Question
from coterie.lab.play.runs.address import RunAddress, read_address
from coterie.lab.play.runs.refusal import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.lab.play.laboratory import Laboratory

BUDGET_MILLISECONDS = 60_000  # for one answer on the command line


class ChallengeQuestion(msgspec.Struct, frozen=True):
    """Moves made in a challenge, those given included."""

    name: str
    moves: list[str] = []
    cursor: int | None = None
    budget_ms: int = 5_000


class Score(msgspec.Struct, frozen=True):
    """How well a run does a challenge."""

    reached: bool
    moves: int | None  # made until the goal was reached, not counting those given
    shortest: int
    ratio: float | None  # of these; 1.0 is the best
    faults: int
    text: str


@functools.cache
def challenges() -> dict[str, Page]:
    """Read all challenges, the easy ones first."""
    text = (resources.files("coterie.lab.play.exercises") / "challenges.md").read_text(
        encoding="utf-8"
    )
    return {page.name: page for page in parse_pages("challenges", text)}


def score(
    laboratory: Laboratory,
    asked: ChallengeQuestion,
    cancelled: Callable[[], bool] | None = None,
) -> Score:
    """Judge a run as an answer to a challenge."""
    page = challenges().get(asked.name)
    if page is None:
        raise Refusal(f"there is no challenge {asked.name[:40]!r}")
    if asked.moves[: len(page.moves)] != page.moves:
        raise Refusal(f"the challenge {page.name} begins with other moves")
    question = _question(page, asked)
    laboratory.play_whole(question)
    return _score(page, laboratory.attempt(question, _task(page), cancelled))


def hint(
    laboratory: Laboratory,
    asked: ChallengeQuestion,
    cancelled: Callable[[], bool] | None = None,
) -> list[str]:
    """Return the moves of a shortest way to the goal from the reader's place; none if there is no way."""
    page = challenges().get(asked.name)
    if page is None:
        raise Refusal(f"there is no challenge {asked.name[:40]!r}")
    return laboratory.hint(_question(page, asked), _task(page), cancelled).moves or []


def read_answer(text: str) -> list[ChallengeQuestion]:
    """Read an address as an answer: to the challenge it names, or to all that its run fits."""
    fragment = text.partition("#")[2] or text
    name, _, codes = fragment.removeprefix("/").removeprefix("break/").partition("/")
    if not fragment.removeprefix("/").startswith("break/"):
        return fitting(read_address(fragment))
    page = challenges().get(name)
    if page is None:
        raise Refusal(f"there is no challenge {name[:40]!r}")
    made = read_address(f"/run/-/{codes}")
    return [ChallengeQuestion(name, [*page.moves, *made.moves])]


def fitting(run: RunAddress) -> list[ChallengeQuestion]:
    """Return the run as an answer to each challenge that begins as it does."""
    found = [
        ChallengeQuestion(page.name, run.moves)
        for page in challenges().values()
        if page.first == run.first and run.moves[: len(page.moves)] == page.moves
    ]
    if not found:
        raise Refusal(f"no challenge begins with {run.first!r}")
    return found


def _question(page: Page, asked: ChallengeQuestion) -> Question:
    moves = asked.moves or page.moves
    return Question(page.first, moves, asked.cursor, page.bound, budget_ms=asked.budget_ms)


def _task(page: Page) -> Task:
    return Task(parse_goal(page.goal), len(page.moves))


def _score(page: Page, attempt: Attempt) -> Score:
    shortest = attempt.shortest
    assert shortest, f"the goal of {page.name} can be reached, and is not at its beginning"
    moves = attempt.moves
    if moves is None:
        text = attempt.forbidden or "the goal is not reached"
        return Score(False, None, shortest, None, attempt.faults, text)
    ratio = moves / shortest
    best = "as few as can be" if moves == shortest else f"{shortest} would do"
    made = "1 move" if moves == 1 else f"{moves} moves"
    return Score(True, moves, shortest, round(ratio, 2), attempt.faults, f"{made}, {best}")
