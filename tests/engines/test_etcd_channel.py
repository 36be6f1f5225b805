"""The connection to etcd over a network that takes its time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import coterie
from tests.cli.engine_servers import engine_server
from tests.cluster.proxy import DOWN, UP, Proxy

if TYPE_CHECKING:
    from pathlib import Path


def test_a_member_on_another_continent_can_be_connected_to(tmp_path: Path) -> None:
    async def take(port: int) -> int:
        proxy = Proxy(port)
        await proxy.start()
        proxy.delay = {UP: 0.1, DOWN: 0.1}
        try:
            async with coterie.connect(f"etcd://127.0.0.1:{proxy.port}") as c, c.lock("x") as held:
                return held.token
        finally:
            await proxy.stop()

    with engine_server("etcd", tmp_path) as server:
        assert asyncio.run(take(server.port))
