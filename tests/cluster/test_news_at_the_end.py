"""A program that ends while the voters change: it calls no new voter any more."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from coterie.algorithms.mutex.quorum.leased.frames import NewConfiguration
from coterie.cluster.change import plan
from coterie.cluster.client.engine import ClusterEngine
from coterie.cluster.url import make_visit
from tests.cluster.changed_cluster import fleet
from tests.locks.memory import in_loop

if TYPE_CHECKING:
    from pathlib import Path


def links() -> set[str]:
    return {task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("link ")}


@in_loop
async def test_a_configuration_that_comes_while_the_links_end_leaves_none_behind(
    tmp_path: Path,
) -> None:
    async with fleet(tmp_path) as made:
        await made.join("d")
        engine = ClusterEngine(make_visit(made.url))
        await engine.open()
        present = (await made.look()).configuration
        goal = plan.replace(present, "c", await made.newcomer("d"))
        supply = engine.groups[None].supply
        assert links() == {"link a", "link b", "link c"}
        closing = asyncio.ensure_future(engine.close())
        await asyncio.sleep(0)  # the first of its links ends, and the others still listen
        supply.receive(supply.participant.home, NewConfiguration(plan.expected(present, goal)))
        await closing
        assert links() == set()
