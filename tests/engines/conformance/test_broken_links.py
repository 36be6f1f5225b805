"""What every engine promises where connections break or fall silent, for threads and for tasks."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pytest

import coterie
import coterie.sync
from coterie.engines.queue import desk
from coterie.lab.servers.proxy import DOWN, UP, Proxy
from coterie.lab.servers.supplier import CUTS, FREES_AT_ONCE
from tests.engines.conformance.test_conformance import free, need, taken, waiting
from tests.locks.memory import in_loop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from coterie.lab.servers.supplier import Supplier

RESETS = 6
RENEWALS = 3  # each after a reset
WAITS = 6


@contextlib.asynccontextmanager
async def before(supplier: Supplier) -> AsyncIterator[Proxy]:
    """Put a proxy before the server."""
    need(supplier, CUTS)
    proxy = Proxy(supplier.port)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.stop()


@contextlib.asynccontextmanager
async def threaded(url: str) -> AsyncIterator[coterie.sync.Coordinator]:
    """Connect a program of threads, whose event loop is uvloop's where that is installed."""
    c = coterie.sync.connect(url)
    await asyncio.to_thread(c.open)
    try:
        yield c
    finally:
        await asyncio.to_thread(c.close)


def use(c: coterie.sync.Coordinator, lock: str) -> None:
    """Wait for a lock, and give it back."""
    held = c.lock(lock).acquire()
    assert held is not None
    with contextlib.suppress(coterie.LockLost):
        held.release()


@in_loop
async def test_resets_end_no_wait_of_a_thread(supplier: Supplier, name: str) -> None:
    """Nor do they leave an entry in the queue that belongs to no wait."""
    async with (
        before(supplier) as proxy,
        coterie.connect(supplier.url()) as bob,
        threaded(supplier.url(proxy.port)) as ann,
    ):
        for number in range(RESETS):
            lock = f"{name}.{number}"
            blocking = await taken(bob, lock)
            task = asyncio.create_task(asyncio.to_thread(use, ann, lock))
            await waiting(bob, lock, 1)
            proxy.reset()
            await blocking.release()
            await task
            await free(bob, lock)


@in_loop
async def test_resets_end_no_lease_of_a_thread(supplier: Supplier, name: str) -> None:
    if FREES_AT_ONCE in supplier.can:
        pytest.skip(f"{supplier.name}: a hold ends with its connection")
    async with before(supplier) as proxy, threaded(supplier.url(proxy.port)) as ann:
        held = await asyncio.to_thread(ann.lock(name).acquire)
        assert held is not None
        for _ in range(RENEWALS):
            proxy.reset()
            until = held.expires_at + 0.1
            while held.valid and held.expires_at < until:  # noqa: ASYNC110 - of renewals there are no events
                await asyncio.sleep(0.01)
            assert held.valid


@pytest.mark.parametrize("silent", [(UP, DOWN), (UP,)], ids=["both ways", "one way"])
@in_loop
async def test_silence_of_more_than_a_lease_forgets_no_wait(
    supplier: Supplier, name: str, silent: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls that are under way when the session is given up are not answered any more."""
    monkeypatch.setattr(desk, "GOODBYE_SECONDS_MAX", 0.01)  # less than the silence lasts then
    locks = [f"{name}.{number}" for number in range(WAITS)]
    async with (
        before(supplier) as proxy,
        coterie.connect(supplier.url()) as bob,
        coterie.connect(supplier.url(proxy.port)) as ann,
    ):
        held = await taken(ann, name)
        blocking = [await taken(bob, lock) for lock in locks]
        tasks = [asyncio.create_task(ann.lock(lock).acquire()) for lock in locks[::2]]
        for lock in locks[::2]:
            await waiting(bob, lock, 1)
        proxy.stall(*silent)
        for each in blocking[::2]:  # of which the program hears if silence is one way, and asks
            await each.release()
        tasks += [asyncio.create_task(ann.lock(lock).acquire()) for lock in locks[1::2]]
        await held.lost
        async with bob.lock(name):  # the lease is over at the server, too
            proxy.resume()
        for each in blocking[1::2]:
            await each.release()
        for got in (held, *[await task for task in tasks]):
            assert got is not None
            with contextlib.suppress(coterie.LockLost):
                await got.release()
        for lock in (name, *locks):
            await free(bob, lock)
