"""What the pages of simulations ask: a run in virtual time, its fork into a play, measured costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from starlette.routing import Route

from coterie.dashboard.app import Json
from coterie.lab.play.trials.measure import MeasureQuestion, measure
from coterie.lab.play.trials.trial import ForkQuestion, TrialQuestion, Trials
from coterie.lab.web.exchange import read

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from coterie.lab.web.searches import Searches

T = TypeVar("T")


class SimulatePages:
    """Runs simulations for pages, one at a time, in a thread that is there for them alone."""

    def __init__(self, searches: Searches) -> None:
        """Begin with nothing remembered."""
        self._searches = searches
        self._trials = Trials()

    def routes(self) -> list[Route]:
        """Return the addresses that the pages ask."""
        questions = [self.simulate, self.fork, self.measure]
        return [Route(f"/api/{each.__name__}", each, methods=["POST"]) for each in questions]

    async def simulate(self, request: Request) -> Response:
        """Run an algorithm in virtual time."""
        return await self._ask(request, TrialQuestion, self._trials.run)

    async def fork(self, request: Request) -> Response:
        """Return the address that plays a run up to one of its events."""
        return await self._ask(request, ForkQuestion, self._trials.fork)

    async def measure(self, request: Request) -> Response:
        """Measure the costs of an algorithm beside those of theory."""
        return await self._ask(request, MeasureQuestion, measure)

    async def _ask(self, request: Request, kind: type[T], work: Callable[[T], object]) -> Response:
        asked = await read(request, kind)
        return Json(await self._searches.queue(lambda _: work(asked)))
