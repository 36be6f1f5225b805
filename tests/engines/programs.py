"""Programs of this process on a server that a test has started, and waits for what it shows."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Protocol

import coterie
from tests.locks.memory import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from coterie import Coordinator, Held

LEASE = 2.0


class StartedServer(Protocol):
    """A server that runs."""

    def url(self, lease: float) -> str:
        """Name it, with a lease."""


@contextlib.asynccontextmanager
async def programs(server: StartedServer, count: int) -> AsyncIterator[list[Coordinator]]:
    """Connect so many programs."""
    async with contextlib.AsyncExitStack() as stack:
        opened = [coterie.connect(server.url(LEASE)) for _ in range(count)]
        yield [await stack.enter_async_context(c) for c in opened]


async def taken(c: Coordinator, lock: str = "x") -> Held:
    """Take a lock that is free, or wait for it."""
    held = await c.lock(lock).acquire()
    assert held is not None
    return held


async def until_shown(condition: Callable[[], bool]) -> None:
    """Wait until something is the case at the server, which sends no events."""
    while not await asyncio.to_thread(condition):  # noqa: ASYNC110 - as said
        await asyncio.sleep(0.01)


async def until_renewed(held: Held) -> None:
    """Wait until the lease of a hold was renewed."""
    before = held.expires_at
    await until(lambda: held.expires_at > before + LEASE / 10 or not held.valid)
    assert held.valid
