"""Signals that a command gets: while it waits they end the wait, later they are forwarded."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from coterie.cli.common.forwarded import ENDING, not_ignored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Signals:
    """Where signals go: they cancel the current task until a receiver is set."""

    def __init__(self) -> None:
        """Let signals cancel the current task."""
        self._receiver: Callable[[int], object] | None = None
        self._task = asyncio.current_task()

    @contextlib.contextmanager
    def handled(self) -> Iterator[None]:
        """Handle signals in the body, except those that our caller has us ignore, as nohup does."""
        loop = asyncio.get_running_loop()
        numbers = not_ignored()
        for number in numbers:
            loop.add_signal_handler(number, self._handle, number)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    def forward_to(self, receiver: Callable[[int], object]) -> None:
        """Call the receiver with each signal from now on, instead of cancelling the task."""
        self._receiver = receiver

    def _handle(self, number: int) -> None:
        if self._receiver is not None:
            self._receiver(number)
        elif number in ENDING and self._task is not None:
            self._task.cancel()
