"""New voters that a program cannot reach: it counts by the old ones, as long as that is possible."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from coterie import locks
from coterie.cluster.change import plan
from coterie.cluster.change.host import Change
from coterie.cluster.change.plan import Newcomer
from coterie.cluster.change.survey import look
from coterie.cluster.client.engine import ClusterEngine
from coterie.cluster.membership.config import convert
from coterie.cluster.membership.ports import free_ports
from coterie.cluster.url import make_visit
from coterie.locks.internals import engine_of
from tests.cluster.local_cluster import document, running, until, url_of
from tests.cluster.virtual_time import run

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_locks_are_granted_in_a_step_whose_new_voters_have_died_until_it_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They answered before the first step, so that it was begun."""
    config = convert(document(3, data="data"), tmp_path)
    newcomers = [
        Newcomer(name, f"127.0.0.1:{port}", f"disk of {name}")
        for name, port in zip("def", free_ports(3), strict=True)
    ]

    async def main() -> None:
        async with running(config) as nodes, locks.connect(url_of(config)) as program:
            await until(lambda: all(node.voting.voter.number for node in nodes), "the first number")
            entries = 0

            async def use() -> None:
                nonlocal entries
                while True:
                    async with program.lock("busy"):
                        entries += 1
                    await asyncio.sleep(0.01)

            using = asyncio.create_task(use())
            visit = make_visit(url_of(config))
            standing = await look(visit)
            goal = plan.add(standing.configuration, newcomers)
            change = asyncio.create_task(Change(standing.membership, standing.security, goal).run())
            await until(lambda: all(node.voting.voter.number == 2 for node in nodes), "the step")
            before = entries
            await until(lambda: entries > before + 100, "a hundred entries")
            change.cancel()
            await asyncio.gather(change, return_exceptions=True)

            standing = await look(visit)
            goal = plan.abort(standing.configuration)
            await Change(standing.membership, standing.security, goal).run()
            before = entries
            await until(lambda: entries > before, "an entry")
            engine = engine_of(program)
            assert isinstance(engine, ClusterEngine)
            host = engine.group.supply
            await until(lambda: host.participant.configuration.number == 3, "the program to move")
            assert sorted(host.links) == [1, 2, 3]
            using.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await using

    run(monkeypatch, main)
