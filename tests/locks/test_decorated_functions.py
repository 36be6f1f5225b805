"""A lock as a decorator, and the token that the code in a body finds without being given it."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

import coterie
from coterie import AcquireTimeout, UsageError, current_token
from tests.locks.memory import MemoryEngine, coordinator, in_loop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path


@in_loop
async def test_a_coroutine_function_runs_with_the_lock_held() -> None:
    engine = MemoryEngine()
    c = coordinator(engine)
    inside = 0

    @c.lock("report")  # before the coordinator is open, as at the top of a module
    async def report(number: int, *, factor: int = 1) -> int:
        """Make a report."""
        nonlocal inside
        inside += 1
        assert inside == 1
        assert await c.locked("report")
        await asyncio.sleep(0)
        inside -= 1
        return number * factor

    assert report.__doc__ == "Make a report."
    async with c:
        first, second = await asyncio.gather(report(1), report(2, factor=3))
        assert (first, second) == (1, 6)
        assert not await c.locked("report")


@in_loop
async def test_a_function_that_cannot_wait_in_an_event_loop_is_refused() -> None:
    def plain() -> None: ...

    async def generator() -> AsyncIterator[int]:
        yield 1

    async with coordinator(MemoryEngine()) as c:
        for function in (plain, generator):
            with pytest.raises(UsageError, match=r"coterie\.sync\.connect"):
                c.lock("a")(function)  # type: ignore[arg-type] # it is what is tested


def test_a_function_runs_with_the_lock_held_by_its_thread(tmp_path: Path) -> None:
    c = coterie.sync.connect(tmp_path)

    @c.lock("report")
    def report(number: int) -> tuple[int, int | None, list[str]]:
        return number, current_token(), [party.name for party in c.holders("report")]

    with c:
        number, token, names = report(7)
        assert (number, names) == (7, ["report"])
        assert token is not None
        assert not c.locked("report")


def test_a_function_whose_body_runs_later_is_refused(tmp_path: Path) -> None:
    async def coroutine() -> None: ...

    def generator() -> Iterator[int]:
        yield 1

    async def both() -> AsyncIterator[int]:
        yield 1

    with coterie.sync.connect(tmp_path) as c:
        for function in (coroutine, generator, both):
            with pytest.raises(UsageError, match=r"take the lock from coterie\.connect"):
                c.lock("a")(function)


@in_loop
async def test_a_body_finds_its_token_by_the_name_or_the_innermost() -> None:
    async with coordinator(MemoryEngine()) as c:
        assert current_token() is None
        async with c.lock("outer") as outer:
            async with c.lock("inner") as inner:
                assert current_token() == inner.token
                assert current_token("outer") == outer.token
                assert current_token("other") is None
            assert current_token() == outer.token
            assert current_token("inner") is None
        assert current_token("outer") is None


@in_loop
async def test_a_task_that_is_started_in_a_body_is_in_it_and_others_are_not() -> None:
    async with coordinator(MemoryEngine()) as c:

        async def look() -> int | None:
            await asyncio.sleep(0)
            return current_token()

        before = asyncio.create_task(look())
        async with c.lock("a") as held:
            assert await asyncio.create_task(look()) == held.token
            assert await before is None


@in_loop
async def test_of_several_locks_one_has_to_be_named() -> None:
    async with coordinator(MemoryEngine()) as c, c.lock_all("a", "b") as held:
        assert current_token("b") == held.tokens["b"]
        with pytest.raises(UsageError, match="name one of a, b"):
            current_token()


@in_loop
async def test_an_error_ends_the_body_too() -> None:
    async with coordinator(MemoryEngine()) as c:
        with pytest.raises(ZeroDivisionError):
            async with c.lock("a"):
                raise ZeroDivisionError
        assert current_token() is None


def test_a_thread_of_its_own_is_in_no_body(tmp_path: Path) -> None:
    found: list[int | None] = []
    with coterie.sync.connect(tmp_path) as c, c.lock("a") as held:
        thread = threading.Thread(target=lambda: found.append(current_token("a")))
        thread.start()
        thread.join()
        assert current_token("a") == held.token
    assert found == [None]


def test_who_is_in_the_way_is_named(tmp_path: Path) -> None:
    async def wait_in_vain(path: Path) -> None:
        async with coterie.connect(path) as c, c.lock("a", timeout=0):
            pytest.fail("it is held")

    with coterie.sync.connect(tmp_path) as c, c.lock("a"):
        (holder,) = c.holders("a")
        with pytest.raises(AcquireTimeout, match=f"held by {holder.owner};") as caught:
            asyncio.run(wait_in_vain(tmp_path))
        assert caught.value.holders == (holder.owner,)


@in_loop
async def test_a_holder_that_cannot_be_asked_costs_a_moment_and_no_error() -> None:
    class Silent(MemoryEngine):
        async def holders(self, name: str) -> list[coterie.Party]:
            raise coterie.Unavailable("no answer")

    async with coordinator(Silent()) as c:
        held = await c.lock("a").acquire()
        assert held is not None

        async def wait_in_vain() -> None:
            async with c.lock("a", timeout=0):
                pytest.fail("it is held")

        with pytest.raises(AcquireTimeout, match="held by another task or process") as caught:
            await asyncio.create_task(wait_in_vain())
        assert caught.value.holders == ()


@in_loop
async def test_the_truth_of_lost_is_whether_it_is_lost() -> None:
    engine = MemoryEngine()
    async with coordinator(engine) as c:
        held = await c.lock("a").acquire()
        assert held is not None
        assert not held.lost
        engine.lose("a")
        await held.lost
        assert held.lost


def test_the_truth_of_lost_in_a_thread(tmp_path: Path) -> None:
    c = coterie.sync.connect(tmp_path)
    with c:
        held = c.lock("a").acquire()
        assert held is not None
        assert not held.lost
        lost = held.lost
    assert lost
