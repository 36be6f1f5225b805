"""How long a circle of waits can last: until it is found, or until the lease of a dead member ends."""

from __future__ import annotations

import asyncio

import pytest

from coterie.locks.deadlocks.search import FIRST_PAUSE_SECONDS, SPREAD
from tests.cluster.test_deadlock_cluster import World, world
from tests.cluster.virtual_time import passing, run

PAUSE_SECONDS_MAX = FIRST_PAUSE_SECONDS * (1 + SPREAD)
PASSES_SECONDS_MAX = 0.01  # of virtual time, in which frames take next to none
LEASE = 5.0


async def crossed(made: World) -> float:
    """Let two programs wait for each other, the first for long; give the time of the last wait."""
    ann, bob = made.programs
    await ann.hold("a")
    await bob.hold("b")
    ann.want("b")
    await ann.waits()
    await passing(LEASE)
    bob.want("a")
    await bob.waits()
    return asyncio.get_running_loop().time()


@pytest.mark.parametrize(("victim", "pauses"), [("the last to wait", 1), ("the first to wait", 2)])
def test_it_is_found_within_two_first_pauses_of_the_last_wait(
    victim: str, pauses: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with world(2, lease=LEASE) as made:
            chosen = made.programs[0 if pauses == 2 else 1]
            # By a clock that runs ahead its request is the youngest.
            chosen.engine.waits.clock = lambda: 1 << 60
            began = await crossed(made)
            assert await chosen.task == "gave way in a cycle of 2", victim
            took = asyncio.get_running_loop().time() - began
            assert took <= pauses * PAUSE_SECONDS_MAX + PASSES_SECONDS_MAX
            await made.outcomes()

    run(monkeypatch, main)
