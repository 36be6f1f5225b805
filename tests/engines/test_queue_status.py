"""What a server that keeps queues shows of its locks, on one in memory."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from coterie.engines.queue.engine import QueueEngine
from coterie.engines.queue.server import Author, ServerNode, Ticket
from coterie.engines.queue.status import ServerState, inspect, inspect_waits
from coterie.errors import Unavailable
from coterie.locks import Coordinator
from coterie.locks.internals import engine_of
from coterie.locks.leases.frames import LOCKS_ASKED_MAX
from tests.engines.memory_server import MemoryServer
from tests.locks.memory import in_loop, until

if TYPE_CHECKING:
    from coterie.algorithms.deadlock.wait_for import Graph


class Deaf:
    """A program that has entries and does not answer letters."""

    def renewed(self, sent_at: float) -> None: ...

    def closed(self, reason: str, until: float) -> None: ...

    def lost(self, reason: str) -> None: ...

    def mail(self, letter: bytes) -> None: ...


def program(server: MemoryServer) -> Coordinator:
    return Coordinator(QueueEngine(server, deadlock_detection=False), "memory:")


async def shown(server: MemoryServer) -> ServerState:
    return await inspect(QueueEngine(server), locks=True)


async def drawn(server: MemoryServer) -> Graph[str]:
    _, graph = await inspect_waits(QueueEngine(server))
    return graph


async def abandon(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@in_loop
async def test_more_locks_than_fit_into_one_letter_are_shown() -> None:
    server = MemoryServer()
    async with program(server) as c:
        names = [f"lock-{number}" for number in range(LOCKS_ASKED_MAX + 1)]
        await asyncio.gather(*(c.lock(name).acquire() for name in names))
        locks = (await shown(server)).locks
        assert [lock.name for lock in locks] == sorted(names)
        assert all(lock.holders and not lock.silent for lock in locks)


@in_loop
async def test_a_program_that_does_not_answer_is_shown_where_it_waits() -> None:
    server = MemoryServer()
    async with program(server) as holder, program(server) as last, holder.lock("x"):
        deaf = await server.open("deaf", Deaf(), server.lease)
        await deaf.join(Ticket("x", True, 1), Author("deaf", "host:7", 5.0), None)
        waiting = asyncio.ensure_future(last.lock("x").acquire())
        await until(lambda: len(server.queues["x"]) == 3)
        (lock,) = (await shown(server)).locks
        assert [(party.owner, party.shared) for party in lock.waiters] == [
            ("host:7", True),
            (engine_of(last).waits.process, False),
        ]
        await abandon(waiting)


@in_loop
async def test_what_only_waits_behind_a_writer_is_in_the_graph() -> None:
    server = MemoryServer()
    async with program(server) as c, program(server) as d, program(server) as e:
        await c.lock("x", shared=True).acquire()
        writer = asyncio.ensure_future(d.lock("x").acquire())
        await until(lambda: len(server.queues["x"]) == 2)
        reader = asyncio.ensure_future(e.lock("x", shared=True).acquire())
        await until(lambda: len(server.queues["x"]) == 3)
        # Two programs, the lock, and the share of it; a wait is in the graph when it has lasted a while.
        while len((await drawn(server)).waits) != 4:
            pass
        await abandon(writer, reader)


@in_loop
async def test_servers_are_healthy_degraded_or_unavailable() -> None:
    class Three(MemoryServer):
        troubles = ("", "", "")

        async def nodes(self) -> list[ServerNode]:
            return [ServerNode(f"n{i}", trouble=trouble) for i, trouble in enumerate(self.troubles)]

    server = Three()
    assert (await shown(server)).health == 0
    server.troubles = ("", "refused", "")
    assert (await shown(server)).health == 1
    assert (await inspect_waits(QueueEngine(server)))[0].health == 1
    server.troubles = ("refused", "refused", "no answer")
    with pytest.raises(Unavailable, match="memory: refused; no answer"):
        await shown(server)
