"""A check as a stream: a line of JSON about twice a second while it searches, then its verdict."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from coterie.errors import CoterieError
from coterie.lab.play.runs.refusal import Refusal, Superseded
from coterie.lab.play.trials.verdict import CheckQuestion, run_check
from coterie.lab.web.exchange import page_of, read, refusal_of

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
        lines = self._lines(asked, page_of(request))
        return StreamingResponse(lines, media_type="application/x-ndjson")

    async def _lines(self, question: CheckQuestion, page: str) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        told: asyncio.Queue[Progress | None] = asyncio.Queue()  # None: the search has ended
        is_gone = False

        def search(cancelled: Callable[[], bool]) -> CheckAnswer:
            def stop_if_needless() -> None:
                if is_gone or cancelled():
                    raise Superseded

            def progress(so_far: Progress) -> None:
                stop_if_needless()
                loop.call_soon_threadsafe(told.put_nowait, so_far)

            stop_if_needless()
            return run_check(question, progress)

        def end(done: asyncio.Task[CheckAnswer]) -> None:
            if not done.cancelled():
                done.exception()  # noticed, also if the page has gone away
            told.put_nowait(None)

        task = asyncio.ensure_future(self._searches.run(page, search))
        task.add_done_callback(end)
        try:
            yield b"\n"  # the answer begins, though another search may be under way still
            while (so_far := await told.get()) is not None:
                yield msgspec.json.encode({"progress": so_far}) + b"\n"
            yield msgspec.json.encode(_outcome(task)) + b"\n"
        finally:
            is_gone = True  # the page has gone away, or has its answer


def _outcome(search: asyncio.Task[CheckAnswer]) -> dict[str, Any]:
    """Return the last line of a stream that has begun, so that its status cannot say it."""
    if search.cancelled():
        return {"refusal": refusal_of(Refusal("the program ends"))}
    try:
        return {"verdict": search.result()}
    except (CoterieError, Superseded) as error:
        return {"refusal": refusal_of(error)}
