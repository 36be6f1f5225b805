"""A check as a stream: a line of JSON about twice a second while it searches, then its verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from coterie.lab.play.runs.refusal import Superseded
from coterie.lab.play.trials.verdict import CheckQuestion, run_check
from coterie.lab.web.exchange import page_of, read
from coterie.lab.web.stream import stream

if TYPE_CHECKING:
    from starlette.requests import Request

    from coterie.lab.explore import Progress
    from coterie.lab.web.searches import Searches
    from coterie.lab.web.stream import Tell, Unwanted


class CheckPages:
    """Answers the page of checks."""

    def __init__(self, searches: Searches) -> None:
        """Search in a thread that is there for checks alone: one at a time."""
        self._searches = searches

    def routes(self) -> list[Route]:
        """Return the address that the page asks."""
        return [Route("/api/check", self.check, methods=["POST"])]

    async def check(self, request: Request) -> Response:
        """Search, and tell of it line by line."""
        asked = await read(request, CheckQuestion)

        def search(tell: Tell, unwanted: Unwanted) -> None:
            def progress(so_far: Progress) -> None:
                if unwanted():
                    raise Superseded
                tell({"progress": so_far})

            tell({"verdict": run_check(asked, progress)})

        lines = stream(self._searches, page_of(request), search)
        return StreamingResponse(lines, media_type="application/x-ndjson")
