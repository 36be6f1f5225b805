"""Work that must be done to its end, cancelled or not."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

Result = TypeVar("Result")


async def to_the_end(work: Coroutine[None, None, Result]) -> Result:
    """Finish this work even if the caller is cancelled meanwhile, then let the cancellation pass.

    The work itself must end in bounded time: a second cancellation does not shorten it either.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return task.result()
