"""Not a peer but a yardstick: a table of queues in one asyncio process, one round trip a call.

No replication, no lease, no disk: the least that a lock over a socket can cost in pure Python.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from benchmarks.locks.machine import HOST, Server, free_ports, is_listening, wait_until
from benchmarks.locks.peers.base import Peer

SERVER = Path(__file__).with_name("table_server.py")


class Table(Peer):
    label = "a bare table in one asyncio process"
    servers_label = "1"
    on_disk = "nothing"
    port: int

    def start(self, folder: Path) -> None:
        (self.port,) = free_ports(1)
        self.servers = [Server([sys.executable, str(SERVER), HOST, str(self.port)], folder)]
        wait_until(lambda: is_listening(self.port), "the table")

    def settings(self, *, surviving: bool = False) -> dict[str, Any]:
        return {"port": self.port}

    async def connect(self, settings: dict[str, Any], *, shared: bool) -> TableClient:
        loop = asyncio.get_running_loop()
        _, client = await loop.create_connection(TableClient, HOST, settings["port"])
        return client


class TableClient(asyncio.Protocol):
    """One connection, one call at a time."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._answer.set_result(None)

    def _call(self, line: bytes) -> asyncio.Future[None]:
        self._answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._transport.write(line)
        return self._answer

    async def acquire(self, name: str, timeout: float | None) -> str:  # noqa: ASYNC109 - as peers
        await self._call(b"A%s\n" % name.encode())
        return name

    async def release(self, held: str) -> None:
        await self._call(b"R%s\n" % held.encode())
