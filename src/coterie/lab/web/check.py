"""A check as a stream: a line of JSON about twice a second while it searches, then its verdict."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from coterie.lab.play.exploration.violation import Stopped
from coterie.lab.play.laboratory import SUPERSEDED
from coterie.lab.play.runs.address import Refusal
from coterie.lab.play.trials.verdict import CheckQuestion, run_check
from coterie.lab.web.exchange import answer, page_of, read

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from starlette.requests import Request

    from coterie.lab.explore import Progress
    from coterie.lab.play.trials.verdict import CheckAnswer
    from coterie.lab.web.searches import Searches


class CheckPages:
    """Answers the page of checks; a page that asks again, or goes away, ends its search."""

    def __init__(self, searches: Searches) -> None:
        """Search in a thread that is there for checks alone: one at a time."""
        self._searches = searches

    def routes(self) -> list[Route]:
        """Return the address that the page asks."""
        return [Route("/api/check", self.check, methods=["POST"])]

    async def check(self, request: Request) -> Response:
        """Search, and tell of it line by line."""
        asked = await read(request, CheckQuestion)
        if isinstance(asked, Refusal):
            return answer(asked)
        lines = self._lines(asked, page_of(request))
        return StreamingResponse(lines, media_type="application/x-ndjson")

    async def _lines(self, question: CheckQuestion, page: str) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        told: asyncio.Queue[Any] = asyncio.Queue()
        is_gone = False

        def search(cancelled: Callable[[], bool]) -> CheckAnswer | Refusal:
            def progress(so_far: Progress) -> None:
                if is_gone or cancelled():
                    raise Stopped
                loop.call_soon_threadsafe(told.put_nowait, so_far)

            try:
                return SUPERSEDED if is_gone or cancelled() else run_check(question, progress)
            except Stopped:
                return SUPERSEDED

        def tell(done: asyncio.Task[CheckAnswer | Refusal]) -> None:
            told.put_nowait(Refusal("the program ends") if done.cancelled() else done.result())

        task = asyncio.ensure_future(self._searches.run(page, search))
        task.add_done_callback(tell)
        try:
            yield b"\n"  # the answer begins, though another search may be under way still
            while True:
                said = await told.get()
                is_last = not hasattr(said, "states_per_second")
                name = "progress" if not is_last else _name(said)
                yield msgspec.json.encode({name: said}) + b"\n"
                if is_last:
                    return
        finally:
            is_gone = True  # the page has gone away, or has its answer


def _name(said: CheckAnswer | Refusal) -> str:
    return "refusal" if isinstance(said, Refusal) else "verdict"
