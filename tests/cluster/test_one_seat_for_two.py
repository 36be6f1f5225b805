"""Two changes at once that would give the same seat to different nodes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from coterie.cluster.change import plan
from coterie.cluster.change.host import Change
from coterie.errors import ChangeConflict
from tests.cluster.changed_cluster import fleet
from tests.cluster.local_cluster import PATIENCE_SECONDS
from tests.locks.memory import in_loop

if TYPE_CHECKING:
    from pathlib import Path


@in_loop
async def test_the_one_that_comes_second_brings_the_first_to_its_end(tmp_path: Path) -> None:
    """The new voter of the first is needed for that, and is another node than its own."""
    async with fleet(tmp_path, 1, lease=1.0) as made:
        for name in "bc":
            await made.join(name)
        standing = await made.look()
        changes = [
            Change(
                standing.membership,
                standing.security,
                plan.add(standing.configuration, [await made.newcomer(name)]),
            )
            for name in "bc"
        ]
        async with asyncio.timeout(PATIENCE_SECONDS):
            ends = await asyncio.gather(*(each.run() for each in changes), return_exceptions=True)
        assert [type(end) for end in ends].count(ChangeConflict) == 1
        assert (await made.look()).configuration.number == 2
