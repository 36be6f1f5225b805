"""Redis, one server, with the lock of redis-py: SET NX PX, and a script that deletes it.

Whoever waits polls: by default every 100 ms, which is measured, and so is every 5 ms.
"""

from __future__ import annotations

import importlib
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.locks.machine import HOST, Server, ask, free_ports, wait_until
from benchmarks.locks.peers.base import LEASE_SECONDS, Need, Peer
from benchmarks.locks.programs import find_program

if TYPE_CHECKING:
    from pathlib import Path

NEEDS = (
    Need("redis-server", program=find_program("redis-server")),
    Need("redis", module="redis"),
)


def start_servers(folder: Path, ports: list[int]) -> list[Server]:
    """Start one on each port, with nothing kept on disk."""
    program = find_program("redis-server")
    options = ["--bind", HOST, "--daemonize", "no", "--save", "", "--appendonly", "no"]
    servers = [
        Server([program, *options, "--port", str(port), "--dir", str(folder)], folder)
        for port in ports
    ]
    for port in ports:
        wait_until(partial(_pongs, port), "Redis")
    return servers


def _pongs(port: int) -> bool:
    return ask(port, b"PING\r\n") == b"+PONG\r\n"


class Redis(Peer):
    label = "Redis, redis-py's lock"
    servers_label = "1"
    on_disk = "nothing"
    needs = NEEDS
    polling_seconds = 0.1  # the default of redis-py
    port: int
    _shared: Any = None

    def start(self, folder: Path) -> None:
        (self.port,) = free_ports(1)
        self.servers = start_servers(folder, [self.port])

    def settings(self, *, surviving: bool = False) -> dict[str, Any]:
        return {"port": self.port}

    async def connect(self, settings: dict[str, Any], *, shared: bool) -> RedisClient:
        library = importlib.import_module("redis.asyncio")
        if not shared or self._shared is None:
            self._shared = library.Redis(host=HOST, port=settings["port"])
            await self._shared.ping()
        return RedisClient(self._shared, self.polling_seconds)


class RedisPolled(Redis):
    label = "Redis, redis-py's lock, polled every 5 ms"
    polling_seconds = 0.005


class RedisClient:
    def __init__(self, connection: Any, polling_seconds: float) -> None:
        self._connection = connection
        self._polling_seconds = polling_seconds

    async def acquire(self, name: str, timeout: float | None) -> Any:  # noqa: ASYNC109 - as peers
        lock = self._connection.lock(
            name,
            timeout=LEASE_SECONDS,
            sleep=self._polling_seconds,
            blocking_timeout=timeout,
            thread_local=False,
        )
        if not await lock.acquire():
            raise TimeoutError(name)
        return lock

    async def release(self, held: Any) -> None:
        await held.release()
