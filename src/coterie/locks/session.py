"""What the locks of one coordinator share: its engine, and who in this process holds what."""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING, TypeAlias

from coterie.aio import to_the_end
from coterie.errors import MisuseError

if TYPE_CHECKING:
    from coterie.locks.engine import Engine
    from coterie.locks.held import Held

TURN_SECONDS = 0.001  # for taking locks, before others get a turn

Owner: TypeAlias = object  # the task that holds, or the thread in the face without an event loop


class Session:
    """One use of an engine, by one process and one event loop."""

    def __init__(self, engine: Engine, url: str) -> None:
        """Prepare; nothing happens before it is opened."""
        self.engine = engine
        self.url = url
        self.held: dict[tuple[Owner, str], Held] = {}
        self._process = os.getpid()
        self._turned = 0.0  # when the event loop was last given a turn
        self._loop: asyncio.AbstractEventLoop | None = None

    async def open(self) -> None:
        """Open the engine for the event loop that runs."""
        self.check_process()
        if self._loop is not None:
            raise MisuseError(f"the coordinator {self.url} is open already")
        await self.engine.open()
        self._loop = asyncio.get_running_loop()

    async def close(self) -> None:
        """Close the engine, cancelled or not; what is still held is lost to its holders."""
        self.check_process()
        if self._loop is None:
            return
        self._check_loop()
        self._loop = None
        self.held.clear()  # whoever opens it again holds nothing
        await to_the_end(self.engine.close())

    def is_greedy(self) -> bool:
        """Tell whether locks have been taken for so long that the event loop needs a turn.

        One that is to be had at once needs no waiting, so somebody who takes it again and again
        would let nobody else run: not those who renew its lease either.
        """
        now = time.monotonic()
        if now - self._turned < TURN_SECONDS:
            return False
        self._turned = now
        return True

    def check_process(self) -> None:
        """Refuse to work in a forked child: the locks are its parent's."""
        if os.getpid() != self._process:
            raise MisuseError(
                f"the coordinator {self.url} belongs to process {self._process}, and this is"
                f" process {os.getpid()}: after a fork the child has to connect itself"
            )

    def check(self) -> None:
        """Refuse to work before it is opened, after it is closed, or for another event loop."""
        self.check_process()
        if self._loop is None:
            raise MisuseError(
                f"the coordinator {self.url} is not open: use `async with coterie.connect(...)`"
            )
        self._check_loop()

    def _check_loop(self) -> None:
        if asyncio.get_running_loop() is not self._loop:
            raise MisuseError(
                f"the coordinator {self.url} belongs to another event loop: connect in this one"
            )
