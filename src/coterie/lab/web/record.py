"""What the page of a recorded run asks: the run, and its fork into a play."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.routing import Route

from coterie.dashboard.app import Json
from coterie.lab.play.runs.refusal import Refusal
from coterie.lab.play.trials.recorded import UntilQuestion, show_recorded
from coterie.lab.play.trials.trial import fork_trace
from coterie.lab.web.exchange import read

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from coterie.trace import Trace

NO_TRACE = (
    "the laboratory was started without a trace: coterie lab FILE.jsonl, or coterie record --open"
)


class RecordPages:
    """Shows the run that the laboratory was started with, if there is one."""

    def __init__(self, trace: Trace | None) -> None:
        """Draw it when it is asked for."""
        self._trace = trace

    def routes(self) -> list[Route]:
        """Return the addresses that the page asks."""
        return [
            Route("/api/trace", self.trace),
            Route("/api/trace/fork", self.fork, methods=["POST"]),
        ]

    async def trace(self, _: Request) -> Response:
        """Draw the run."""
        if self._trace is None:
            raise Refusal(NO_TRACE)
        return Json(await asyncio.to_thread(show_recorded, self._trace))

    async def fork(self, request: Request) -> Response:
        """Return the address that plays the run up to one of its records."""
        asked = await read(request, UntilQuestion)
        if self._trace is None:
            raise Refusal(NO_TRACE)
        return Json(await asyncio.to_thread(fork_trace, self._trace, asked.until))
