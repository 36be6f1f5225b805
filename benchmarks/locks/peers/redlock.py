"""Redlock as published, over three Redis servers that know nothing of each other.

SET NX PX at all of them at once, a majority within the validity time wins, everything else is taken
back and tried again after a random 1 to 10 ms. No fencing token comes of it.
"""

from __future__ import annotations

import asyncio
import importlib
import random
import time
import uuid
from typing import TYPE_CHECKING, Any

from benchmarks.locks.machine import HOST, free_ports
from benchmarks.locks.peers.base import LEASE_SECONDS, Peer
from benchmarks.locks.peers.redis_lock import NEEDS, start_servers

if TYPE_CHECKING:
    from pathlib import Path

SERVERS = 3
PATIENCE_SECONDS = 0.2  # with one server
DELETE_IF_OURS = (
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"
)


class Redlock(Peer):
    label = "Redlock over three Redis servers"
    servers_label = "2 of 3"
    on_disk = "nothing"
    needs = NEEDS
    has_failover = True
    ports: list[int]
    _shared: list[Any] | None = None

    def start(self, folder: Path) -> None:
        self.ports = free_ports(SERVERS)
        self.servers = start_servers(folder, self.ports)

    def settings(self, *, surviving: bool = False) -> dict[str, Any]:
        return {"ports": self.ports}

    async def connect(self, settings: dict[str, Any], *, shared: bool) -> RedlockClient:
        library = importlib.import_module("redis.asyncio")
        retry = importlib.import_module("redis.asyncio.retry").Retry
        backoff = importlib.import_module("redis.backoff").NoBackoff
        if not shared or self._shared is None:
            self._shared = [
                library.Redis(
                    host=HOST,
                    port=port,
                    socket_timeout=PATIENCE_SECONDS,
                    socket_connect_timeout=PATIENCE_SECONDS,
                    retry=retry(backoff(), 0),
                )
                for port in settings["ports"]
            ]
        return RedlockClient(self._shared)


class RedlockClient:
    def __init__(self, servers: list[Any]) -> None:
        self._servers = servers
        self._quorum = len(servers) // 2 + 1
        self._deletes = [server.register_script(DELETE_IF_OURS) for server in servers]

    async def acquire(self, name: str, timeout: float | None) -> tuple[str, str]:  # noqa: ASYNC109 - as peers
        began = time.monotonic()
        value = uuid.uuid4().hex
        while not await self._try(name, value):
            await self.release((name, value))
            if timeout is not None and time.monotonic() - began > timeout:
                raise TimeoutError(name)
            await asyncio.sleep(random.uniform(0.001, 0.010))
        return name, value

    async def _try(self, name: str, value: str) -> bool:
        began = time.monotonic()
        answers = await asyncio.gather(
            *(
                server.set(name, value, nx=True, px=LEASE_SECONDS * 1000)
                for server in self._servers
            ),
            return_exceptions=True,
        )
        drift = LEASE_SECONDS * 0.01 + 0.002
        is_valid = time.monotonic() - began + drift < LEASE_SECONDS
        return is_valid and sum(answer is True for answer in answers) >= self._quorum

    async def release(self, held: tuple[str, str]) -> None:
        name, value = held
        await asyncio.gather(
            *(delete(keys=[name], args=[value]) for delete in self._deletes),
            return_exceptions=True,
        )
