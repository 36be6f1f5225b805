"""Follow the holder of a lock by looking again and again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from coterie.locks.engine import Party

WATCH_SECONDS = 0.2


async def follow(
    holders: Callable[[], Awaitable[list[Party]]], check: Callable[[], None]
) -> AsyncGenerator[Party | None, None]:
    """Yield the present holder at once, then every change that is seen; `check` before each look."""
    seen: Party | None = None
    first = True
    while True:
        check()
        found = await holders()
        now = found[0] if found else None
        if first or now != seen:
            yield now
        first, seen = False, now
        await asyncio.sleep(WATCH_SECONDS)
