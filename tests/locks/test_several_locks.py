"""All of several locks, the first of several, semaphores, leaders."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from coterie import AcquireTimeout, LockLost, MisuseError, UsageError
from tests.locks.memory import MemoryEngine, coordinator, in_loop, until

if TYPE_CHECKING:
    from coterie.locks import Holding


@in_loop
async def test_lock_all_takes_every_one_in_the_order_of_names_and_gives_all_back() -> None:
    engine = MemoryEngine()
    async with coordinator(engine) as c:
        async with c.lock_all("b", "a") as held:
            assert engine.placed == ["a", "b"]
            assert held.tokens == {"b": 2, "a": 1}
            assert held["a"].name == "a"
            assert [part.name for part in held] == ["b", "a"]
            assert held.valid
            held.ensure()
        assert not await c.locked("a")
        assert not await c.locked("b")


@in_loop
async def test_crossed_lock_alls_do_not_deadlock() -> None:
    async with coordinator(MemoryEngine()) as c:

        async def work(*names: str) -> None:
            for _ in range(10):
                async with c.lock_all(*names):
                    await asyncio.sleep(0)

        await asyncio.gather(work("a", "b"), work("b", "a"))


@in_loop
async def test_lock_all_holds_nothing_if_one_is_not_to_be_had() -> None:
    engine = MemoryEngine()
    async with coordinator(engine) as c:
        blocker = await asyncio.create_task(c.lock("b").acquire())
        assert blocker is not None
        with pytest.raises(AcquireTimeout, match="'a,b'"):
            async with c.lock_all("a", "b", timeout=0.001):
                pytest.fail("b is held")
        assert not await c.locked("a")
        waiting = asyncio.create_task(c.lock_all("a", "b").acquire())
        await until(lambda: engine.waiting("b") == 1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert not await c.locked("a")
        assert engine.waiting("b") == 0


@in_loop
async def test_the_loss_of_one_is_the_loss_of_all() -> None:
    engine = MemoryEngine()
    async with coordinator(engine) as c:

        async def work() -> None:
            async with c.lock_all("a", "b"):
                engine.lose("a")
                await asyncio.Event().wait()

        with pytest.raises(LockLost, match="'a'"):
            await work()
        assert not await c.locked("b")


@in_loop
async def test_lock_all_begins_again_as_soon_as_a_part_is_lost_while_another_is_awaited() -> None:
    engine = MemoryEngine()
    async with coordinator(engine) as c:
        await c.lock("b").acquire()
        both = asyncio.create_task(c.lock_all("a", "b").acquire())
        await until(lambda: engine.waiting("b") == 1)
        engine.lose("a")
        await until(lambda: engine.placed == ["b", "a", "b", "a", "b"])
        assert engine.waiting("b") == 1, "the first request was withdrawn"
        engine.lose("b")
        held = await both
        assert held is not None
        assert held.valid


@in_loop
async def test_lock_all_begins_again_if_a_part_is_lost_while_the_first_of_several_is_awaited() -> (
    None
):
    engine = MemoryEngine()
    async with coordinator(engine) as c:
        await c.lock_all("p", "q").acquire()
        both = asyncio.create_task(c.lock_all("a", c.lock_any("p", "q")).acquire())
        await until(lambda: engine.waiting("p") == engine.waiting("q") == 1)
        engine.lose("a")
        await until(lambda: engine.placed.count("a") == 2)
        await until(lambda: engine.waiting("p") == engine.waiting("q") == 1)
        engine.lose("q")
        held = await both
        assert held is not None
        assert list(held.tokens) == ["a", "q"]
        assert held.valid
        assert engine.waiting("p") == 0


@in_loop
async def test_a_part_that_is_several_ends_when_what_it_is_part_of_begins_again() -> None:
    engine = MemoryEngine()
    async with coordinator(engine) as c:
        await c.lock("c").acquire()
        nested = asyncio.create_task(c.lock_all("a", c.lock_all("b", "c")).acquire())
        await until(lambda: engine.waiting("c") == 1)
        engine.lose("a")
        await until(lambda: engine.placed == ["c", "a", "b", "c", "a", "b", "c"])
        engine.lose("b")
        await until(lambda: engine.placed[7:] == ["b", "c"])
        engine.lose("c")
        held = await nested
        assert held is not None
        assert held.valid


@in_loop
async def test_whoever_is_to_be_told_of_the_loss_of_a_part_is_told() -> None:
    engine = MemoryEngine()
    told: list[str] = []
    async with coordinator(engine) as c:

        def tell(holding: Holding) -> None:
            told.append(holding.name)

        async def work() -> None:
            part = c.lock("a", on_lost=tell)
            async with c.lock_all(c.lock_any(part, "c"), "b", on_lost=tell):
                engine.lose("a")
                await asyncio.Event().wait()

        with pytest.raises(LockLost, match="'a'"):
            await work()
        assert told == ["a", "a,b"]


@in_loop
async def test_lock_any_takes_the_first_that_is_free() -> None:
    engine = MemoryEngine()
    async with coordinator(engine) as c, c.lock("p1"):

        async def other() -> None:
            async with c.lock_any("p1", "p2") as held:
                assert held.name == "p2"
                assert engine.waiting("p1") == 0

        await asyncio.create_task(other())


@in_loop
async def test_lock_any_waits_for_all_and_withdraws_what_it_does_not_take() -> None:
    engine = MemoryEngine()
    async with coordinator(engine) as c:
        first, second = await c.lock("p1").acquire(), await c.lock("p2").acquire()
        assert first is not None
        assert second is not None
        waiting = asyncio.create_task(c.lock_any("p1", "p2").acquire())
        await until(lambda: engine.waiting("p1") == engine.waiting("p2") == 1)
        await second.release()
        held = await waiting
        assert held is not None
        assert held.name == "p2"
        assert engine.waiting("p1") == 0


@in_loop
async def test_lock_any_gives_back_a_second_grant_of_the_same_moment() -> None:
    engine = MemoryEngine()
    async with coordinator(engine) as c:
        both = await c.lock_all("p1", "p2").acquire()
        assert both is not None
        waiting = asyncio.create_task(c.lock_any("p1", "p2").acquire())
        await until(lambda: engine.waiting("p1") == engine.waiting("p2") == 1)
        for name in ("p1", "p2"):
            engine.lose(name)
        held = await waiting
        assert held is not None
        assert held.name == "p1"
        assert not await c.locked("p2")


@in_loop
async def test_a_cancelled_lock_any_leaves_nothing_behind() -> None:
    engine = MemoryEngine()
    async with coordinator(engine) as c, c.lock_all("p1", "p2"):
        waiting = asyncio.create_task(c.lock_any("p1", "p2").acquire())
        await until(lambda: engine.waiting("p1") == engine.waiting("p2") == 1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert engine.waiting("p1") == engine.waiting("p2") == 0
        assert await asyncio.create_task(c.lock_any("p1", "p2").acquire(timeout=0.001)) is None
        assert engine.waiting("p1") == engine.waiting("p2") == 0


@in_loop
async def test_all_and_any_stand_inside_each_other() -> None:
    engine = MemoryEngine()
    async with coordinator(engine) as c, c.lock("p1"):

        async def other() -> None:
            async with c.lock_all("a", c.lock_any("p1", "p2")) as held:
                assert list(held.tokens) == ["a", "p2"]
            async with c.lock_any(c.lock_all("a", "p1"), c.lock_all("b", "c")) as either:
                assert either.name == "b,c"
            assert not await c.locked("a")

        await asyncio.create_task(other())


@in_loop
async def test_a_lock_cannot_be_named_twice() -> None:
    async with coordinator(MemoryEngine()) as c:
        with pytest.raises(UsageError, match="'a' is named twice"):
            c.lock_all("a", "b", "a")
        with pytest.raises(UsageError, match="'a' is named twice"):
            c.lock_all("a", c.lock_any("a", "b"))
        with pytest.raises(UsageError, match="at least one"):
            c.lock_any()


@in_loop
async def test_a_semaphore_lets_in_as_many_as_it_has_permits() -> None:
    engine = MemoryEngine()
    async with coordinator(engine) as c:
        semaphore = c.semaphore("s", 3)
        inside = most = 0

        async def work() -> None:
            nonlocal inside, most
            async with semaphore as held:
                assert held.name.startswith("s/permit-")
                inside += 1
                most = max(most, inside)
                await asyncio.sleep(0.001)
                inside -= 1

        await asyncio.gather(*(work() for _ in range(10)))
        assert most == 3
        assert not any(engine.queues.values())


@in_loop
async def test_a_task_that_has_all_permits_does_not_wait_for_itself() -> None:
    async with coordinator(MemoryEngine()) as c:
        semaphore = c.semaphore("s", 2)
        async with semaphore as first, semaphore as second:
            assert {first.name, second.name} == {"s/permit-1", "s/permit-2"}
            with pytest.raises(MisuseError, match="all 2 permits"):
                await semaphore.acquire()
        with pytest.raises(UsageError, match="at least 1"):
            c.semaphore("s", 0)


@in_loop
async def test_a_leader_holds_its_term_until_the_body_has_stopped() -> None:
    async with coordinator(MemoryEngine()) as c:
        async with c.elect("scheduler") as term:
            leader = await anext(c.observe("scheduler"))
            assert leader is not None
            assert leader.token == term.token
        assert await anext(c.observe("scheduler")) is None
