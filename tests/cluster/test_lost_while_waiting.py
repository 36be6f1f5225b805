"""Whoever takes several locks may lose one of them while it still waits for another."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

import coterie
from coterie.locks.internals import engine_of, give_back, holds_of
from tests.cluster.test_bad_links import LEASE, asked, seen, through_proxies
from tests.cluster.virtual_time import passing

if TYPE_CHECKING:
    from tests.cluster.proxy import Network, Program


async def lose(program: Program) -> None:
    """Cut a program off for longer than its lease, but not for so long that its waits fail."""
    for proxy in program.proxies:
        proxy.stall()
    await passing(1.5 * LEASE)
    for proxy in program.proxies:
        proxy.resume()


async def waiting(made: Network, task: asyncio.Task[object]) -> None:
    """Wait until somebody holds `a` and waits for `b`."""
    await seen(
        lambda: asked(made, "a") and all(n.voting.voter.ballots["b"].queue for n in made.nodes)
    )
    assert not task.done()


def test_a_body_does_not_begin_without_a_lock_that_was_lost_on_the_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(made: Network, program: Program, other: Program) -> None:
        async def body() -> None:
            async with program.coordinator.lock_all("a", "b") as held:
                assert held.valid
                held.ensure()

        async with other.coordinator.lock("b"):
            task = asyncio.ensure_future(body())
            await waiting(made, task)
            await lose(program)
        await task

    through_proxies(monkeypatch, 2, test)


def test_a_loss_on_the_way_does_not_hide_a_cancellation(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(made: Network, program: Program, other: Program) -> None:
        async with other.coordinator.lock("b"):
            task = asyncio.ensure_future(program.coordinator.lock_all("a", "b").acquire())
            await waiting(made, task)
            await lose(program)
            task.cancel()
            await asyncio.wait({task})
            assert task.cancelled()

    through_proxies(monkeypatch, 2, test)


def test_a_loss_on_the_way_does_not_hide_that_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(made: Network, program: Program, other: Program) -> None:
        async with other.coordinator.lock("b"):
            both = program.coordinator.lock_all("a", "b", timeout=4 * LEASE)
            task = asyncio.ensure_future(both.acquire())
            await waiting(made, task)
            await lose(program)
            assert await task is None

    through_proxies(monkeypatch, 2, test)


def waiters(made: Network, lock: str) -> int:
    """Count the requests that wait at the voters."""
    ballots = [node.voting.voter.ballots.get(lock) for node in made.nodes]
    return sum(len(ballot.queue) for ballot in ballots if ballot is not None)


def test_another_task_gets_a_lock_that_was_lost_while_its_holder_waits_for_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(made: Network, program: Program, other: Program) -> None:
        async with other.coordinator.lock("b"):
            both = asyncio.ensure_future(program.coordinator.lock_all("a", "b").acquire())
            await waiting(made, both)
            next_one = asyncio.ensure_future(program.coordinator.lock("a").acquire())
            await lose(program)
            held = await next_one
            assert held
            assert held.valid
            assert not both.done(), "it has begun again"
        await give_back(held, next_one)
        all_held = await both
        assert all_held
        assert all_held.valid

    through_proxies(monkeypatch, 2, test)


def test_a_lost_lock_does_not_block_other_tasks_of_a_program_that_has_not_released_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One task has lost `a` and waits for `b`; the other holds `b` and wants `a`."""

    async def test(_: Network, program: Program) -> None:
        b_is_held = asyncio.Event()
        waits = engine_of(program.coordinator).waits

        async def first() -> None:
            a = await program.coordinator.lock("a").acquire()
            assert a
            await b_is_held.wait()
            assert not a.valid
            async with program.coordinator.lock("b"):
                with pytest.raises(coterie.LockLost):
                    await a.release()

        async def second() -> None:
            async with program.coordinator.lock("b"):
                b_is_held.set()
                await seen(waits.blocked)
                async with program.coordinator.lock("a") as held:
                    assert held.valid

        tasks = [asyncio.ensure_future(first())]
        await seen(lambda: holds_of(program.coordinator))
        await lose(program)
        tasks.append(asyncio.ensure_future(second()))
        async with asyncio.timeout(10 * LEASE):
            await asyncio.gather(*tasks)

    through_proxies(monkeypatch, 1, test)


@pytest.mark.parametrize("shared", [False, True])
def test_the_next_in_line_gets_a_lost_lock_whose_holder_waits_for_another_program(
    shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(made: Network, program: Program, other: Program) -> None:
        c = program.coordinator

        async def hold_and_wait() -> None:
            await c.lock("a", shared=shared).acquire()
            await c.lock("b").acquire()

        async with other.coordinator.lock("b"):
            tasks = [asyncio.ensure_future(hold_and_wait()) for _ in range(2 if shared else 1)]
            await waiting(made, tasks[0])
            next_one = asyncio.ensure_future(c.lock("a").acquire())
            await lose(program)
            held = await next_one
            assert held
            assert held.valid
            assert not any(task.done() for task in tasks)
            await give_back(held, next_one)
            assert await other.coordinator.lock("a").acquire(timeout=10 * LEASE)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    through_proxies(monkeypatch, 2, test)


def test_a_single_try_finds_a_lock_free_that_another_task_has_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(_: Network, program: Program) -> None:
        lost = await program.coordinator.lock("a").acquire()
        assert lost
        await lose(program)
        await seen(lambda: len(program.host.reachable()) == len(program.proxies))
        assert not lost.valid
        again = asyncio.ensure_future(program.coordinator.lock("a").acquire(timeout=0))
        held = await again
        assert held
        assert held.valid
        with pytest.raises(coterie.LockLost):
            await lost.release()
        assert held.valid, "the release of what was lost frees nothing"

    through_proxies(monkeypatch, 1, test)


@pytest.mark.parametrize("shared", [False, True])
def test_a_body_that_waits_for_another_lock_ends_when_its_own_is_lost(
    shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(made: Network, program: Program, other: Program) -> None:
        async def body() -> None:
            c = program.coordinator
            async with c.lock("a", shared=shared), c.lock("b"):
                pytest.fail("b is held")

        async with other.coordinator.lock("b"):
            bodies = [asyncio.ensure_future(body()) for _ in range(2 if shared else 1)]
            await waiting(made, bodies[0])
            next_one = asyncio.ensure_future(program.coordinator.lock("a").acquire())
            await lose(program)
            for each in bodies:
                with pytest.raises(coterie.LockLost):
                    await each
            held = await next_one
            assert held
            assert held.valid
            await seen(lambda: not waiters(made, "b"))

    through_proxies(monkeypatch, 2, test)
