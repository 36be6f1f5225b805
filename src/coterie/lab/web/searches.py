"""Searches for pages: one at a time, and of each page only the newest question is worth an answer."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
PAGES_MAX = 64  # whose newest question is remembered


class Searches:
    """Runs searches in one thread; a new one cancels those of the same page, also if they have not begun.

    Without that, a page that is stepped through quickly would wait for the answers to all the places
    that it has left. Pages do not cancel each other: they take turns.
    """

    def __init__(self) -> None:
        """Begin with nothing asked."""
        self._thread = ThreadPoolExecutor(1, "coterie lab")
        self._newest: OrderedDict[str, int] = OrderedDict()
        self._number = 0
        self._closed = False

    async def run(self, page: str, search: Callable[[Callable[[], bool]], T]) -> T:
        """Call a search with a function that tells it to stop, and return what it returns."""
        self._number += 1
        mine = self._newest[page] = self._number
        self._newest.move_to_end(page)
        if len(self._newest) > PAGES_MAX:
            self._newest.popitem(last=False)
        return await self.queue(
            lambda closed: search(lambda: closed() or self._newest.get(page) != mine)
        )

    async def queue(self, work: Callable[[Callable[[], bool]], T]) -> T:
        """Do something in the same thread, after what is there already; no page cancels it."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, work, lambda: self._closed)

    def close(self) -> None:
        """Tell what is under way to stop, so that the program can end."""
        self._closed = True
