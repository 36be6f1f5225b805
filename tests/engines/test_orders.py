"""Orders of operators to programs with a server that keeps queues, on one in memory."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

import coterie
from coterie.engines.queue import breaker
from coterie.engines.queue.breaker import QueueBreaker
from coterie.engines.queue.engine import QueueEngine
from coterie.engines.queue.mail import HoldOrder, encode
from coterie.engines.queue.orders import OPERATOR
from coterie.engines.queue.server import Author, Ticket
from tests.engines.memory_server import MemoryServer, MemorySession
from tests.engines.test_nonsense import Deaf
from tests.engines.test_queue_engine import programs
from tests.locks.memory import in_loop, until

if TYPE_CHECKING:
    from coterie import Coordinator, Held
    from coterie.locks.breaker import EndedHolds


async def broken(server: MemoryServer) -> EndedHolds:
    ends = QueueBreaker(QueueEngine(server))
    return await ends.end(await ends.find("x"))


async def taken(c: Coordinator, **options: Any) -> Held:
    """Take the lock in a task of its own."""
    held = await asyncio.create_task(c.lock("x", **options).acquire())
    assert held is not None
    return held


async def standing(server: MemoryServer, count: int) -> None:
    await until(lambda: len(server.queues.get("x", ())) == count)


@in_loop
async def test_an_order_that_is_lost_is_given_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(breaker, "AGAIN_SECONDS", 0.01)
    server = MemoryServer()
    ends = QueueBreaker(QueueEngine(server))
    async with programs(server, 1) as (ann,):
        held = await taken(ann)
        found = await ends.find("x")
        server.loses_mail = 3  # two orders, and then perhaps an answer
        assert (await ends.end(found)).told
        assert not held.valid
        assert not server.queues


@in_loop
async def test_an_answer_that_is_lost_is_given_again_and_is_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Although the hold is over when the order comes again, and its task has gone."""
    monkeypatch.setattr(breaker, "AGAIN_SECONDS", 0.01)
    server = MemoryServer()
    ends = QueueBreaker(QueueEngine(server))
    send = MemorySession.send
    sent = []

    async def lose_the_first_answers(self: MemorySession, participant: str, letter: bytes) -> None:
        sent.append(letter)
        if b"HoldEnded" in letter and sum(b"HoldEnded" in each for each in sent) < 3:
            return
        await send(self, participant, letter)

    async with programs(server, 1) as (ann,):

        async def enter() -> None:
            async with ann.lock("x"):
                await asyncio.Event().wait()

        task = asyncio.create_task(enter())
        await standing(server, 1)
        found = await ends.find("x")
        monkeypatch.setattr(MemorySession, "send", lose_the_first_answers)
        assert (await ends.end(found)).told
        with pytest.raises(coterie.LockLost):
            await task


@in_loop
async def test_an_operator_that_cannot_write_there_ends_no_hold() -> None:
    server = MemoryServer()
    async with programs(server, 1) as (ann,):
        held = await taken(ann)
        server.refuses = "join"
        with pytest.raises(coterie.ConfigError, match="no right to join"):
            await broken(server)
        assert held.valid


@in_loop
async def test_the_operator_leaves_nothing_behind() -> None:
    server = MemoryServer()
    async with programs(server, 2) as (ann, bob):
        await taken(ann)
        waits = asyncio.create_task(taken(bob))
        await standing(server, 2)
        assert (await broken(server)).told
        await (await waits).release()
        await until(lambda: not server.queues)
        assert len(server.sessions) == 2


@pytest.mark.parametrize("order", ["w", "wr", "rw", "rwr"])
@in_loop
async def test_tasks_of_a_program_that_shares_go_on_in_their_order(order: str) -> None:
    """Those that read and write, and wait behind its own sharing when that is ended."""
    server = MemoryServer()
    inside: list[str] = []

    async def enter(c: Coordinator, kind: str) -> None:
        async with c.lock("x", shared=kind == "r") as held:
            inside.append(kind)
            await asyncio.sleep(0)
            assert held.valid

    async with programs(server, 2) as (ann, bob):
        held = await taken(ann, shared=True)
        other = await taken(bob, shared=True)
        last = asyncio.create_task(enter(bob, "w"))
        await standing(server, 3)  # from now on no other shares
        tasks = [asyncio.create_task(enter(ann, kind)) for kind in order]
        await until(lambda: len(server.queues["x"]) >= 3 + order.startswith("w"))
        assert len((await broken(server)).told) == 2
        assert not held.valid
        assert not other.valid
        await asyncio.gather(last, *tasks)
        assert sorted(inside) == sorted(["w", *order])
        for each in (held, other):
            with pytest.raises(coterie.LockLost):
                await each.release()
        await until(lambda: not server.queues)


@in_loop
async def test_the_session_that_is_lost_meanwhile_ends_the_hold_as_well() -> None:
    server = MemoryServer()
    async with programs(server, 1) as (ann,):
        held = await taken(ann)
        assert (await broken(server)).told
        (session,) = server.sessions.values()
        await server.forget(session, "gone")
        async with ann.lock("x") as again:
            assert again.token > held.token
        with pytest.raises(coterie.LockLost, match="coterie break"):
            await held.release()


@in_loop
async def test_a_letter_ends_no_hold_that_the_operator_has_not_seen() -> None:
    """One that hears all letters, and may write none but letters, rings while an operator stands in the queue."""
    server = MemoryServer()
    ends = QueueBreaker(QueueEngine(server))
    async with programs(server, 1) as (ann,):
        held = await taken(ann)
        found = await ends.find("x")
        await asyncio.create_task(held.release())
        again = await taken(ann)
        assert again.token > held.token
        (reader,) = server.sessions.values()
        stranger = await server.open("stranger", Deaf(), server.lease)

        async def ring() -> None:
            heard = ""
            while not heard:
                await asyncio.sleep(0)
                for session, _, author, _ in server.queues["x"]:
                    heard = author.participant if session is not reader else ""
            for _ in range(10):
                await stranger.send(reader.name, encode(HoldOrder(heard, "x")))

        rings = asyncio.create_task(ring())
        assert not (await ends.end(found)).told
        await rings
        assert again.valid


@in_loop
async def test_an_operator_of_an_earlier_build_that_names_no_token_ends_nothing() -> None:
    server = MemoryServer()
    async with programs(server, 1) as (ann,):
        held = await taken(ann)
        other = await server.open("other", Deaf(), server.lease)
        for process in ("host:1", "host:1, up to token", "host:1, up to token -1", "1" * 5000):
            await other.join(Ticket("x", False, 1), Author("other", OPERATOR + process, 0.0), None)
        (reader, *_) = server.sessions
        await other.send(reader, encode(HoldOrder("other", "x")))
        await other.lines(None)
        await until(lambda: not server.under_way.total())
        assert held.valid
