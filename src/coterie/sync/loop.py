"""An event loop in a thread of its own, for callers that have none."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from typing import TYPE_CHECKING, Any, TypeVar

from coterie import system
from coterie.errors import MisuseError
from coterie.system.aio import new_event_loop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

Result = TypeVar("Result")


class Loop:
    """Runs coroutines on behalf of threads."""

    def __init__(self) -> None:
        """Start the thread."""
        self._loop = new_event_loop()
        self._process = system.pid()
        self._ended = False
        self._entrance = threading.RLock()  # a signal handler may come in while its thread does
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="coterie.sync", daemon=True
        )
        self._thread.start()
        self._number = self._thread.ident

    def run(
        self,
        work: Callable[[], Coroutine[Any, Any, Result]],
        undo: Callable[[Result], Coroutine[Any, Any, object]] | None = None,
    ) -> Result:
        """Run this in the loop and wait for its end.

        If this thread is interrupted, by Ctrl-C for instance, the work is cancelled and waited
        for; what it achieved nevertheless is undone. Then the interruption goes on.
        """
        outcome: concurrent.futures.Future[Result] = concurrent.futures.Future()
        tasks: list[asyncio.Task[Result]] = []

        def start() -> None:
            tasks.append(self._loop.create_task(work()))
            tasks[0].add_done_callback(lambda task: _transfer(task, outcome))

        def cancel() -> None:
            tasks[0].cancel()  # started before, since the loop keeps the order

        self._post(start)
        try:
            return outcome.result()
        except BaseException as error:
            if outcome.done() and outcome.exception() is error:
                raise
            # If the loop is ended meanwhile, all work is cancelled, and closing has undone it.
            with contextlib.suppress(MisuseError):
                self._post(cancel)
            concurrent.futures.wait([outcome])
            if undo is not None and outcome.exception() is None:
                undone, result = undo, outcome.result()
                with contextlib.suppress(MisuseError):
                    self.run(lambda: undone(result))
            raise

    def stop(self) -> None:
        """End what still runs, then the thread."""
        self._post(self._end, last=True)
        self._thread.join()
        self._loop.close()

    def _end(self) -> None:
        ending = self._loop.create_task(_cancel_the_others())
        ending.add_done_callback(lambda _: self._loop.stop())

    def _post(self, call: Callable[[], None], *, last: bool = False) -> None:
        """Let the loop call this; nothing gets in after the last, so no thread waits forever."""
        self.check()
        with self._entrance:
            if self._ended:
                raise MisuseError("this coordinator is closed")
            self._ended = last
            self._loop.call_soon_threadsafe(call)

    def check(self) -> None:
        """Refuse a forked child, and the loop's own thread, which would wait for itself."""
        if system.pid() != self._process:
            raise MisuseError(
                f"this coordinator belongs to process {self._process}, and this is process"
                f" {system.pid()}; after a fork, connect again in the child"
            )
        if threading.get_ident() == self._number:
            raise MisuseError(
                "on_lost runs in the coordinator's own thread, which cannot wait for itself"
            )


def _transfer(task: asyncio.Task[Result], outcome: concurrent.futures.Future[Result]) -> None:
    if task.cancelled():
        outcome.set_exception(MisuseError("this coordinator was closed"))
    elif (error := task.exception()) is not None:
        outcome.set_exception(error)
    else:
        outcome.set_result(task.result())


async def _cancel_the_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
