"""Servers whose time of day is moved while locks are held, and goes back over a restart; Valkey has tests of its own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

import coterie
from coterie.lab.servers.child import ServerMissing
from coterie.lab.servers.moved_clock import MovedClock, moved_clock
from coterie.lab.servers.postgresql import postgresql
from tests.engines.conformance.suppliers import leave_out, mariadb
from tests.engines.conformance.test_conformance import taken, waiting
from tests.locks.memory import in_loop

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from coterie.lab.servers.supplier import Supplier

HOUR = 3600


@pytest.fixture(params=[postgresql, mariadb])
def moved(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Supplier, MovedClock]]:
    try:
        with moved_clock() as clock, request.param(tmp_path, *clock.prefix) as supplier:
            supplier.lease = 1.0
            yield supplier, clock
    except ServerMissing as error:
        leave_out(error)


@in_loop
async def test_no_step_of_the_clock_ends_a_lease_or_makes_one_longer(
    moved: tuple[Supplier, MovedClock],
) -> None:
    supplier, clock = moved
    async with coterie.connect(supplier.url()) as ann, coterie.connect(supplier.url()) as bob:
        held = await taken(ann, "x")
        wait = asyncio.create_task(bob.lock("x").acquire())
        await waiting(ann, "x", 1)
        for step in (HOUR, -HOUR):
            clock.move(step)
            await asyncio.sleep(supplier.lease)
            assert held.valid
            assert not wait.done()
        await held.release()
        got = await wait
        assert got is not None
        assert got.token > held.token
        await got.release()
        # As if it had been an hour later until now; what is waited for is a lease all the same.
        await asyncio.to_thread(supplier.kill)
        clock.move(-2 * HOUR)
        await asyncio.to_thread(supplier.start)
        async with ann.lock("x") as again:
            assert again.token > got.token
