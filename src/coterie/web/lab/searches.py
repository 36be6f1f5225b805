"""Searches for pages: one at a time, and only the newest question is worth an answer."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class Searches:
    """Runs searches in one thread; a new one cancels those before it, also if they have not begun.

    Without that, a page that is stepped through quickly would wait for the answers to all the places
    that it has left.
    """

    def __init__(self) -> None:
        """Begin with nothing asked."""
        self._thread = ThreadPoolExecutor(1, "coterie lab")
        self._newest = 0

    async def run(self, search: Callable[[Callable[[], bool]], T]) -> T:
        """Call a search with a function that tells it to stop, and return what it returns."""
        self._newest += 1
        mine = self._newest
        return await self.queue(lambda: search(lambda: mine != self._newest))

    async def queue(self, work: Callable[[], T]) -> T:
        """Do something in the same thread, after what is there already; it cancels nothing."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)
