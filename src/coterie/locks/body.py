"""The body of an `async with`: it is cancelled when the lock is lost under it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coterie.locks.held import Holding


class Body:
    """Watches over the code that runs while a lock is held.

    It cancels like `asyncio.timeout`: its own cancellation is turned into the loss, one that came from
    elsewhere meanwhile is passed on.
    """

    __slots__ = ("_cancelling", "_ended", "_interrupted", "_task", "holding")

    def __init__(self, holding: Holding, task: asyncio.Task[object]) -> None:
        """Begin to watch."""
        self.holding = holding
        self._task = task
        self._cancelling = task.cancelling()
        self._interrupted = False
        self._ended = False
        holding.call_if_lost(self._interrupt)

    def end(self, error: BaseException | None) -> bool:
        """Stop watching; return True if the loss is to be raised in place of this outcome of the body."""
        self._ended = True
        if not self._interrupted:
            return error is None
        foreign = self._task.uncancel() > self._cancelling
        return error is None or (isinstance(error, asyncio.CancelledError) and not foreign)

    def _interrupt(self) -> None:
        # A loss that the body finds out by `ensure` is raised there and then.
        if self._ended or asyncio.current_task() is self._task:
            return
        self._interrupted = True
        self._task.cancel("the lock is lost")
