"""A task goes on within the call that grants it a lock of this machine; what ends its wait otherwise takes a turn."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import TYPE_CHECKING

import pytest

from coterie.engines.file.grant import Grant
from coterie.errors import MisuseError
from tests.locks.memory import in_loop

if TYPE_CHECKING:
    from collections.abc import Callable

color = ContextVar("color", default="none")


async def waiting(grant: Grant, seen: list[object]) -> None:
    color.set("of the task")
    try:
        seen.append(await grant)
    except BaseException as error:
        seen.append(type(error))
        raise
    finally:
        seen.append(color.get())


@in_loop
async def test_the_task_goes_on_at_once_and_in_its_own_context() -> None:
    loop = asyncio.get_running_loop()
    grant, seen = Grant(loop=loop), list[object]()
    task = asyncio.create_task(waiting(grant, seen))
    await asyncio.sleep(0)

    def give() -> None:
        grant.give(7)
        seen.append("given")

    loop.call_soon(give)
    await task
    assert seen == [7, "of the task", "given"]
    assert color.get() == "none"


@pytest.mark.parametrize(
    ("end", "error"),
    [
        (lambda grant: grant.cancel(), asyncio.CancelledError),
        (lambda grant: grant.set_exception(MisuseError("closed")), MisuseError),
    ],
)
@in_loop
async def test_what_another_task_ends_goes_on_a_turn_later(
    end: Callable[[Grant], object], error: type[BaseException]
) -> None:
    """A task cannot run within another one."""
    grant, seen = Grant(loop=asyncio.get_running_loop()), list[object]()
    task = asyncio.create_task(waiting(grant, seen))
    await asyncio.sleep(0)
    end(grant)
    assert seen == []
    with pytest.raises(error):
        await task
    assert seen == [error, "of the task"]


@in_loop
async def test_a_task_that_is_cancelled_before_it_is_granted_the_lock_gets_none() -> None:
    grant, seen = Grant(loop=asyncio.get_running_loop()), list[object]()
    task = asyncio.create_task(waiting(grant, seen))
    await asyncio.sleep(0)
    task.cancel()
    assert grant.cancelled()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == [asyncio.CancelledError, "of the task"]


@in_loop
async def test_one_that_is_granted_before_it_is_awaited_does_not_wait() -> None:
    grant, seen = Grant(loop=asyncio.get_running_loop()), list[object]()
    grant.give(3)
    await waiting(grant, seen)
    assert seen == [3, "of the task"]
    assert await asyncio.wait_for(grant, 10) == 3
