"""How the nodes of a classic algorithm meet, with some that crash, return and come late meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pytest

import coterie
from coterie.cluster.join import join
from coterie.cluster.membership.config import convert
from tests.cluster.local_cluster import document
from tests.cluster.test_classic import node_of
from tests.cluster.virtual_time import passing, run

if TYPE_CHECKING:
    from pathlib import Path

    from coterie import locks
    from coterie.cluster.membership.config import Config

LEASE = 0.2
TIMES = {"sigma": "0.05", "lambda": "0.05"}


def returning(folder: Path, size: int = 3) -> Config:
    """Configure nodes that may return."""
    wish = document(size, algorithm="fault-tolerant", parameters=TIMES, lease=LEASE, data="data")
    return convert(wish, folder)


def test_a_node_that_returns_while_all_meet_waits_for_those_that_wait(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It would take them for dead, since they do not answer yet, and enter beside them."""
    config = returning(tmp_path)
    inside: list[str] = []

    async def enter(name: str, coordinator: locks.Coordinator) -> None:
        async with coordinator.lock("x"):
            inside.append(name)
            assert inside == [name]
            await passing(20.0)
            inside.remove(name)

    async def main() -> None:
        async with contextlib.AsyncExitStack() as stack:
            first = join(config, node="a")
            await first.open()
            second = await stack.enter_async_context(join(config, node="b"))
            await passing(LEASE / 2)
            await first.close()
            again = await stack.enter_async_context(join(config, node="a"))
            entering = [asyncio.ensure_future(enter("a", again))]
            await passing(10.0)
            third = await stack.enter_async_context(join(config, node="c"))
            entering += [
                asyncio.ensure_future(enter(name, one))
                for name, one in (("b", second), ("c", third))
            ]
            await asyncio.gather(*entering)
            assert [node_of(one).away for one in (again, second, third)] == [[], [], []]

    run(monkeypatch, main)


def test_others_do_not_wait_for_a_start_that_was_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Node c has met the second start of a, and b the first."""
    config = convert(document(3, algorithm="token-ring", variant="regenerating", lease=LEASE))

    async def main() -> None:
        async with contextlib.AsyncExitStack() as stack:
            first = join(config, node="a")
            await first.open()
            second = await stack.enter_async_context(join(config, node="b"))
            await passing(LEASE / 2)
            await first.close()
            again = join(config, node="a")
            opening = asyncio.ensure_future(again.open())
            third = await stack.enter_async_context(join(config, node="c"))
            await passing(20 * LEASE)
            async with asyncio.timeout(20.0):
                async with third.lock("x"):
                    pass
                async with second.lock("x"):
                    pass
            with pytest.raises(coterie.Unavailable, match="node 'a' was restarted"):
                await opening

    run(monkeypatch, main)


def test_a_node_that_comes_late_is_not_shown_as_away(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = returning(tmp_path)

    async def main() -> None:
        for name in "abc":
            async with join(config, node=name):  # the first starts of all are over
                pass
        async with join(config, node="a") as first, join(config, node="b") as second:
            await passing(3 * LEASE)
            assert [node_of(one).away for one in (first, second)] == [["c"], ["c"]]
            async with join(config, node="c") as third:
                await passing(3 * LEASE)
                assert [node_of(one).away for one in (first, second, third)] == [[], [], []]

    run(monkeypatch, main)


def test_if_all_first_starts_crash_while_they_meet_nothing_remembers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The limit: a second start takes itself for a return, and begins though c was never started."""
    config = returning(tmp_path)

    async def main() -> None:
        async with join(config, node="a"), join(config, node="b"):
            await passing(LEASE / 2)
        async with join(config, node="a") as first, join(config, node="b") as second:
            await passing(3 * LEASE)
            assert [node_of(one).is_ready for one in (first, second)] == [True, True]

    run(monkeypatch, main)
