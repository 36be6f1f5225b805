"""Jobs that run once per period, on a real server of each engine that keeps values."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

import coterie
import coterie.sync
from coterie.lab.servers.supplier import FAILS_OVER, RESTARTS, VALUES
from coterie.locks.once.report import look, order_again
from coterie.testing import WallClock
from tests.engines.conformance.test_conformance import need, programs, waiting
from tests.locks.memory import in_loop

if TYPE_CHECKING:
    from coterie.lab.servers.supplier import Supplier


@in_loop
async def test_of_all_that_come_one_runs_a_period(supplier: Supplier, name: str) -> None:
    need(supplier, VALUES)
    ran: list[str] = []
    async with programs(supplier, 3) as machines:

        async def come(machine: coterie.Coordinator) -> None:
            @machine.once(name, every="1d", at="02:00")
            async def nightly(run: coterie.Run) -> None:
                ran.append(run.period)

            await nightly()

        with WallClock("2026-11-17 02:00") as clock:
            await asyncio.gather(*map(come, machines))
            await come(machines[0])
            clock.move("1d")
            await asyncio.gather(*map(come, machines))
            clock.move(-3600)
            await come(machines[1])
    assert ran == ["2026-11-17", "2026-11-18"]


@in_loop
async def test_the_next_takes_over_what_failed_and_what_was_interrupted(
    supplier: Supplier, name: str
) -> None:
    need(supplier, VALUES)
    async with programs(supplier, 1) as (bob,):
        async with coterie.connect(supplier.url()) as ann:
            first = await ann.once(name, "1", attempts=3).acquire()
            assert first is not None
            taking_over = asyncio.create_task(bob.once(name, "1", attempts=3).acquire())
            await waiting(ann, name, 1)
            with pytest.raises(coterie.NotDue, match="is being run by"):
                await bob.once(name, "1").__aenter__()
            await first.fail("no disk")
            second = await taking_over
            assert second is not None
            await second.fail("no disk")
            third = await ann.once(name, "1", attempts=3).acquire()
            assert third is not None
            # This program ends in the middle of its run.
        assert await bob.once(name, "1", attempts=3).acquire() is None
        (view,) = await look(bob, name)
        assert view.condition == "interrupted"
        assert [run.attempt for run in view.record.runs] == [1, 2, 3]
        await order_again(bob, name, 5.0)
        async with bob.once(name, "1") as run:
            assert run.token > third.token
        assert name in [each.name for each in await look(bob)]
        assert (await look(bob, name))[0].condition == "done"


def test_threads_run_once_too(supplier: Supplier, name: str) -> None:
    need(supplier, VALUES)
    with coterie.sync.connect(supplier.url()) as c:

        @c.once(name, "2026-11-17")
        def nightly(run: coterie.sync.Run) -> int:
            return run.attempt

        assert [nightly(), nightly()] == [1, None]


@in_loop
async def test_a_server_that_is_killed_remembers_what_has_run(
    supplier: Supplier, name: str
) -> None:
    """But for one that keeps values in its memory alone: there a period may run again."""
    need(supplier, VALUES)
    if not {RESTARTS, FAILS_OVER} & supplier.can:
        pytest.skip(f"{supplier.name}: there is no server")
    for is_due in (True, supplier.name == "valkey"):
        async with programs(supplier, 1) as (c,):
            run = await c.once(name, "2026-11-17").acquire()
            assert (run is not None) == is_due
            if run is not None:
                await run.finish()
        supplier.kill()
        supplier.start()


CLOCKED = ("postgresql", "mariadb", "valkey", "nats", "s3", "zookeeper")


@pytest.mark.parametrize(("ahead", "says"), [(0, ""), (3600, "ahead of"), (-3600, "behind")])
@in_loop
async def test_a_clock_that_is_not_that_of_the_server_is_warned_of(
    supplier: Supplier, name: str, ahead: float, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    need(supplier, VALUES)
    async with programs(supplier, 1) as (c,):
        with WallClock() as clock:
            clock.move(ahead)
            async with c.once(name, every="1d"):
                pass
    logged = [each.getMessage() for each in caplog.records if each.name == "coterie.locks"]
    assert len(logged) == (supplier.name in CLOCKED and bool(says))
    assert all(f" s {says}" in line and "slack of 5m" in line for line in logged)
