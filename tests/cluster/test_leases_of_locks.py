"""`lease`: a lock with a shorter lease than that of its cluster."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

import coterie
from coterie.cluster.membership.config import convert
from tests.cluster.changed_cluster import fleet
from tests.cluster.local_cluster import document
from tests.cluster.proxy import Program, network
from tests.cluster.virtual_time import passing, run

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

LEASE = 10.0
SHORT = 1.0
MARGIN = 0.25


def with_programs(
    monkeypatch: pytest.MonkeyPatch, count: int, test: Callable[..., Awaitable[None]]
) -> None:
    async def main() -> None:
        async with network(lease=LEASE, margin=MARGIN) as made:
            await test(*[await made.program() for _ in range(count)])

    run(monkeypatch, main)


@pytest.mark.parametrize("lease", [None, SHORT])
def test_a_lock_moves_on_when_its_own_lease_is_over(
    lease: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(one: Program, other: Program) -> None:
        held = await one.coordinator.lock("x", lease=lease).acquire()
        assert held
        for proxy in one.proxies:
            proxy.stall()
        began = asyncio.get_running_loop().time()
        async with other.coordinator.lock("x"):
            took = asyncio.get_running_loop().time() - began
        assert held.lost.is_set()
        length = LEASE if lease is None else lease
        assert length - length / 4 <= took <= length * 1.005 / 0.995 + MARGIN + 0.01
        with pytest.raises(coterie.LockLost):
            await held.release()

    with_programs(monkeypatch, 2, test)


def test_a_short_lease_is_renewed_for_as_long_as_the_lock_is_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(program: Program) -> None:
        async with program.coordinator.lock("x", lease=SHORT) as held:
            for _ in range(20):
                await passing(SHORT)
                assert held.valid

    with_programs(monkeypatch, 1, test)


def test_leases_differ_and_the_lock_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks of one program with three leases, and another program: nobody is inside with another."""

    async def test(one: Program, other: Program) -> None:
        tokens: list[int] = []
        inside = 0

        async def work(program: Program, lease: float | None) -> None:
            nonlocal inside
            for _ in range(10):
                async with program.coordinator.lock("x", lease=lease) as held:
                    inside += 1
                    assert inside == 1
                    tokens.append(held.token)
                    await passing(0.01)
                    inside -= 1

        await asyncio.gather(
            work(one, None), work(one, SHORT), work(one, 2 * SHORT), work(other, None)
        )
        assert tokens == sorted(set(tokens))
        assert len(tokens) == 40
        async with one.coordinator.lock("x", lease=SHORT):
            tried = one.coordinator.lock("x").acquire(blocking=False)
            assert await asyncio.ensure_future(tried) is None, "held by us, under another lease"
            assert len(await other.coordinator.holders("x")) == 1

    with_programs(monkeypatch, 2, test)


def test_a_deadlock_over_locks_of_different_leases_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(one: Program, other: Program) -> None:
        holding = asyncio.Barrier(2)

        async def cross(program: Program, first: str, second: str) -> str:
            async with program.coordinator.lock(first, lease=SHORT):
                await holding.wait()
                try:
                    async with program.coordinator.lock(second):
                        return "served"
                except coterie.DeadlockDetected:
                    return "gave way"

        outcomes = await asyncio.gather(cross(one, "a", "b"), cross(other, "b", "a"))
        assert sorted(outcomes) == ["gave way", "served"]

    with_programs(monkeypatch, 2, test)


@pytest.mark.parametrize("lease", [0.01, LEASE + 1])
def test_a_lease_that_cannot_be_is_refused_with_what_to_do(
    lease: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(program: Program) -> None:
        refused = r"10 s, the lease of cluster 'test', .* raise `lease` in the configuration"
        with pytest.raises(coterie.UsageError, match=refused):
            await program.coordinator.lock("x", lease=lease).acquire()

    with_programs(monkeypatch, 1, test)


def test_the_lease_of_a_formed_cluster_is_raised_by_a_command(tmp_path: Path) -> None:
    async def main() -> None:
        async with fleet(tmp_path, 1) as made, coterie.connect(made.url) as program:
            with pytest.raises(coterie.UsageError, match=r"raise `lease` with coterie cluster set"):
                await program.lock("x", lease=LEASE).acquire()

    asyncio.run(main())


def test_with_a_lock_delay_only_what_was_not_given_back_rests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    delay: dict[str, Any] = {"lock-delay": 5.0}

    async def main() -> None:
        async with network(lease=SHORT, margin=MARGIN, **delay) as made:
            one, other = await made.program(), await made.program()
            loop = asyncio.get_running_loop()
            async with one.coordinator.lock("x"):
                pass
            began = loop.time()
            async with other.coordinator.lock("x"):
                assert loop.time() - began < SHORT
            held = await one.coordinator.lock("x").acquire()
            assert held
            for proxy in one.proxies:
                proxy.stall()
            began = loop.time()
            async with other.coordinator.lock("x"):
                assert loop.time() - began >= delay["lock-delay"]
            with pytest.raises(coterie.LockLost):
                await held.release()

    run(monkeypatch, main)


def test_a_program_that_votes_may_have_shorter_leases_too(monkeypatch: pytest.MonkeyPatch) -> None:
    config = convert(document(1, lease=LEASE))

    async def main() -> None:
        async with coterie.join(config, node="a", new_cluster=True) as c:
            async with c.lock("x", lease=SHORT) as short:
                await passing(3 * SHORT)
                assert short.valid
            async with c.lock("x") as held:
                assert held.token > short.token

    run(monkeypatch, main)
