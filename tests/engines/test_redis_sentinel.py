"""Locks on a Redis that sentinels watch: programs follow the primary, and no hold outlasts a failover."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("redis")

import coterie
from coterie.errors import ConfigError, Unavailable, UsageError
from coterie.locks.status import find_source
from tests.engines.conformance.suppliers import Missing, leave_out
from tests.engines.watched_redis import WatchedRedis, watched
from tests.locks.memory import in_loop

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.real

# How the primary is when another server takes over.
HOW = ["is well"]
if os.environ.get("COTERIE_TEST_ENGINES") == "all":
    HOW += ["hangs", "killed"]


@pytest.fixture(scope="module")
def redises(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchedRedis]:
    try:
        with watched(tmp_path_factory.mktemp("watched")) as made:
            yield made
    except Missing as error:
        leave_out(error)


@pytest.fixture
def settled(redises: WatchedRedis) -> WatchedRedis:
    redises.settle()
    return redises


async def taken(c: coterie.Coordinator) -> coterie.Held:
    held = await c.lock("x").acquire()
    assert held is not None
    return held


@in_loop
async def test_a_holder_whose_primary_is_not_that_of_the_majority_loses_its_lock(
    redises: WatchedRedis,
) -> None:
    """It can reach the old primary, which takes its renewals; the sentinels have promoted another one."""
    async with coterie.connect(redises.url()) as ann:
        held = await taken(ann)
        for sentinel in redises.sentinels[1:]:
            sentinel.signal(signal.SIGSTOP)  # no majority speaks for the primary any more
        await held.lost
        assert await asyncio.to_thread(redises.ask, redises.port, "PING")
        with pytest.raises(coterie.LockLost):
            await held.release()
        with pytest.raises(Unavailable, match="no primary is named by a majority of the sentinels"):
            await coterie.connect(redises.url()).open()
        for sentinel in redises.sentinels[1:]:
            sentinel.signal(signal.SIGCONT)
        async with ann.lock("x") as again:
            assert again.token > held.token


@in_loop
async def test_what_the_sentinels_say_is_shown(redises: WatchedRedis) -> None:
    with pytest.raises(ConfigError, match="the sentinels know no primary 'other'"):
        await coterie.connect(redises.url(name="other")).open()
    source = await find_source(redises.url())
    status = await source.look()
    assert [node.name for node in status.nodes] == [f"127.0.0.1:{redises.port}"]
    assert status.nodes[0].facts["role"] == "primary"


def test_urls_that_name_no_primary_are_refused() -> None:
    with pytest.raises(UsageError, match="the name by which the sentinels know the primary"):
        coterie.connect("redis+sentinel://a:26379,b:26379")
    with pytest.raises(UsageError, match="number of a database"):
        coterie.connect("redis+sentinel://a/main/x")
    with pytest.raises(UsageError, match=r"redis\+sentinel://"):
        coterie.connect("redis://a,b")
    with contextlib.suppress(ConfigError):
        assert "main" in repr(coterie.connect("rediss+sentinel://me:secret@a,b/main/1"))


@pytest.mark.parametrize("how", HOW)
@in_loop
async def test_a_holder_is_told_of_a_failover_before_the_next_enters(
    settled: WatchedRedis, how: str
) -> None:
    redises = settled
    former = await asyncio.to_thread(redises.primary)
    async with coterie.connect(redises.url()) as ann, coterie.connect(redises.url()) as bob:
        held = await taken(ann)
        waiting = asyncio.create_task(taken(bob))
        await asyncio.sleep(redises.lease / 3)
        assert held.valid
        end = {"is well": redises.fail_over, "hangs": redises.suspend, "killed": redises.kill}
        await asyncio.to_thread(end[how])
        got = await waiting
        assert not held.valid
        assert got.token > held.token
        assert await asyncio.to_thread(redises.primary) != former
        with pytest.raises(coterie.LockLost):
            await held.release()
        await got.release()
        async with ann.lock("x") as again:
            assert again.token > got.token
    if how != "is well":
        await asyncio.to_thread(redises.resume if how == "hangs" else redises.start)
