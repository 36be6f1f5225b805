"""A cancellation that came too late is delivered later."""

from __future__ import annotations

import asyncio
from typing import TypeVar

AnswerT = TypeVar("AnswerT")


async def despite_cancellation(future: asyncio.Future[AnswerT], *, cancelled: bool) -> AnswerT:
    """Wait for something that cannot be stopped any more; then let the cancellation go on.

    The caller goes on with the answer, and the cancellation reaches its task where it waits next.
    If it came from a deadline (`asyncio.timeout`) whose block ends before that, it has had its
    effect: that block came to its end after all.
    """
    while not future.done():
        try:
            await asyncio.wait({future})
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        task = asyncio.current_task()
        assert task is not None, "somebody was cancelled here"
        asyncio.get_running_loop().call_soon(_cancel_again, task, task.cancelling())
    return future.result()


def _cancel_again(task: asyncio.Task[object], requests: int) -> None:
    if not task.done() and task.cancelling() >= requests:
        task.uncancel()
        task.cancel()
