"""The end of a program that stands before us in a queue, seen by us as its neighbour on the same machine.

A server frees what a dead process held when its session has run out. A process of the same kernel can know
sooner that it is dead, and end what is left of it at the server: see `coterie.system.witness` for what is
proof, and what is none. Nothing else rests on it: where this fails, the session runs out.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from coterie.engines.queue.server import SessionLost
from coterie.errors import CoterieError
from coterie.locks.legible import legible
from coterie.system.witness import ends_of, read_life

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

LOOKS_PER_LEASE = 3  # at a program that has not said its life yet
GRACE_SECONDS = 0.05  # before the first look, which is a request: most waits are over by then

logger = logging.getLogger("coterie.engines")


@runtime_checkable
class SeenSession(Protocol):
    """A session that others may end when they have seen the end of its program."""

    async def live(self, life: str) -> None:
        """Write down by which processes the program is known; those that write none are not seen."""


@contextlib.asynccontextmanager
async def watched(
    name: str, lease: float, find: Callable[[], Awaitable[str]], end: Callable[[], Awaitable[None]]
) -> AsyncIterator[None]:
    """Watch a program that is waited for, as long as the body runs.

    Args:
        name: The program and the server, for the log.
        lease: How long its session lasts without it.
        find: Reads its life at the server; empty: it has not said one.
        end: Ends what is left of it there.
    """
    task = asyncio.ensure_future(_watch(name, lease, find, end))
    try:
        yield
    finally:
        task.cancel()


async def _watch(
    name: str, lease: float, find: Callable[[], Awaitable[str]], end: Callable[[], Awaitable[None]]
) -> None:
    await asyncio.sleep(GRACE_SECONDS)
    while True:
        with contextlib.suppress(CoterieError, SessionLost):
            life = await find()
            if read_life(life) is not None:
                async for _ in ends_of([life], None):
                    logger.warning(
                        "%s is dead, as we have seen: its locks are free",
                        legible(name),
                        extra={"event": "session-buried"},
                    )
                    await end()
                return  # or it is not near us
        # A command that runs under a lock says its life when its processes are there.
        await asyncio.sleep(lease / LOOKS_PER_LEASE)
