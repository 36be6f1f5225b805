"""PostgreSQL, serializable: by asyncpg with a retry loop, and by our store on the same server."""

from __future__ import annotations

import asyncio
import importlib
from typing import TYPE_CHECKING, Any

from benchmarks.locks.machine import HOST
from benchmarks.locks.peers.postgres import Postgres
from benchmarks.transactions.peers.base import TaskPeer
from benchmarks.transactions.peers.ours import Ours
from benchmarks.transactions.workload import ACCOUNTS, DEPOSIT
from coterie.transactions import Store

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.transactions.workload import Transfer

MAKE = "create table bank (account int primary key, balance bigint not null)"
FILL = "insert into bank select account, $2 from generate_series(0, $1 - 1) account"
READ = "select balance from bank where account = $1 for update"
WRITE = "update bank set balance = $2 where account = $1"


def start(host: Postgres, folder: Path) -> int:
    """Start a server, and return its process."""
    folder.chmod(0o755)  # it may run as another user
    host.start(folder)
    return host.servers[0].process.pid


class Raw(TaskPeer):
    """A connection for each client, as a program would use asyncpg."""

    needs = Postgres.needs

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._host = Postgres()
        self._connections: list[Any] = []

    async def open(self, folder: Path) -> None:
        self.server = start(self._host, folder)
        connection = await self.connection()
        await connection.execute(MAKE)
        await connection.execute(FILL, ACCOUNTS, DEPOSIT)

    async def connection(self) -> Any:
        library = importlib.import_module("asyncpg")
        settings = self._host.settings()
        made = await library.connect(host=HOST, database="postgres", ssl=False, **settings)
        self._connections.append(made)
        return made

    async def connect(self) -> RawClient:
        return RawClient(await self.connection())

    async def balances(self) -> list[int]:
        rows = await self._connections[0].fetch("select balance from bank order by account")
        return [balance for (balance,) in rows]

    async def close(self) -> None:
        for connection in self._connections:
            await connection.close()
        self._host.stop()


class RawClient:
    def __init__(self, connection: Any) -> None:
        self._connection = connection
        library = importlib.import_module("asyncpg")
        self._conflicts = (library.SerializationError, library.DeadlockDetectedError)

    async def transfer(self, transfer: Transfer, pause: float) -> int:
        attempts = 1
        while True:
            try:
                async with self._connection.transaction(isolation="serializable"):
                    await self._attempt(transfer, pause)
            except self._conflicts:
                attempts += 1
            else:
                return attempts

    async def _attempt(self, transfer: Transfer, pause: float) -> None:
        given = await self._connection.fetchval(READ, transfer.giver)
        taken = await self._connection.fetchval(READ, transfer.taker)
        if pause:
            await asyncio.sleep(pause)
        await self._connection.execute(WRITE, transfer.giver, given - transfer.amount)
        await self._connection.execute(WRITE, transfer.taker, taken + transfer.amount)


class OursOnPostgresql(Ours):
    """Our store, whose transactions are those of the server."""

    needs = Postgres.needs

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._host = Postgres()

    async def open(self, folder: Path) -> None:
        self.server = start(self._host, folder)
        settings = self._host.settings()
        self.store = Store(f"postgresql://{settings['user']}@{HOST}:{settings['port']}/postgres")
        await self.fill()

    async def close(self) -> None:
        await super().close()
        self._host.stop()
