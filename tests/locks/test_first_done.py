"""Waiting for the first of some futures: it behaves as a future would, and cancels none of them."""

from __future__ import annotations

import asyncio
import contextvars

import pytest

from coterie.aio import FirstDone
from tests.locks.memory import in_loop

colour = contextvars.ContextVar("colour", default="none")


def futures(number: int = 2) -> list[asyncio.Future[int]]:
    return [asyncio.get_running_loop().create_future() for _ in range(number)]


async def wait(some: list[asyncio.Future[int]], limit: float | None = None) -> str:
    colour.set("red")
    await FirstDone(some, limit)
    return colour.get()


async def begun(task: asyncio.Task[str]) -> None:
    await asyncio.sleep(0)
    assert not task.done()


@in_loop
async def test_it_ends_when_one_is_done_and_the_task_goes_on_in_its_context() -> None:
    some = futures()
    task = asyncio.create_task(wait(some))
    await begun(task)
    some[1].set_result(1)
    assert await task == "red"
    assert not some[0].done()
    assert colour.get() == "none"


@in_loop
async def test_one_that_is_done_already_takes_no_turn() -> None:
    some = futures()
    some[0].set_result(1)
    turned = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(turned.set_result, None)
    await FirstDone(some, None)
    assert not turned.done()


@in_loop
async def test_the_task_goes_on_in_the_turn_after_the_future_is_done() -> None:
    some = futures(1)
    task = asyncio.create_task(wait(some))
    await begun(task)
    some[0].set_result(1)
    await asyncio.sleep(0)
    assert task.done()


@in_loop
async def test_a_limit_ends_it() -> None:
    some = futures()
    assert await wait(some, 0.001) == "red"
    assert not any(future.done() for future in some)


@in_loop
async def test_a_cancellation_ends_it_and_leaves_the_futures_alone() -> None:
    some = futures()
    task = asyncio.create_task(wait(some, 60))
    await begun(task)
    task.cancel("enough")
    with pytest.raises(asyncio.CancelledError, match="enough"):
        await task
    assert task.cancelled()
    assert not any(future.done() for future in some)


@in_loop
async def test_a_cancellation_that_comes_before_it_waits_ends_it() -> None:
    async def cancelled() -> str:
        current = asyncio.current_task()
        assert current is not None
        current.cancel()
        return await wait(futures())

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(cancelled())


@in_loop
async def test_a_cancellation_between_the_result_and_the_wake_up_is_not_lost() -> None:
    some = futures(1)
    task = asyncio.create_task(wait(some))
    await begun(task)
    some[0].set_result(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert some[0].result() == 1


@in_loop
async def test_a_timeout_around_it_works() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.001):
            await FirstDone(futures(), None)
