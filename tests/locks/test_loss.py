"""Losing a lock is loud and early."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pytest

from coterie import LockLost
from tests.locks.memory import MemoryEngine, coordinator, in_loop, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie import Coordinator
    from coterie.locks import Holding


async def lose_inside(
    engine: MemoryEngine, c: Coordinator, on_lost: Callable[[Holding], object] | None = None
) -> None:
    async with c.lock("a", on_lost=on_lost):
        engine.lose("a")
        await asyncio.Event().wait()


def cancellations() -> int:
    task = asyncio.current_task()
    assert task is not None
    return task.cancelling()


@in_loop
async def test_the_body_is_cancelled_and_the_loss_raised() -> None:
    engine = MemoryEngine()
    told: list[Holding] = []
    async with coordinator(engine) as c:
        with pytest.raises(LockLost, match="'a'") as caught:
            await lose_inside(engine, c, told.append)
        assert "the lease ran out" in str(caught.value)
        assert caught.value.exit_status == 79
        assert [held.name for held in told] == ["a"]
        assert told[0].lost.is_set()
        assert not told[0].valid
        assert cancellations() == 0
        await asyncio.sleep(0)  # would raise if a cancellation were left over


@in_loop
async def test_a_second_holder_does_not_enter_before_the_first_is_out() -> None:
    engine = MemoryEngine()
    events = []
    entered = asyncio.Event()
    async with coordinator(engine) as c:

        async def first() -> None:
            async with c.lock("a"):
                entered.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    events.append("first is out")

        async def second() -> None:
            async with c.lock("a"):
                events.append("second is in")

        tasks = [asyncio.create_task(first()), asyncio.create_task(second())]
        await entered.wait()
        await until(lambda: engine.waiting("a") == 1)
        engine.lose("a")
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(outcomes[0], LockLost)
        assert events == ["first is out", "second is in"]


@in_loop
async def test_what_the_body_raised_goes_before_the_loss() -> None:
    engine = MemoryEngine()
    async with coordinator(engine) as c:

        async def work() -> None:
            async with c.lock("a"):
                engine.lose("a")
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    raise KeyError from None

        with pytest.raises(KeyError):
            await work()
        assert cancellations() == 0


@in_loop
async def test_a_body_that_swallows_the_cancellation_meets_the_loss_at_its_end() -> None:
    engine = MemoryEngine()
    async with coordinator(engine) as c:

        async def work() -> None:
            async with c.lock("a"):
                engine.lose("a")
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.Event().wait()

        with pytest.raises(LockLost):
            await work()


@in_loop
async def test_a_loss_that_nobody_noticed_is_found_by_ensure_and_at_the_end() -> None:
    engine = MemoryEngine()
    async with coordinator(engine) as c:

        async def careful() -> None:
            async with c.lock("a") as held:
                engine.lose("a", noticed=False)
                assert not held.valid
                held.ensure()
                pytest.fail("ensure let it pass")

        async def careless() -> None:
            async with c.lock("a"):
                engine.lose("a", noticed=False)

        for work in (careful, careless):
            with pytest.raises(LockLost):
                await work()


@in_loop
async def test_somebody_elses_cancellation_is_not_taken_for_the_loss() -> None:
    engine = MemoryEngine()
    entered = asyncio.Event()
    async with coordinator(engine) as c:

        async def work() -> None:
            async with c.lock("a"):
                entered.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(work())
        await entered.wait()
        engine.lose("a")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


@in_loop
async def test_releasing_a_lost_lock_frees_nobody_elses() -> None:
    engine = MemoryEngine()
    async with coordinator(engine) as c:
        held = await c.lock("a").acquire()
        assert held is not None
        engine.lose("a")
        second = await asyncio.create_task(c.lock("a").acquire())
        assert second is not None
        with pytest.raises(LockLost):
            await held.release()
        assert second.valid


@in_loop
async def test_the_loss_can_be_awaited() -> None:
    engine = MemoryEngine()
    async with coordinator(engine) as c:
        held = await c.lock("a").acquire()
        assert held is not None
        asyncio.get_running_loop().call_soon(engine.lose, "a")
        assert await held.lost
        with pytest.raises(LockLost):
            held.ensure()


@in_loop
async def test_an_error_in_on_lost_does_not_keep_the_body_from_being_cancelled() -> None:
    engine = MemoryEngine()
    errors: list[object] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: errors.append(context["exception"])
    )

    def fail(_: Holding) -> None:
        raise KeyError

    async with coordinator(engine) as c:
        with pytest.raises(LockLost):
            await lose_inside(engine, c, fail)
    assert [type(error) for error in errors] == [KeyError]


@in_loop
async def test_nested_bodies_end_in_one_loss_and_no_cancellation_is_left() -> None:
    engine = MemoryEngine()
    async with coordinator(engine) as c:
        lock = c.lock("a", reentrant=True)

        async def nested() -> None:
            async with lock, lock:
                engine.lose("a")
                await asyncio.Event().wait()

        with pytest.raises(LockLost):
            await nested()
        assert cancellations() == 0


@in_loop
async def test_the_release_of_an_inner_hold_tells_of_a_loss_that_nobody_has_noticed() -> None:
    engine = MemoryEngine()
    async with coordinator(engine) as c:
        lock = c.lock("a", reentrant=True)
        outer = await lock.acquire()
        inner = await lock.acquire()
        assert inner is not None
        assert inner == outer
        engine.lose("a", noticed=False)
        for _ in range(2):
            with pytest.raises(LockLost):
                await lock.release()
