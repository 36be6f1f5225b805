"""Redis in memory: both keys are watched, and the writes refused if another client has changed one."""

from __future__ import annotations

import asyncio
import importlib
from typing import TYPE_CHECKING, Any

from benchmarks.locks.machine import HOST, Server, free_ports
from benchmarks.locks.peers.redis_lock import NEEDS, start_servers
from benchmarks.transactions.peers.base import TaskPeer
from benchmarks.transactions.workload import ACCOUNTS, DEPOSIT

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.transactions.workload import Transfer

KEYS = [f"account/{number:04}" for number in range(ACCOUNTS)]


class RedisWatch(TaskPeer):
    needs = NEEDS
    port: int
    _process: Server

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._connections: list[Any] = []

    async def open(self, folder: Path) -> None:
        (self.port,) = free_ports(1)
        (self._process,) = start_servers(folder, [self.port])
        self.server = self._process.process.pid
        await self.connection().mset(dict.fromkeys(KEYS, DEPOSIT))

    def connection(self) -> Any:
        library = importlib.import_module("redis.asyncio")
        connection = library.Redis(host=HOST, port=self.port, single_connection_client=True)
        self._connections.append(connection)
        return connection

    async def connect(self) -> RedisClient:
        connection = self.connection()
        await connection.ping()
        return RedisClient(connection)

    async def balances(self) -> list[int]:
        return [int(balance) for balance in await self.connection().mget(KEYS)]

    async def close(self) -> None:
        for connection in self._connections:
            await connection.aclose()
        self._process.stop()


class RedisClient:
    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._conflict = importlib.import_module("redis.exceptions").WatchError

    async def transfer(self, transfer: Transfer, pause: float) -> int:
        attempts = 1
        while not await self._attempt(transfer, pause):
            attempts += 1
            await asyncio.sleep(0)
        return attempts

    async def _attempt(self, transfer: Transfer, pause: float) -> bool:
        giver, taker = KEYS[transfer.giver], KEYS[transfer.taker]
        async with self._connection.pipeline(transaction=True) as pipeline:
            await pipeline.watch(giver, taker)
            given, taken = await pipeline.mget(giver, taker)
            if pause:
                await asyncio.sleep(pause)
            pipeline.multi()
            pipeline.set(giver, int(given) - transfer.amount)
            pipeline.set(taker, int(taken) + transfer.amount)
            try:
                await pipeline.execute()
            except self._conflict:
                return False
            return True
