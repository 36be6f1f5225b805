"""What was acknowledged is there after all nodes were killed: real processes, real disks."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import coterie
from tests.cluster.local_cluster import processes

if TYPE_CHECKING:
    from pathlib import Path

SMALL, LARGE = b"row 4711", b"." * 50_000


async def write(url: str) -> dict[str, coterie.Value | None]:
    """Write, replace and delete values; return them as they are then."""
    async with coterie.connect(url) as c:
        for name, data in (("small", SMALL), ("large", LARGE), ("gone", b"once")):
            async with c.lock(name) as held:
                await held.write(b"before")
                await held.write(data)
        async with c.lock("gone") as held:
            await held.delete()
        return await read(c)


async def read(c: coterie.Coordinator) -> dict[str, coterie.Value | None]:
    return {name: await c.read(name) for name in ("small", "large", "gone", "never")}


async def read_and_take(url: str) -> dict[str, coterie.Value | None]:
    async with coterie.connect(url) as c:
        found = await read(c)
        async with c.lock("small") as held:
            assert await held.read() == found["small"]
            assert found["small"] is not None
            assert held.token > found["small"].version.token, "it grows over the kill as well"
        return found


def test_values_outlive_a_kill_of_all_nodes(tmp_path: Path) -> None:
    with processes(tmp_path) as cluster:
        cluster.wait_for_number(1)
        before = asyncio.run(write(cluster.url))
        assert [each and each.data for each in before.values()] == [SMALL, LARGE, None, None]
        for name in ("a", "b", "c"):
            cluster.kill(name)
        cluster.start("a", "b", "c")
        cluster.wait(lambda state: state.health == 0, "all nodes to vote again")
        assert asyncio.run(read_and_take(cluster.url)) == before
