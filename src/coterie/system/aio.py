"""asyncio helpers: the event loop to run on, and work that finishes although its caller is cancelled."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
from typing import TYPE_CHECKING, Any, TypeVar

from coterie.errors import MisuseError

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

AnswerT = TypeVar("AnswerT")


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Make an event loop of our own: uvloop's if it is installed, otherwise that of asyncio."""
    with contextlib.suppress(ImportError):
        loop: asyncio.AbstractEventLoop = importlib.import_module("uvloop").new_event_loop()
        return loop
    return asyncio.new_event_loop()


def require_loop() -> None:
    """Raise `MisuseError` where no loop of asyncio runs, as under another library for tasks."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise MisuseError(
            "no event loop of asyncio runs here; under trio, run a whole `with` block of coterie.sync in a thread"
            " (trio.to_thread.run_sync)"
        ) from None


class Tasks:
    """Tasks that run beside everything else, until they end or their owner ends them."""

    def __init__(self) -> None:
        """Begin without any."""
        self._running: dict[asyncio.Task[None], None] = {}

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin a task; what it raises reaches the handler of the event loop."""
        task = asyncio.get_running_loop().create_task(work)
        self._running[task] = None
        task.add_done_callback(self._finish)

    def cancel(self) -> list[asyncio.Task[None]]:
        """Cancel all that run, and return them."""
        running = list(self._running)
        for task in running:
            task.cancel()
        return running

    async def done(self) -> None:
        """Wait until all that run have ended by themselves; if that is cancelled, they go on."""
        if self._running:
            await asyncio.wait(list(self._running))

    async def end(self) -> None:
        """Cancel all that run, and wait until they have ended."""
        await asyncio.gather(*self.cancel(), return_exceptions=True)

    def _finish(self, task: asyncio.Task[None]) -> None:
        del self._running[task]
        if not task.cancelled():
            task.result()


class Calls:
    """Calls that go on where their callers are cancelled, as their answers come all the same."""

    def __init__(self) -> None:
        """Begin without any."""
        self._running: dict[asyncio.Task[Any], None] = {}

    async def run(self, call: Coroutine[Any, Any, AnswerT]) -> AnswerT:
        """Make a call, and return its answer."""
        task = asyncio.ensure_future(call)
        self._running[task] = None
        task.add_done_callback(self._finish)
        await first_done([task], None)
        return task.result()

    async def done(self) -> None:
        """Wait until all that are under way have their answers; if that is cancelled, so are they."""
        await asyncio.gather(*self._running, return_exceptions=True)

    def _finish(self, task: asyncio.Task[Any]) -> None:
        del self._running[task]
        if not task.cancelled():
            task.exception()  # it is told to the caller, if that is still there


def is_cancelled() -> bool:
    """Return True if this task was cancelled.

    This is a separate function because a frame that keeps its task while an error passes
    makes a cycle of references, and what the task has open then stays until a collection.
    """
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


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
            task.exception()  # retrieved, since the cancellation is raised in its place
        raise cancelled
    task.result()


async def first_done(futures: Sequence[asyncio.Future[Any]], limit: float | None) -> None:
    """Wait until one of the futures is done, or for this many seconds; cancel none of them.

    This is `asyncio.wait` without its sets of what is done and what is not, which cost more than all
    the rest of a short wait.
    """
    if any(future.done() for future in futures):
        return
    loop = asyncio.get_running_loop()
    waiter: asyncio.Future[None] = loop.create_future()

    def wake(_: object) -> None:
        if not waiter.done():
            waiter.set_result(None)

    timer = None if limit is None else loop.call_later(limit, wake, None)
    for future in futures:
        future.add_done_callback(wake)
    try:
        await waiter
    finally:
        if timer is not None:
            timer.cancel()
        for future in futures:
            future.remove_done_callback(wake)


async def unless(over: asyncio.Event, finding: Coroutine[Any, Any, AnswerT]) -> AnswerT | None:
    """Return what is found, or None if it was over before; `finding` is cancelled then."""
    found = asyncio.ensure_future(finding)
    ended = asyncio.ensure_future(over.wait())
    try:
        await asyncio.wait({found, ended}, return_when=asyncio.FIRST_COMPLETED)
        return found.result() if found.done() else None
    finally:
        found.cancel()
        ended.cancel()
        await asyncio.wait({found, ended})


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
        assert task is not None, "a task was cancelled here"
        asyncio.get_running_loop().call_soon(_cancel_again, task, task.cancelling())
    return future.result()


def _cancel_again(task: asyncio.Task[object], requests: int) -> None:
    if not task.done() and task.cancelling() >= requests:
        task.uncancel()
        task.cancel()
