"""PostgreSQL under audit: one table of its own, and the three levels of isolation."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import unquote

import asyncpg

from coterie.lab.audit.target import Aborted, Level
from coterie.locks.url import split_server_url
from coterie.system.postgresql import FAILURES, PostgresqlServers, close

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

CALL_SECONDS_MAX = 10.0
REFUSED = (asyncpg.SerializationError, asyncpg.DeadlockDetectedError)

# Keys have an order of bytes, so that a scan by prefix is one by range, whatever the database's.
MAKE = 'create table {} (key text collate "C" primary key, value text not null)'
DROP = "drop table if exists {}"
READ = "select value from {} where key = $1"
WRITE = "insert into {} values ($1, $2) on conflict (key) do update set value = excluded.value"
APPEND = "insert into {0} values ($1, $2) on conflict (key) do update set value = {0}.value || excluded.value"
SCAN = "select key, value from {} where key >= $1 and key < $2"


def make_target(url: str, prefix: str) -> PostgresqlTarget:
    """Return the server that a URL names."""
    return PostgresqlTarget(url, prefix)


class PostgresqlTarget:
    """One server."""

    rounds_at_a_time = None
    levels: ClassVar[dict[str, Level]] = {
        "read-committed": Level("PostgreSQL's default", "read-committed"),
        "repeatable-read": Level("snapshots", "snapshot-isolation"),
        "serializable": Level("serializable snapshot isolation", "serializable"),
    }

    def __init__(self, url: str, prefix: str) -> None:
        """Remember where it is; `open` connects."""
        self.prefix = prefix
        parts = split_server_url(url)
        user, _, hosts = parts.netloc.rpartition("@")
        name, _, password = user.partition(":")
        self._servers = PostgresqlServers(
            f"{hosts}{parts.path}",
            [parts._replace(netloc=hosts).geturl()],
            user=unquote(name) or None,
            password=unquote(password) or None,
            statement_cache_size=0,  # poolers may give what is prepared to another session
        )
        self._connection: Any = None

    def __str__(self) -> str:
        """Name the server for people, without a password."""
        return str(self._servers)

    async def open(self) -> None:
        """Connect, and make the table."""
        self._connection = await self.connect()
        await self.call(self._connection.execute(MAKE.format(self.prefix)))

    async def session(self, level: str) -> PostgresqlSession:
        """Open a session of its own connection."""
        return PostgresqlSession(self, await self.connect(), level)

    async def remove(self) -> None:
        """Drop the table, on a new connection if the first one is gone."""
        connection = self._connection
        if connection is None:
            return
        try:
            if connection.is_closed():
                connection = await self.connect()
            await self.call(connection.execute(DROP.format(self.prefix)))
        finally:
            await close(connection)

    async def connect(self) -> Any:
        """Connect; raise what an error means."""
        return await self.call(self._servers.connect(CALL_SECONDS_MAX))

    async def call(self, request: Coroutine[Any, Any, Any]) -> Any:
        """Wait for an answer; raise `Aborted` if others were in the way, else what an error means."""
        try:
            async with asyncio.timeout(CALL_SECONDS_MAX):
                return await request
        except REFUSED as error:
            raise Aborted(str(error).partition("\n")[0]) from None
        except FAILURES as error:
            raise self._servers.error(error) from None


class PostgresqlSession:
    """One connection."""

    def __init__(self, target: PostgresqlTarget, connection: Any, level: str) -> None:
        """Take over a connection."""
        self._target = target
        self._connection = connection
        self._level = level.replace("-", " ")

    async def begin(self) -> None:
        """Begin a transaction at the level."""
        await self._execute(f"begin isolation level {self._level}")

    async def read(self, key: str) -> str | None:
        """Select one row."""
        found = await self._fetch(READ, key)
        return found[0]["value"] if found else None

    async def write(self, key: str, value: str) -> None:
        """Insert or update one row."""
        await self._fetch(WRITE, key, value)

    async def append(self, key: str, element: int) -> None:
        """Append to the text of one row, in one statement."""
        await self._fetch(APPEND, key, f"{element},")

    async def read_list(self, key: str) -> list[int]:
        """Read one row as a list."""
        text = await self.read(key) or ""
        return [int(element) for element in text.split(",") if element]

    async def scan(self, prefix: str, names: Sequence[str]) -> dict[str, str]:
        """Select all rows of a prefix."""
        found = await self._fetch(SCAN, prefix, prefix + "\x7f")
        return {row["key"]: row["value"] for row in found}

    async def commit(self) -> None:
        """Commit."""
        await self._execute("commit")

    async def abort(self) -> None:
        """Roll back."""
        await self._execute("rollback")

    async def close(self) -> None:
        """Disconnect."""
        await close(self._connection)

    async def _execute(self, statement: str) -> None:
        await self._target.call(self._connection.execute(statement))

    async def _fetch(self, statement: str, *values: str) -> Any:
        text = statement.format(self._target.prefix)
        return await self._target.call(self._connection.fetch(text, *values))
