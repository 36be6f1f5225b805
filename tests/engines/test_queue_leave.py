"""Locks that are asked for while the release of the same one, or of another, is still on its way to the server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from coterie.engines.queue.engine import QueueEngine
from coterie.locks import Coordinator
from tests.cluster.local_cluster import PATIENCE_SECONDS
from tests.engines.memory_server import MemoryServer, MemorySession
from tests.locks.memory import in_loop, until

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


# A request leaves what was given back just before it


def program(server: MemoryServer) -> Coordinator:
    return Coordinator(QueueEngine(server), "memory:")


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@in_loop
async def test_locks_one_after_the_other_cost_one_request_each() -> None:
    server = MemoryServer()
    async with program(server) as c:
        before = server.requests
        for number in range(10):
            async with c.lock(f"n-{number}"):
                assert list(filter(None, server.queues.values())) == [server.queues[f"n-{number}"]]
        assert server.requests == before + 10
        await turns(10)  # in which the last one goes back by itself
        assert server.requests == before + 11
        assert not any(server.queues.values())


@in_loop
async def test_a_lock_that_others_want_goes_back_by_itself() -> None:
    """Its end wakes someone: it is no part of a step that may fail for another reason."""
    server = MemoryServer()
    engine = QueueEngine(server)
    async with Coordinator(engine, "memory:") as ann, program(server) as bob:
        held = await ann.lock("x").acquire()
        assert held is not None
        waiting = asyncio.create_task(bob.lock("x").acquire())
        await until(lambda: engine.group.supply.is_wanted("x"))  # bob has knocked
        seen = len(server.left_by_joins)
        await held.release()
        async with ann.lock("y"):
            assert await waiting is not None
        assert server.left_by_joins[seen:] == [None]


@in_loop
async def test_a_join_that_fails_leaves_nothing_behind() -> None:
    server = MemoryServer()

    async def mend() -> None:
        await until(lambda: len(server.left_by_joins) == 2)
        await until(lambda: not any(server.queues.values()))  # by a request of its own
        server.trouble = ""

    async with program(server) as c:
        mending = asyncio.create_task(mend())
        async with c.lock("x"):
            server.trouble = "it is full"
        async with c.lock("y"):
            assert mending.done()
        # The first try may have been carried out, and with it what it has left: the next one leaves nothing.
        first, tried, *again = server.left_by_joins
        assert first is None
        assert tried is not None
        assert tried.lock == "x"
        assert again == [None]


@in_loop
async def test_two_tasks_that_change_places_do_not_wait_for_each_other() -> None:
    server = MemoryServer()
    async with program(server) as c:

        async def use(names: list[str]) -> None:
            for _ in range(50):
                for name in names:
                    async with c.lock(name):
                        await asyncio.sleep(0)

        async with asyncio.timeout(PATIENCE_SECONDS):
            await asyncio.gather(use(["x", "y"]), use(["y", "x"]), use(["x", "z", "y"]))
