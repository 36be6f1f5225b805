"""An answer as a stream of lines of JSON, while a search is under way in a thread of its own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from coterie.errors import CoterieError
from coterie.lab.play.runs.refusal import Refusal, Superseded
from coterie.lab.web.exchange import refusal_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from coterie.lab.web.searches import Searches

    Tell = Callable[[object], object]
    Unwanted = Callable[[], bool]


async def stream(
    searches: Searches, page: str, work: Callable[[Tell, Unwanted], object]
) -> AsyncIterator[bytes]:
    """Yield what the work tells; it raises `Superseded` when the answer is unwanted.

    So it is when the page asks again, or goes away.
    """
    loop = asyncio.get_running_loop()
    told: asyncio.Queue[object] = asyncio.Queue()  # None: the work has ended
    is_gone = False

    def search(cancelled: Unwanted) -> None:
        def unwanted() -> bool:
            return is_gone or cancelled()

        if unwanted():
            raise Superseded
        work(lambda said: loop.call_soon_threadsafe(told.put_nowait, said), unwanted)

    def end(done: asyncio.Task[None]) -> None:
        if not done.cancelled():
            done.exception()  # noticed, also if the page has gone away
        told.put_nowait(None)

    task = asyncio.ensure_future(searches.run(page, search))
    task.add_done_callback(end)
    try:
        yield b"\n"  # the answer begins, though another search may be under way still
        while (said := await told.get()) is not None:
            yield msgspec.json.encode(said) + b"\n"
        for last in _refusals(task):
            yield msgspec.json.encode({"refusal": last}) + b"\n"
    finally:
        is_gone = True  # the page has gone away, or has its answer


def _refusals(search: asyncio.Task[None]) -> list[dict[str, Any]]:
    """Return why there is no answer; the status of a stream that has begun cannot say it."""
    if search.cancelled():
        return [refusal_of(Refusal("the program ends"))]
    try:
        search.result()
    except (CoterieError, Superseded) as error:
        return [refusal_of(error)]
    return []
