"""Deadlocks between programs far from the nodes: links through proxies that delay, in virtual time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from coterie.locks.leases.questions import RoundTrips
from tests.cluster.proxy import network
from tests.cluster.test_deadlock_cluster import Program
from tests.cluster.virtual_time import run

if TYPE_CHECKING:
    from collections.abc import Sequence

LEASE = 20.0  # far above the longest round trip, so that no node is taken for dead
BOUND_SECONDS = 40.0  # of virtual time


async def ring(one_way: Sequence[float]) -> list[str]:
    """Let programs at these distances, in seconds one way, wait for each other; return what they say."""
    async with network(lease=LEASE) as made:
        programs = []
        for seconds in one_way:
            connected = await made.program()
            for proxy in connected.proxies:
                proxy.delay = dict.fromkeys(proxy.delay, seconds)
            programs.append(Program(connected.coordinator))
        for number, program in enumerate(programs):
            await program.hold(f"lock-{number}")
        for number, program in enumerate(programs):
            program.want(f"lock-{(number + 1) % len(programs)}")
        tasks = [program.task for program in programs]
        await asyncio.wait(tasks, timeout=BOUND_SECONDS)
        said = [task.result() if task.done() else "waits" for task in tasks]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        return said


@pytest.mark.parametrize("milliseconds", [1, 60, 150, 400])
def test_crossed_locks_are_found_however_far_the_nodes_are(
    milliseconds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = run(monkeypatch, lambda: ring([milliseconds / 1000] * 2))
    assert said.count("gave way in a cycle of 2") == 1


@pytest.mark.parametrize("place", range(3))
def test_quick_answers_of_near_programs_do_not_shorten_the_wait_for_those_of_a_distant_one(
    place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_way = [0.001, 0.001, 0.001]
    one_way[place] = 0.4
    said = run(monkeypatch, lambda: ring(one_way))
    assert said.count("gave way in a cycle of 3") == 1


def test_a_long_round_trip_is_remembered_for_minutes_and_not_for_good() -> None:
    round_trips = RoundTrips()
    round_trips.note(1.6, now=0.0)
    for now in range(1, 61):
        round_trips.note(0.01, now=float(now))
    assert round_trips.latest == 0.01
    assert round_trips.longest(60.0) == pytest.approx(0.8)
    assert round_trips.longest(600.0) < 0.01
