"""A node that is removed and added again with the same disk: another seat, and the same process."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from coterie import locks
from coterie.cluster.client.engine import ClusterEngine
from coterie.locks.internals import engine_of
from tests.cluster.changed_cluster import fleet
from tests.cluster.local_cluster import until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("open_and_guarded")


def test_a_program_has_one_connection_to_it_and_its_votes_count(tmp_path: Path) -> None:
    """Two connections of one participant, for the old and the new seat, would end each other."""

    async def main() -> None:
        async with fleet(tmp_path) as made, locks.connect(made.url) as program:
            engine = engine_of(program)
            assert isinstance(engine, ClusterEngine)
            host = engine.group.supply
            async with program.lock("kept") as held:
                assert await made.command("remove", "c", "--yes") == 0
                assert await made.command("add", made.at("c")) == 0
                await until(lambda: host.participant.configuration.number == 3, "the move")
                assert sorted(host.links) == [1, 2, 4]
                await made.stop("a")
                async with program.lock("other"):
                    assert held.valid

    asyncio.run(main())


@pytest.mark.parametrize("is_away", [False, True])
def test_it_is_added_again_although_the_cluster_was_changed_since(
    tmp_path: Path, *, is_away: bool
) -> None:
    """Nobody told it of the later changes, nor of its removal if it was away."""

    async def main() -> None:
        async with fleet(tmp_path) as made, locks.connect(made.url) as program:
            if is_away:
                await made.stop("c")
            assert await made.command("remove", "c", "--yes") == 0
            assert await made.command("set", "lease=2s") == 0
            if is_away:
                await made.start("c")
            async with program.lock("kept") as held:
                assert await made.command("add", made.at("c")) == 0
                assert made.nodes["c"].voting.votes
                await made.stop("a")
                async with program.lock("other"):
                    assert held.valid

    asyncio.run(main())
