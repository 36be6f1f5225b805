"""Programs that vote: three coordinators that are the cluster themselves."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pytest

import coterie
from coterie.cluster.client.engine import ClusterEngine
from coterie.cluster.client.metrics import participant_metrics
from coterie.cluster.join import join
from coterie.cluster.membership.config import convert
from coterie.locks.internals import engine_of
from coterie.telemetry.text import render
from tests.cluster.local_cluster import document

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("open_and_guarded")


def test_voting_programs_share_locks_without_any_other_node() -> None:
    config = convert(document(3))

    async def main() -> list[int]:
        tokens = []
        async with contextlib.AsyncExitStack() as stack:
            members = [
                await stack.enter_async_context(join(config, node=name, new_cluster=True))
                for name in "abc"
            ]
            for member in members * 2:
                async with member.lock("x") as held:
                    tokens.append(held.token)
        return tokens

    tokens = asyncio.run(main())
    assert tokens == sorted(set(tokens))


def test_a_cluster_of_one_program_needs_no_connection() -> None:
    async def main() -> None:
        async with join(document(1), node="a", new_cluster=True) as alone:
            async with alone.lock("x") as held:
                assert held.valid
                assert (await alone.holders("x"))[0].token == held.token
            engine = engine_of(alone)
            assert isinstance(engine, ClusterEngine)
            figures = render(participant_metrics(engine.group, engine.waits))
            assert "coterie_acquisitions_total 1\n" in figures
            assert 'coterie_link_up{node="a"} 1\n' in figures

    asyncio.run(main())


def test_a_program_that_ends_in_good_order_goes_on_after_its_restart(tmp_path: Path) -> None:
    config = convert(document(1, data="data", lease=10), tmp_path)

    async def once(*, new: bool) -> int:
        async with (
            join(config, node="a", new_cluster=new) as alone,
            alone.lock("x", timeout=5) as held,
        ):
            return held.token

    first = asyncio.run(once(new=True))
    second = asyncio.run(once(new=False))
    assert second > first, "and it did not abstain for a lease of ten seconds"


def test_an_unknown_node_is_refused() -> None:
    with pytest.raises(coterie.ConfigError, match="no node is called 'd'; the nodes are: a, b, c"):
        join(document(3), node="d")
