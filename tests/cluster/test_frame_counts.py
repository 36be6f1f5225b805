"""What locks cost on real sockets, in frames: counted by the programs and by the voters."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.cluster.local_cluster import until
from tests.cluster.test_cluster_engine import World, in_world

if TYPE_CHECKING:
    import pytest

    from coterie import locks

VOTERS = 3


def sent(made: World) -> int:
    """Count the frames with lock messages that programs and voters have sent each other."""
    requests = sum(made.host(program).sent["Data"] for program in range(len(made.programs)))
    return requests + sum(node.voting.programs.sent["Reply"] for node in made.nodes)


def everything_arrived(made: World) -> bool:
    parts = [made.host(program).participant for program in range(len(made.programs))]
    return not any(uplink.unacked for part in parts for uplink in part.sessions.uplinks)


def test_a_fresh_lock_is_one_round_trip_with_each_voter() -> None:
    async def test(made: World) -> None:
        before = sent(made)
        async with made.programs[0].lock("x"):
            assert made.host().sent == {"Data": VOTERS}, "nothing but one request for each"
            await until(lambda: made.host().received["Reply"] == VOTERS, "all grants")
            assert sent(made) - before == 2 * VOTERS
            assert [node.voting.received["Data"] for node in made.nodes] == [1] * VOTERS

    in_world(test, lease=20.0)


def test_taking_it_again_sends_nothing_at_all() -> None:
    async def test(made: World) -> None:
        lock = made.programs[0].lock("x")
        async with lock:
            await until(lambda: made.host().received["Reply"] == VOTERS, "all grants")
        before = sent(made)
        for _ in range(1000):
            async with lock:
                pass
        assert sent(made) == before
        assert made.host().sent == {"Data": VOTERS}

    in_world(test, lease=20.0)


def test_another_task_of_the_same_program_costs_nothing_either() -> None:
    async def test(made: World) -> None:
        async def work() -> None:
            for _ in range(20):
                async with made.programs[0].lock("x"):
                    await asyncio.sleep(0)

        async with made.programs[0].lock("x"):
            await until(lambda: made.host().received["Reply"] == VOTERS, "all grants")
        before = sent(made)
        await asyncio.gather(*(work() for _ in range(4)))
        assert sent(made) == before

    in_world(test, lease=20.0)


def test_a_lock_that_another_program_keeps_costs_two_round_trips_at_most() -> None:
    """Request, Inquire, Release and Grant; a voter that hears of the release first saves its part."""

    async def test(made: World) -> None:
        for program in made.programs:  # sessions are open, and nothing is under way
            async with program.lock("warm-up"):
                pass
        async with made.programs[0].lock("x"):
            pass
        await until(lambda: everything_arrived(made), "the frames under way")
        before = sent(made)
        async with made.programs[1].lock("x"):
            await until(lambda: everything_arrived(made), "the frames under way")
            assert 3 * VOTERS < sent(made) - before <= 4 * VOTERS

    in_world(test, programs=2, lease=4.0)


def test_under_load_an_entry_costs_two_frames_with_each_voter() -> None:
    """Release and the next Request together, and Grant; few votes are displaced, which cost more."""
    rounds, programs = 50, 4

    async def work(program: locks.Coordinator) -> None:
        for _ in range(rounds):
            async with program.lock("x"):
                await asyncio.sleep(0)

    async def test(made: World) -> None:
        before = sent(made)
        await asyncio.gather(*map(work, made.programs))
        cost = (sent(made) - before) / (rounds * programs)
        assert 1.5 * VOTERS <= cost < 3 * VOTERS

    in_world(test, programs=programs, lease=20.0)


def test_tasks_that_queue_in_one_program_share_its_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who was waiting when the lock came follows without a frame, though another program waits.

    In virtual time, since turns in a row end after some milliseconds: a busy machine must not cost frames.
    """
    rounds, tasks = 20, 4

    async def test(made: World) -> None:
        served: list[int] = []

        async def work(index: int) -> None:
            for _ in range(rounds):
                async with made.programs[index].lock("x"):
                    served.append(index)
                    await asyncio.sleep(0)

        before = sent(made)
        await asyncio.gather(*(work(index) for index in (0, 1) for _ in range(tasks)))
        cost = (sent(made) - before) / len(served)
        assert cost < 2 * VOTERS
        middle = served[: len(served) // 2]
        assert abs(middle.count(0) - middle.count(1)) <= tasks, "turn and turn about"

    in_world(test, programs=2, virtual=monkeypatch, lease=20.0)
