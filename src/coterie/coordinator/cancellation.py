"""Work that must be done to its end, cancelled or not."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine


async def to_the_end(work: Coroutine[Any, Any, None] | None) -> None:
    """Finish this work even if the caller is cancelled meanwhile, then let the cancellation pass.

    The work itself must end in bounded time: a second cancellation does not shorten it either.
    None is work that is done already, and takes no turn of the event loop.
    """
    if work is None:
        return
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not task.cancelled():
            task.exception()  # looked at, for it gives way to the cancellation
        raise cancelled
    task.result()
