"""Servers that are away while a command waits for a lock of theirs."""

from __future__ import annotations

import asyncio
import math
import time
from typing import TYPE_CHECKING, TypeVar

import click

from coterie.errors import Unavailable
from coterie.locks.legible import one_line

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

Result = TypeVar("Result")

SILENT_SECONDS = 1.0  # of an outage, before it is said
RETRY_SECONDS = 0.2


class Outage:
    """The time that a caller is ready to wait, spent on servers as on locks.

    One who says how long knows that the servers are there. One who does not is told at once of an address
    where nothing answers, for it may be mistyped.
    """

    def __init__(self, wait: float | None) -> None:
        """Begin to count so many seconds; None: the first error is the last one."""
        self._until = -math.inf if wait is None else time.monotonic() + wait
        self._began = math.inf  # when the first call failed
        self._was_said = False

    async def outlast(
        self, call: Callable[[float | None], Awaitable[Result]], *, says: bool = False
    ) -> Result:
        """Make a call, and again while servers are away; it is told how many seconds are left after the first."""
        while True:
            try:
                return await call(self._left())
            except Unavailable as error:
                now = time.monotonic()
                if now >= self._until:
                    raise
                self._began = min(self._began, now)
                if says:
                    self._say(now, error)
                await asyncio.sleep(min(RETRY_SECONDS, self._until - now))

    def _left(self) -> float | None:
        return None if self._began == math.inf else max(0.0, self._until - time.monotonic())

    def _say(self, now: float, error: Unavailable) -> None:
        if not self._was_said and now - self._began >= SILENT_SECONDS:
            self._was_said = True
            click.echo(one_line(f"coterie: waiting: {error}"), err=True)
