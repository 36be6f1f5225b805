"""Whoever takes several locks may lose one of them while it still waits for another."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.cluster.test_bad_links import LEASE, asked, seen, through_proxies
from tests.cluster.virtual_time import passing

if TYPE_CHECKING:
    import pytest

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
