"""Machines and processes: clocks, sleep, pauses, ends, and an event loop that behaves like asyncio's."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from typing import TYPE_CHECKING

import pytest

from coterie import system
from coterie.lab.stack.world import World
from tests.lab.stack.echo import run_alone

if TYPE_CHECKING:
    from coterie.lab.stack.world.machine import Process


def test_sleeping_takes_virtual_time_alone() -> None:
    began = time.monotonic()
    with World(1) as world:
        seen = []

        async def main(_: Process) -> None:
            seen.append((system.monotonic(), system.now(), system.wall()))
            await asyncio.sleep(3600)
            seen.append((system.monotonic(), system.now(), system.wall()))

        run_alone(world, main, seconds=4000)
        for before, after in zip(*seen, strict=True):
            assert 3600 <= after - before < 3600.02
    assert time.monotonic() - began < 60


def test_a_clock_runs_at_the_rate_of_its_machine() -> None:
    with World(1) as world:
        world.machine("m", rate=1.01)
        ended = []

        async def main(_: Process) -> None:
            await asyncio.sleep(101)
            ended.append(world.now)

        run_alone(world, main, seconds=200)
        assert ended[0] == pytest.approx(100, abs=0.02)


def test_a_sleeping_machine_stops_its_monotonic_clock_and_not_that_of_leases() -> None:
    with World(1) as world:
        seen = []

        async def main(process: Process) -> None:
            seen.append((system.monotonic(), system.now()))
            world.at(world.now + 1, process.machine.sleep, 100.0)
            await asyncio.sleep(5)
            seen.append((system.monotonic(), system.now()))

        run_alone(world, main, seconds=200)
        (monotonic, leases), (monotonic_after, leases_after) = seen
        assert monotonic_after - monotonic == pytest.approx(5, abs=0.02)
        assert leases_after - leases == pytest.approx(105, abs=0.02)


def test_a_paused_process_does_late_what_was_due() -> None:
    with World(1) as world:
        rang = []

        async def main(process: Process) -> None:
            asyncio.get_running_loop().call_later(1, lambda: rang.append(world.now))
            world.at(0.5, process.pause, 7.0)
            await asyncio.sleep(8)

        run_alone(world, main)
        assert rang[0] == pytest.approx(7, abs=0.02)


def test_a_killed_process_does_nothing_any_more_not_even_its_finally() -> None:
    done = []
    with World(1) as world:

        async def main(process: Process) -> None:
            try:
                await asyncio.sleep(10)
            finally:
                if process.is_alive:
                    done.append("alive")

        world.machine("m")
        process = world.start("m", "m", 1, main)
        world.run(1)
        process.die()
        world.run(100)
        assert not done
    assert not done


def test_each_process_has_its_own_identity_and_randomness() -> None:
    with World(7) as world:
        seen = []

        async def main(_: Process) -> None:
            key, drawn = system.secret(4), system.random().random()
            seen.append((system.pid(), system.host_name(), key, drawn, system.boot()))

        for name in ("x", "y"):
            world.machine(name)
            world.start(name, name, 1, main)
        world.start("x", "x2", 1, main)
        world.run(1)
    assert [(pid, host, boot) for pid, host, _, _, boot in seen] == [
        (101, "x", "x-boot-1"),
        (102, "y", "y-boot-1"),
        (103, "x", "x-boot-1"),
    ]
    assert len({key for _, _, key, _, _ in seen}) == 3
    assert system.pid() == os.getpid()
    assert system.host_name() == socket.gethostname()


def test_a_reboot_is_another_run_of_the_machine_with_a_clock_from_zero() -> None:
    with World(1) as world:
        seen = []

        async def main(_: Process) -> None:
            seen.append((system.boot(), system.now()))
            await asyncio.sleep(1000)

        machine = world.machine("m")
        world.start("m", "m", 1, main)
        world.run(5)
        machine.power_off()
        world.run(9)
        machine.power_on()
        world.start("m", "m", 2, main)
        world.run(10)
        assert [boot for boot, _ in seen] == ["m-boot-1", "m-boot-2"]
        assert seen[0][1] > 999
        assert seen[1][1] < 1


def test_an_error_that_nothing_catches_is_reported() -> None:
    with World(1) as world:

        async def main(_: Process) -> None:
            asyncio.get_running_loop().call_soon(lambda: 1 // 0)
            await asyncio.sleep(1)

        run_alone(world, main)
        assert len(world.errors) == 1
        assert "ZeroDivisionError" in world.errors[0]


def test_tasks_are_named_by_their_own_process() -> None:
    names = []

    async def main(_: Process) -> None:
        names.append(asyncio.create_task(asyncio.sleep(0)).get_name())

    for _ in range(2):
        with World(1) as world:
            run_alone(world, main)
    assert names[0] == names[1]
