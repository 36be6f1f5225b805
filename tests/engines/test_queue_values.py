"""Values over a server that keeps queues: what rests on the entry of a hold, on one in memory."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from coterie.engines.queue.desk import TIMES_MAX, Desk
from coterie.errors import LockLost, Unavailable, UsageError
from tests.engines.memory_server import MemoryServer
from tests.engines.test_queue_engine import program, programs, taken
from tests.harness import broken_class
from tests.locks.memory import in_loop

if TYPE_CHECKING:
    from coterie import Value


def data_of(value: Value | None) -> bytes | None:
    return None if value is None else value.data


async def next_hold_is_apart(monkeypatch: pytest.MonkeyPatch, kind: type[Desk] = Desk) -> bool:
    """Let a write of a hold be under way as the next one here begins: it must not take effect in that."""
    monkeypatch.setattr("coterie.engines.queue.engine.Desk", kind)
    server = MemoryServer()
    async with program(server) as c:
        for _ in range(2):  # from the second time on a lock is kept
            async with c.lock("x") as held:
                await held.write(b"1")
        held = await taken(c)
        server.late.clear()
        server.loses_answers = 1
        with pytest.raises(Unavailable):
            await held.write(b"late")
        await held.release()
        async with c.lock("x") as later:
            is_another_entry = later.token // TIMES_MAX > held.token // TIMES_MAX
            assert data_of(await later.read()) == b"1"
            server.late.set()
            await asyncio.gather(*server.arriving)
            return is_another_entry and data_of(await c.read("x")) == b"1"


@in_loop
async def test_a_write_under_way_is_not_of_the_next_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await next_hold_is_apart(monkeypatch)


@in_loop
async def test_without_that_rule_it_would_be(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = broken_class(Desk, "if bid.writes:", "if False:")
    assert not await next_hold_is_apart(monkeypatch, broken)


@in_loop
async def test_a_write_that_was_answered_costs_no_other_entry() -> None:
    server = MemoryServer()
    async with program(server) as c:
        tokens = []
        for _ in range(4):
            async with c.lock("x") as held:
                await held.write(b"1")
                await held.delete()
                tokens.append(held.token)
        assert tokens[-1] // TIMES_MAX == tokens[1] // TIMES_MAX


@in_loop
async def test_what_the_server_refuses_is_a_loss() -> None:
    server = MemoryServer()
    async with programs(server, 2) as (ann, bob):
        held = await taken(ann)
        await held.write(b"1")
        (session, *_) = server.sessions.values()
        session.lost = True  # which is told at the next request
        with pytest.raises(LockLost, match=r"lock 'x' \(token \d+\) was lost"):
            await held.write(b"2")
        assert data_of(await bob.read("x")) == b"1"


@in_loop
async def test_where_the_entry_is_gone_the_error_says_so() -> None:
    server = MemoryServer()
    async with program(server) as c:
        held = await taken(c)
        server.queues["x"].clear()
        with pytest.raises(LockLost, match="the server refuses to write its value"):
            await held.write(b"1")
        await held.release()


@in_loop
async def test_without_a_session_values_are_not_read() -> None:
    server = MemoryServer()
    async with program(server) as c:
        server.reachable = False
        for session in list(server.sessions.values()):
            await server.forget(session, "gone")
        with pytest.raises(Unavailable, match="memory: gone"):
            await c.read("x")


@in_loop
async def test_a_server_without_values_says_so() -> None:
    server = MemoryServer()
    server.has_values = False
    async with program(server) as c, c.lock("x") as held:
        for call in (held.read(), held.write(b""), c.read("x")):
            with pytest.raises(UsageError, match="memory keeps no values of locks"):
                await call


@in_loop
async def test_a_transaction_is_for_stores_that_have_some() -> None:
    async with program(MemoryServer()) as c, c.lock("x") as held:
        with pytest.raises(
            UsageError, match="memory writes no value within a transaction of yours"
        ):
            await held.write(b"1", connection=object())
