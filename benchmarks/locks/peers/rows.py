"""Not peers but yardsticks: a row of a table as a lock, as users of PostgreSQL and MariaDB write it.

The row is inserted, and deleted at the end: one round trip each. Neither waits in an order, has a lease, or finds out who is
there; so it is the least that a lock in a table costs. Only the name counts, so it is measured with fresh names alone.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, ClassVar

from benchmarks.locks.machine import HOST
from benchmarks.locks.peers.base import Peer
from benchmarks.locks.peers.mariadb import USER, Mariadb
from benchmarks.locks.peers.postgres import Postgres

if TYPE_CHECKING:
    from pathlib import Path

HOLDER = "bench"


class Rows(Peer):
    host: ClassVar[type[Postgres | Mariadb]]
    servers_label = "1"

    def __init__(self) -> None:
        super().__init__()
        self._host = self.host()

    def start(self, folder: Path) -> None:
        self._host.start(folder)
        self.servers = self._host.servers

    def settings(self, *, surviving: bool = False) -> dict[str, Any]:
        return self._host.settings(surviving=surviving)


class PostgresRows(Rows):
    label = "PostgreSQL, an unlogged row, asyncpg"
    host = Postgres
    needs, on_disk = Postgres.needs, Postgres.on_disk

    async def connect(self, settings: dict[str, Any], *, shared: bool) -> PostgresRowClient:
        connection = (await Postgres().connect(settings, shared=shared)).connection
        await connection.execute("set synchronous_commit = off")
        await connection.execute(
            "create unlogged table if not exists bench (name text primary key, holder text not null)"
        )
        return PostgresRowClient(connection)


class PostgresRowClient:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def acquire(self, name: str, timeout: float | None) -> str:  # noqa: ASYNC109 - as peers
        insert = "insert into bench values ($1, $2) on conflict do nothing returning name"
        if not await self._connection.fetchval(insert, name, HOLDER, timeout=timeout):
            raise TimeoutError(name)
        return name

    async def release(self, held: str) -> None:
        delete = "delete from bench where name = $1 returning name"
        if not await self._connection.fetchval(delete, held):
            raise RuntimeError("the lock was not held")


class MariadbRows(Rows):
    label = "MariaDB, a row, PyMySQL"
    host = Mariadb
    needs, on_disk, is_blocking = Mariadb.needs, "the entry", True

    async def connect(self, settings: dict[str, Any], *, shared: bool) -> MariadbRowClient:
        library = importlib.import_module("pymysql")
        connection = library.connect(
            host=HOST, port=settings["port"], user=USER, autocommit=True, ssl_disabled=True
        )
        with connection.cursor() as cursor:
            cursor.execute("create database if not exists coterie")
            cursor.execute(
                "create table if not exists coterie.bench"
                " (name varchar(255) primary key, holder varchar(255) not null) engine = innodb"
            )
        return MariadbRowClient(connection)


class MariadbRowClient:
    def __init__(self, connection: Any) -> None:
        self._cursor = connection.cursor()

    def acquire(self, name: str, timeout: float | None) -> str:
        self._ask("insert ignore into coterie.bench values (%s, %s)", name, HOLDER)
        return name

    def release(self, held: str) -> None:
        self._ask("delete from coterie.bench where name = %s", held)

    def _ask(self, statement: str, *arguments: object) -> None:
        if self._cursor.execute(statement, arguments) != 1:
            raise RuntimeError("the lock was not free, or not held")
