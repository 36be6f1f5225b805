"""Redis and Valkey whose time of day is moved, and which forget what they had in memory."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pytest

import coterie
from coterie.lab.servers.child import ServerMissing
from coterie.lab.servers.proxy import Proxy
from coterie.lab.servers.valkey import MovedValkey, ValkeySupplier, moved_valkey
from tests.engines.conformance.suppliers import leave_out
from tests.locks.memory import in_loop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

HOUR = 3600


@pytest.fixture
def server(tmp_path: Path) -> Iterator[MovedValkey]:
    try:
        with moved_valkey(tmp_path / "server") as made:
            made.lease = 1.0
            yield made
    except ServerMissing as error:
        leave_out(error)


@contextlib.asynccontextmanager
async def cut_off(server: ValkeySupplier) -> AsyncIterator[tuple[coterie.Held, Proxy]]:
    """Hold the lock x in a program that has just been cut off, and does not know it."""
    proxy = Proxy(server.port)
    await proxy.start()
    try:
        async with coterie.connect(server.url(proxy.port)) as program:
            held = await program.lock("x").acquire()
            assert held is not None
            proxy.stall()
            yield held, proxy
            proxy.cut()
            proxy.resume()
            with contextlib.suppress(coterie.LockLost):
                await held.release()
    finally:
        await proxy.stop()


@in_loop
async def test_a_step_of_the_clock_ends_no_lease(server: MovedValkey) -> None:
    async with coterie.connect(server.url()) as ann, coterie.connect(server.url()) as bob:
        held = await ann.lock("x").acquire()
        assert held is not None
        wait = asyncio.create_task(bob.lock("x").acquire(timeout=server.lease))
        while not await ann.waiters("x"):  # noqa: ASYNC110 - of other programs there are no events
            await asyncio.sleep(0.01)
        server.move(HOUR)
        other = await wait
        assert other is None, f"two holders: {held} ({held.valid}) and {other}"
        server.move(-HOUR)
        assert await bob.lock("x").acquire(timeout=server.lease / 2) is None
        await held.release()
        async with bob.lock("x") as next_one:
            assert next_one.token > held.token


@in_loop
async def test_a_step_after_a_restart_does_not_shorten_the_pause(server: MovedValkey) -> None:
    async with cut_off(server) as (held, _):
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)
        server.move(HOUR)
        async with coterie.connect(server.url()) as bob, bob.lock("x") as other:
            assert not held.valid
            assert other.token > held.token


@in_loop
async def test_numbers_grow_although_memory_and_time_are_lost(server: MovedValkey) -> None:
    async with coterie.connect(server.url()) as ann:
        async with ann.lock("x") as held:
            pass
        await asyncio.to_thread(server.kill)
        server.move(-HOUR)
        await asyncio.to_thread(server.start)
        async with ann.lock("x") as again:
            assert again.token > held.token


@in_loop
async def test_a_server_that_is_emptied_lets_no_program_in_before_leases_are_over(
    server: MovedValkey,
) -> None:
    async with cut_off(server) as (held, _):
        server.say("FLUSHALL")
        server.move(-HOUR)
        async with coterie.connect(server.url()) as bob, bob.lock("x"):
            assert not held.valid


@in_loop
async def test_a_program_that_died_is_found_by_those_that_do_not_wait(server: MovedValkey) -> None:
    """Each renewal shows the neighbours, and all of them together every session."""
    async with contextlib.AsyncExitStack() as stack:
        several = [await stack.enter_async_context(coterie.connect(server.url())) for _ in range(3)]
        async with cut_off(server):
            while await several[0].holders("x"):  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.05)
