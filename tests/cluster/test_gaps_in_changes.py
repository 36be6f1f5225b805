"""While the voters change, locks are granted as before: no entry waits for a timer.

Time is virtual, so what is counted is waiting alone, and neither work nor disks.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from typing import TYPE_CHECKING

from coterie import locks
from coterie.cluster.change.host import Change
from tests.cluster.test_stopped_changers import ground
from tests.cluster.virtual_time import passing, run

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

PAUSE_SECONDS = 0.002
WAIT_SECONDS = 0.01  # shorter than any timer of programs, voters and changers


def test_two_programs_take_a_lock_in_turns_without_a_gap_while_a_voter_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with contextlib.AsyncExitStack() as stack:
            made = await stack.enter_async_context(ground(tmp_path))
            loop, times = asyncio.get_running_loop(), []

            async def use(program: locks.Coordinator) -> None:
                while True:
                    async with program.lock("x"):
                        times.append(loop.time())
                    await asyncio.sleep(PAUSE_SECONDS)

            using = []
            for _ in range(2):
                program = await stack.enter_async_context(locks.connect(made.url))
                using.append(asyncio.create_task(use(program)))
            await passing(1)
            standing = await made.standing()
            goal = await made.replacement(standing)
            began = loop.time()
            await Change(standing.membership, standing.security, goal).run()
            ended = loop.time()
            await passing(1)
            for task in using:
                task.cancel()
            await asyncio.gather(*using, return_exceptions=True)
        gaps = [after - before for before, after in itertools.pairwise(times) if after > began]
        assert len(gaps) > 2 * (ended - began) / WAIT_SECONDS
        assert max(gaps) < WAIT_SECONDS

    run(monkeypatch, main)
