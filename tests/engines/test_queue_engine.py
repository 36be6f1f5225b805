"""The engine over a server that keeps queues, on one in memory."""

from __future__ import annotations

import asyncio
import contextlib
import math
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import coterie
from coterie.engines.queue import desk
from coterie.engines.queue.desk import TIMES_MAX
from coterie.engines.queue.engine import QueueEngine
from coterie.errors import (
    ConfigError,
    DeadlockDetected,
    LockLost,
    MisuseError,
    Unavailable,
    UsageError,
)
from coterie.locks import Coordinator
from coterie.locks.internals import engine_of
from tests.engines.memory_server import MemoryServer, MemorySession
from tests.locks.memory import in_loop, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from coterie.locks.held import Held


def program(server: MemoryServer) -> Coordinator:
    return Coordinator(QueueEngine(server), "memory:")


@contextlib.asynccontextmanager
async def programs(server: MemoryServer, count: int) -> AsyncIterator[list[Coordinator]]:
    async with contextlib.AsyncExitStack() as stack:
        yield [await stack.enter_async_context(program(server)) for _ in range(count)]


async def taken(c: Coordinator) -> Held:
    held = await c.lock("x").acquire()
    assert held is not None
    return held


@in_loop
async def test_one_holds_and_the_others_follow_in_the_order_of_asking() -> None:
    server, order, all_ask = MemoryServer(), [], asyncio.Event()

    async def use(c: Coordinator, number: int) -> None:
        async with c.lock("x") as held:
            order.append((number, held.token))
            assert sum(entry.inside for entry in server.lines(["x"])["x"]) == 1
            await all_ask.wait()

    async with programs(server, 5) as several:
        tasks = []
        for number, c in enumerate(several):
            tasks.append(asyncio.create_task(use(c, number)))
            await until(lambda: len(server.queues.get("x", [])) == len(tasks))
        all_ask.set()
        await asyncio.gather(*tasks)
    assert [number for number, _ in order] == [0, 1, 2, 3, 4]
    assert [token for _, token in order] == sorted({token for _, token in order})
    assert not server.queues


@in_loop
async def test_a_name_that_is_used_again_is_kept_and_needs_no_message() -> None:
    server = MemoryServer()
    async with program(server) as c:
        tokens = []
        for _ in range(2):
            async with c.lock("x") as held:
                tokens.append(held.token)
        await until(lambda: not server.queues or len(server.queues["x"]) == 1)
        before = server.requests
        for _ in range(10):
            async with c.lock("x") as held:
                tokens.append(held.token)
        assert server.requests == before
        assert tokens == sorted(set(tokens))


@in_loop
async def test_tokens_grow_beyond_those_of_one_number() -> None:
    async with program(MemoryServer()) as c:
        last = 0
        for _ in range(2 * TIMES_MAX + 10):
            async with c.lock("x") as held:
                assert held.token > last
                last = held.token


@in_loop
async def test_a_kept_lock_goes_to_another_process_that_asks() -> None:
    server = MemoryServer()
    async with programs(server, 2) as (ann, bob):
        for _ in range(3):
            async with ann.lock("x") as held:
                first = held.token
        async with bob.lock("x") as held:
            assert held.token > first
        async with ann.lock("x", timeout=0) as held:
            assert held.token > first


@in_loop
async def test_a_lock_that_was_wanted_a_moment_ago_is_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(desk, "WANTED_SECONDS", math.inf)
    server = MemoryServer()
    async with programs(server, 2) as (ann, bob):
        async with bob.lock("x"):
            waiting = asyncio.create_task(taken(ann))
            await until(lambda: len(server.queues["x"]) == 2)
        await (await waiting).release()
        await until(lambda: not server.queues)
        async with ann.lock("x"):
            pass
        for _ in range(10):
            await asyncio.sleep(0)
        assert not server.queues


@in_loop
async def test_a_try_finds_a_lock_taken_that_is_held_and_free_that_is_kept() -> None:
    server = MemoryServer()
    async with programs(server, 2) as (ann, bob):
        for _ in range(2):
            async with ann.lock("x"):
                pass
        async with bob.lock("x", timeout=0):
            assert await ann.lock("x").acquire(timeout=0) is None
        await until(lambda: [len(line) for line in server.queues.values()] in ([], [1]))


@in_loop
async def test_sharers_hold_together_and_a_writer_is_not_overtaken() -> None:
    server, order = MemoryServer(), []
    async with programs(server, 3) as (ann, bob, eve):

        async def write() -> None:
            async with eve.lock("x"):
                order.append("written")

        async def read() -> None:
            async with ann.lock("x", shared=True):
                order.append("read")

        async with bob.lock("x", shared=True) as one:
            async with ann.lock("x", shared=True) as two:
                assert one.valid
                assert two.valid
            writing = asyncio.create_task(write())
            await until(lambda: len(server.lines(["x"])["x"]) == 2)
            reading = asyncio.create_task(read())
            await until(lambda: len(server.lines(["x"])["x"]) == 3)
            assert not order
        await asyncio.gather(writing, reading)
    assert order == ["written", "read"]


@in_loop
async def test_thousands_of_requests_at_once_leave_room_for_renewals() -> None:
    """A server carries out what it was sent in order: all of them before a renewal would end the lease."""
    server = MemoryServer()
    async with program(server) as c:
        holds = await asyncio.gather(*(c.lock(f"x{i}").acquire() for i in range(1000)))
        await asyncio.gather(*(held.release() for held in holds if held is not None))
        await until(lambda: not server.queues)
    assert 1 < server.most_under_way <= desk.CALLS_MAX


@in_loop
async def test_a_program_can_be_closed_while_many_requests_wait_to_be_sent() -> None:
    server = MemoryServer()
    async with program(server) as c:
        tasks = [asyncio.create_task(c.lock(f"x{i}").acquire()) for i in range(200)]
        await until(lambda: len(server.queues) > desk.CALLS_MAX)
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert any(isinstance(result, MisuseError) for result in results)
    assert not server.queues


@in_loop
async def test_a_wait_that_is_given_up_leaves_no_entry() -> None:
    server = MemoryServer()
    async with programs(server, 2) as (ann, bob):
        async with ann.lock("x"):
            for turns in range(12):
                task = asyncio.create_task(bob.lock("x").acquire())
                for _ in range(turns):
                    await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                await until(lambda: len(server.queues["x"]) == 1)
        await until(lambda: not server.queues)


@in_loop
async def test_a_lost_session_is_told_and_the_next_acquire_works() -> None:
    server = MemoryServer()
    async with program(server) as c:
        held = await taken(c)
        await server.forget(next(iter(server.sessions.values())), "the server restarted")
        assert not held.valid
        await held.lost
        with pytest.raises(LockLost, match="restarted"):
            await held.release()
        async with c.lock("x") as held:
            assert held.valid


@in_loop
async def test_waiters_join_again_in_a_new_session() -> None:
    server = MemoryServer()
    async with programs(server, 2) as (ann, bob):
        async with ann.lock("x"):
            waiting = asyncio.create_task(bob.lock("x").acquire())
            await until(lambda: len(server.queues["x"]) == 2)
            former = server.queues["x"][1][0]
            await server.forget(former, "the server forgot")
            await until(lambda: len(server.queues["x"]) == 2)
        held = await waiting
        assert held is not None
        assert held.valid


@in_loop
async def test_a_lease_that_is_not_renewed_ends_by_the_clock() -> None:
    server = MemoryServer(lease=0.2)
    async with program(server) as c:
        held = await taken(c)
        server.renews = False
        await held.lost
        assert not held.valid
        with pytest.raises(LockLost, match="could not be renewed"):
            await held.release()


@in_loop
async def test_a_wait_outlasts_an_outage_of_many_leases(caplog: pytest.LogCaptureFixture) -> None:
    server = MemoryServer(lease=0.2)
    async with program(server) as c:
        server.reachable = False
        await server.forget(next(iter(server.sessions.values())), "cut off")
        asked = asyncio.create_task(c.lock("x").acquire())
        await until(lambda: "memory: cut off; requests for its locks wait" in caplog.messages)
        await asyncio.sleep(5 * server.lease)
        assert not asked.done()
        server.reachable = True
        held = await asked
        assert held is not None
        await held.release()


@in_loop
async def test_a_wait_that_ends_in_an_outage_says_so() -> None:
    server = MemoryServer(lease=0.2)
    async with program(server) as c:
        server.reachable = False
        await server.forget(next(iter(server.sessions.values())), "cut off")
        with pytest.raises(Unavailable, match=r"^lock 'x': memory: cut off$"):
            await c.lock("x").acquire(timeout=0.1)


@in_loop
async def test_a_mistake_that_keeps_a_program_from_coming_back_ends_its_waits() -> None:
    server = MemoryServer(lease=0.2)
    async with program(server) as c:
        server.refuses = "open"
        await server.forget(next(iter(server.sessions.values())), "cut off")
        with pytest.raises(ConfigError, match=r"^lock 'x': memory: no right to open$"):
            await c.lock("x").acquire()


@in_loop
async def test_a_server_that_takes_no_request_is_said_to_be_the_reason() -> None:
    """The reason is not a holder, of which there is none."""
    server = MemoryServer()
    async with program(server) as c:
        server.trouble = "no space left"
        for timeout in (0, 0.1):
            with pytest.raises(Unavailable, match=r"^lock 'x': memory: no space left$"):
                await c.lock("x").acquire(timeout=timeout)
        asked = asyncio.create_task(c.lock("x").acquire())
        await asyncio.sleep(0)
        server.trouble = ""
        assert await asked is not None


def asked(server: MemoryServer, since: int) -> set[str]:
    """Return the locks that were asked for after so many requests."""
    return {ticket.lock for _, ticket in server.tried[since:]}


@pytest.mark.parametrize("several", ["semaphore", "any"])
@in_loop
async def test_a_wait_for_any_of_several_outlasts_a_trouble_of_the_server(several: str) -> None:
    """As that for one lock does; whoever does not wait is told of it."""
    server = MemoryServer()
    async with program(server) as c:
        server.trouble = "no space left"
        wanted = c.semaphore("s", 2) if several == "semaphore" else c.lock_any("a", "b")
        with pytest.raises(Unavailable, match="no space left"):
            await wanted.acquire(blocking=False)
        tried = len(server.tried)
        waiting = asyncio.create_task(wanted.acquire())
        await until(lambda: waiting.done() or len(asked(server, tried)) == 2)
        server.trouble = ""
        held = await waiting
        assert held is not None
        await held.release()


@in_loop
async def test_a_lock_is_given_back_although_its_program_may_not_join_again() -> None:
    """A server that is full takes no entry, and those that stand in the queue go on."""
    server, is_wanted = MemoryServer(), asyncio.Event()

    async def take_twice(c: Coordinator) -> None:
        async with c.lock("x"):
            await is_wanted.wait()
        async with c.lock("x"):
            pass

    async with programs(server, 2) as (ann, bob):
        both = asyncio.create_task(take_twice(ann))
        await until(lambda: "x" in server.queues)
        waiting = asyncio.create_task(taken(bob))
        await until(lambda: len(server.queues["x"]) == 2)
        await asyncio.sleep(10 * desk.KNOCK_SECONDS)  # then ann knows that it is wanted
        server.trouble = "no space left"
        is_wanted.set()
        assert (await waiting).valid
        server.trouble = ""
        await bob.close()
        await both


@in_loop
async def test_a_server_that_is_not_there_is_said_at_once() -> None:
    server = MemoryServer()
    server.reachable = False
    with pytest.raises(Unavailable):
        await program(server).open()


@pytest.mark.parametrize("shared", [False, True])
@in_loop
async def test_a_deadlock_of_two_programs_is_found(shared: bool) -> None:
    server = MemoryServer()
    async with programs(server, 2) as (ann, bob):
        entered = [asyncio.Event(), asyncio.Event()]

        async def cross(c: Coordinator, first: str, second: str, mine: int) -> str:
            async with c.lock(first, shared=shared):
                entered[mine].set()
                await entered[1 - mine].wait()
                try:
                    async with c.lock(second):
                        return "through"
                except DeadlockDetected:
                    return "gave way"

        outcomes = await asyncio.gather(cross(ann, "a", "b", 0), cross(bob, "b", "a", 1))
        assert sorted(outcomes) == ["gave way", "through"]


@in_loop
async def test_holders_and_waiters_are_those_of_all_processes() -> None:
    server = MemoryServer()
    async with programs(server, 3) as (ann, bob, eve):
        async with ann.lock("x") as held:
            waiting = asyncio.create_task(bob.lock("x").acquire())
            await until(lambda: len(server.queues["x"]) == 2)
            assert [party.token for party in await eve.holders("x")] == [held.token]
            assert len(await eve.waiters("x")) == 1
        assert await waiting is not None


@in_loop
async def test_another_lease_has_a_session_of_its_own() -> None:
    server = MemoryServer()
    async with program(server) as c:
        async with c.lock("x", lease=1.0), c.lock("y"):
            assert sorted(session.lease for session in server.sessions.values()) == [1.0, 5.0]
        with pytest.raises(UsageError, match="lease must be from"):
            await c.lock("x", lease=60.0).acquire()
    assert not server.sessions


@in_loop
async def test_a_writer_that_was_announced_waits_behind_readers_of_its_process() -> None:
    """Its entry stands before theirs when their hold goes to another process and comes back."""
    server, order = MemoryServer(), []
    async with programs(server, 2) as (ann, bob):

        async def enter(c: Coordinator, word: str, *, shared: bool) -> None:
            async with c.lock("x", shared=shared):
                order.append(word)

        held = await ann.lock("x", shared=True).acquire()
        assert held is not None
        tasks = [asyncio.create_task(enter(bob, "bob writes", shared=False))]
        engine = engine_of(ann)
        assert isinstance(engine, QueueEngine)
        await until(lambda: engine.group.supply.is_wanted("x"))  # it knocks
        tasks.append(asyncio.create_task(enter(ann, "ann reads", shared=True)))
        tasks.append(asyncio.create_task(enter(ann, "ann writes", shared=False)))
        await until(lambda: len(server.queues["x"]) == 3)
        await held.release()
        await asyncio.gather(*tasks)
        assert order == ["bob writes", "ann reads", "ann writes"]
        await until(lambda: not server.queues)


@in_loop
async def test_an_entry_of_a_lost_session_is_not_taken_for_one_of_the_next() -> None:
    """The server may still have it, until the lease of that session ends."""
    server = MemoryServer()
    async with programs(server, 2) as (ann, bob):
        async with ann.lock("x"):
            former = list(server.sessions.values())[-1]
            server.reachable = False
            waiting = asyncio.create_task(bob.lock("x").acquire())
            await until(lambda: server.tried[-1][0] is former)
            await asyncio.sleep(0)  # no answer has come, so bob tries again later
            server.reachable = True
            await server.forget(former, "the line was cut")
            await until(lambda: server.tried[-1][0] not in (former, server.tried[0][0]))
        assert await waiting is not None
    tickets = [ticket for session, ticket in server.tried if session is not server.tried[0][0]]
    assert len(tickets) == len(set(tickets)) == 2


@in_loop
async def test_a_session_that_is_lost_while_it_is_opened_is_closed() -> None:
    server = MemoryServer()
    async with program(server):
        server.breaks = "the server restarted"
        await server.forget(next(iter(server.sessions.values())), "cut off")
        await until(lambda: server.closed == 2)  # the former, and the one that was hardly open
        await until(lambda: len(server.sessions) == 1)


@in_loop
async def test_an_engine_that_cannot_be_opened_leaves_nothing_behind() -> None:
    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    server = MemoryServer()
    server.reachable = False
    before = descriptors()
    for _ in range(3):
        with pytest.raises(Unavailable):
            await program(server).open()
    assert descriptors() == before


@pytest.mark.parametrize(("refused", "patience"), [("join", 10), ("wait", 10), ("lines", 0)])
@in_loop
async def test_a_lack_of_rights_is_told_to_the_task_that_asks(
    refused: str, patience: float
) -> None:
    server = MemoryServer()
    async with programs(server, 2) as (ann, bob):
        async with ann.lock("x"):
            server.refuses = refused
            with pytest.raises(ConfigError, match=refused):
                await bob.lock("x").acquire(timeout=patience)
            server.refuses = ""
            await until(lambda: len(server.queues["x"]) == 1)
        async with bob.lock("x"):
            pass


@in_loop
async def test_a_knock_that_is_lost_is_repeated() -> None:
    server = MemoryServer(lease=0.2)
    async with programs(server, 2) as (ann, bob):
        server.loses_mail = 1
        for _ in range(2):
            async with ann.lock("x"):
                pass
        stop = asyncio.Event()

        async def use() -> None:
            while not stop.is_set():
                async with ann.lock("x"):
                    await asyncio.sleep(0.03)

        using = asyncio.create_task(use())
        async with bob.lock("x"):
            assert not server.loses_mail
        stop.set()
        await using


@pytest.mark.parametrize("kind", ["join", "wait", "leave"])
@in_loop
async def test_a_call_that_is_cancelled_with_its_session_forgets_no_request(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client library may cancel the calls that are under way when its connection is closed."""
    server = MemoryServer()
    call, close = getattr(MemorySession, kind), MemorySession.close
    under_way: dict[MemorySession, asyncio.Future[None]] = {}

    async def hang(self: MemorySession, *given: object) -> object:
        if not under_way:
            under_way[self] = asyncio.get_running_loop().create_future()
            await under_way[self]
        return await call(self, *given)

    async def close_and_cancel(self: MemorySession) -> None:
        if self in under_way:
            under_way[self].cancel()
        await close(self)

    monkeypatch.setattr(MemorySession, "close", close_and_cancel)
    async with programs(server, 2) as (ann, bob):
        held = await taken(bob)
        monkeypatch.setattr(MemorySession, kind, hang)
        task = asyncio.create_task(ann.lock("x").acquire())
        if kind == "leave":
            await until(lambda: len(server.queues["x"]) == 2)
            task.cancel()
        await until(lambda: bool(under_way))
        again = task if kind != "leave" else asyncio.create_task(ann.lock("x").acquire())
        await server.forget(next(iter(under_way)), "it was forgotten")
        await held.release()
        assert await again


@pytest.mark.parametrize(
    ("url", "least"),
    [
        ("etcd://127.0.0.1", 2),
        ("mariadb://127.0.0.1", 0.5),
        ("nats://127.0.0.1", 0.5),
        ("postgresql://127.0.0.1/x", 0.5),
        ("redis://127.0.0.1", 0.5),
        ("s3://127.0.0.1/bucket", 1),
        ("zookeeper://127.0.0.1", 1),
    ],
)
def test_a_lease_that_a_server_cannot_keep_is_refused(url: str, least: float) -> None:
    """It is not made longer without a word."""
    coterie.connect(f"{url}?lease={least}")
    with pytest.raises(UsageError, match=rf"lease must be at least {least:g} s, got 0\.1 s"):
        coterie.connect(f"{url}?lease=0.1")
