"""The addresses of what teaches: lessons, challenges, and the editors of graphs, schedules and quorums."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, TypeVar

import msgspec
from starlette.routing import Route

from coterie.dashboard.app import Json
from coterie.lab.play.exercises.challenge import ChallengeQuestion, challenges, hint, score
from coterie.lab.play.exercises.lesson import (
    AnswerQuestion,
    GoalQuestion,
    judge_answer,
    judge_goal,
    lessons,
)
from coterie.lab.play.exercises.quorums import judge_quorums
from coterie.lab.play.exercises.schedule import judge_schedule
from coterie.lab.web.exchange import read
from coterie.lab.web.graphs import judge_graph

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from coterie.lab.play.laboratory import Laboratory
    from coterie.lab.web.searches import Searches

T = TypeVar("T")


class TextQuestion(msgspec.Struct, frozen=True):
    """What stands in an editor."""

    text: str


class ExercisePages:
    """Answers the pages that teach."""

    def __init__(self, laboratory: Laboratory, searches: Searches) -> None:
        """Ask this laboratory, in the thread of these searches."""
        self._laboratory = laboratory
        self._searches = searches

    def routes(self) -> list[Route]:
        """Return the addresses that the pages ask."""
        judges = [self.goal, self.answer, self.challenge, self.hint]
        editors = [self.graph, self.history, self.coterie]
        return [
            Route("/api/lessons", self.lessons),
            Route("/api/challenges", self.challenges),
            *(Route(f"/api/{x.__name__}", x, methods=["POST"]) for x in [*judges, *editors]),
        ]

    async def lessons(self, _: Request) -> Response:
        """List the lessons."""
        return Json(list(lessons().values()))

    async def challenges(self, _: Request) -> Response:
        """List the challenges."""
        return Json(list(challenges().values()))

    async def goal(self, request: Request) -> Response:
        """Judge whether the goal of a lesson's page is reached."""
        return await self._judge(
            request, GoalQuestion, lambda x, _: judge_goal(self._laboratory, x)
        )

    async def answer(self, request: Request) -> Response:
        """Judge the answer to a question of a lesson's page."""
        return await self._judge(
            request, AnswerQuestion, lambda x, _: judge_answer(self._laboratory, x)
        )

    async def challenge(self, request: Request) -> Response:
        """Score a run as an answer to a challenge."""
        return await self._judge(
            request, ChallengeQuestion, functools.partial(score, self._laboratory)
        )

    async def hint(self, request: Request) -> Response:
        """Find a shortest way to the goal of a challenge."""
        return await self._judge(
            request, ChallengeQuestion, functools.partial(hint, self._laboratory)
        )

    async def graph(self, request: Request) -> Response:
        """Judge a wait-for graph."""
        return await self._judge(request, TextQuestion, lambda x, _: judge_graph(x.text))

    async def history(self, request: Request) -> Response:
        """Judge a schedule of transactions."""
        return await self._judge(request, TextQuestion, lambda x, _: judge_schedule(x.text))

    async def coterie(self, request: Request) -> Response:
        """Judge quorums."""
        return await self._judge(request, TextQuestion, lambda x, _: judge_quorums(x.text))

    async def _judge(
        self,
        request: Request,
        kind: type[T],
        judge: Callable[[T, Callable[[], bool]], object],
    ) -> Response:
        """Answer a question in its turn; no newer one cancels it, only the end of the program."""
        asked = await read(request, kind)
        return Json(await self._searches.queue(lambda closed: judge(asked, closed)))
