"""asyncio helpers: the event loop to run on, and work that finishes although its caller is cancelled."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator, Sequence
    from contextvars import Context

AnswerT = TypeVar("AnswerT")


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Make an event loop of our own: uvloop's if it is installed, otherwise that of asyncio."""
    with contextlib.suppress(ImportError):
        loop: asyncio.AbstractEventLoop = importlib.import_module("uvloop").new_event_loop()
        return loop
    return asyncio.new_event_loop()


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

    async def end(self) -> None:
        """Cancel all that run, and wait until they have ended."""
        await asyncio.gather(*self.cancel(), return_exceptions=True)

    def _finish(self, task: asyncio.Task[None]) -> None:
        del self._running[task]
        if not task.cancelled():
            task.result()


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


class FirstDone:
    """Await it until one of some futures is done, or for so many seconds; none of them is cancelled.

    Towards the task that awaits it, it is a future (an object with `_asyncio_future_blocking`). A real
    one in its place, which the others complete, would take another turn of the event loop; and
    `asyncio.wait` makes sets of what is done and what is not, which cost more than all the rest of a
    short wait.
    """

    __slots__ = (
        "_asyncio_future_blocking",
        "_cancelled",
        "_context",
        "_futures",
        "_is_over",
        "_limit",
        "_loop",
        "_timer",
        "_wake_task",
    )

    def __init__(self, futures: Sequence[asyncio.Future[Any]], limit: float | None) -> None:
        """Begin to wait when it is awaited; None is without limit."""
        self._asyncio_future_blocking = False
        self._futures = futures
        self._limit = limit
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._cancelled: asyncio.CancelledError | None = None
        self._is_over = False
        self._wake_task: Callable[[FirstDone], object] | None = None
        self._context: Context | None = None

    def __await__(self) -> Generator[Any, None, None]:
        """Wait; return nothing."""
        if any(future.done() for future in self._futures):
            return
        self._asyncio_future_blocking = True
        try:
            yield self
        finally:
            self._is_over = True
            if self._timer is not None:
                self._timer.cancel()
            for future in self._futures:
                future.remove_done_callback(self._wake)

    # What a task asks of a future

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """Return the event loop of the task."""
        return self._loop

    def add_done_callback(
        self, callback: Callable[[FirstDone], object], *, context: Context
    ) -> None:
        """Let the task be woken, in its own context, as soon as one of the futures says that it is done."""
        self._wake_task, self._context = callback, context
        for future in self._futures:
            future.add_done_callback(self._wake, context=context)
        if self._limit is not None:
            self._timer = self._loop.call_later(self._limit, self._wake, None, context=context)

    def cancel(self, msg: object = None) -> bool:
        """Let the wait of the task end by a cancellation, unless it is over."""
        if self._is_over:
            return False
        if self._cancelled is None:
            self._cancelled = (
                asyncio.CancelledError() if msg is None else asyncio.CancelledError(msg)
            )
            self._loop.call_soon(self._wake, None, context=self._context)
        return True

    def result(self) -> None:
        """Raise the cancellation, if it was one that ended the wait."""
        if self._cancelled is not None:
            raise self._cancelled

    def _wake(self, _: object) -> None:
        if not self._is_over and self._wake_task is not None:
            self._is_over = True
            self._wake_task(self)


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
