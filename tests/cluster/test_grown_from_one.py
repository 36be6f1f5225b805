"""A cluster that has grown from one node, whose file names no other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import coterie
from coterie.cluster.node import Node
from tests.cluster.changed_cluster import fleet
from tests.locks.memory import in_loop

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("open_and_guarded")

LEASE = 0.5


@in_loop
async def test_the_first_node_without_its_disk_is_no_cluster_of_its_own(tmp_path: Path) -> None:
    async with fleet(tmp_path, 1, lease=LEASE) as made:
        for name in "bc":
            await made.join(name)
        assert await made.command("add", made.at("b"), made.at("c")) == 0
        async with coterie.connect(made.url_at("b")) as one, one.lock("x") as held:
            await made.stop("a", wipe=True)
            made.nodes["a"] = Node(made.config, "a")
            await made.nodes["a"].start()
            async with coterie.connect(made.url_at("a")) as two:
                with pytest.raises(coterie.NoQuorum, match="no other node of its file"):
                    async with two.lock("x", timeout=4 * LEASE):
                        pass
            assert held.valid
