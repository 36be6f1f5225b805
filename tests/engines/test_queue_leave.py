"""A lock that is asked for while its release is still on its way to the server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from coterie.engines.queue.engine import QueueEngine
from coterie.locks import Coordinator
from tests.engines.memory_server import MemoryServer, MemorySession
from tests.locks.memory import in_loop

if TYPE_CHECKING:
    import pytest

    from coterie.engines.queue.server import Ticket


def test_a_request_does_not_wait_behind_our_own_former_entry(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Or else it would take the lock for wanted by others, and never keep it."""
    leave = MemorySession.leave

    async def leave_late(self: MemorySession, ticket: Ticket) -> None:
        for _ in range(10):
            await asyncio.sleep(0)
        await leave(self, ticket)

    monkeypatch.setattr(MemorySession, "leave", leave_late)
    take_again()


@in_loop
async def take_again() -> None:
    server = MemoryServer()
    async with Coordinator(QueueEngine(server), "memory:") as c:
        for _ in range(2):
            async with c.lock("x"):
                pass
        before = server.requests
        async with c.lock("x"):
            pass
        assert server.requests == before
