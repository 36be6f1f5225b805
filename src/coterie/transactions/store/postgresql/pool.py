"""Connections to PostgreSQL: a transaction has one for itself, and there are not too many."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlencode

import asyncpg

from coterie.errors import ConfigError, Unavailable, UsageError
from coterie.locks.url import split_server_url
from coterie.system.postgresql import FAILURES, POOLER_ERRORS, PostgresqlServers, close
from coterie.transactions.store.postgresql import statements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

VERSION_MIN = 12
CONNECTIONS = 10  # at a time, of one store
CONNECT_SECONDS_MAX = 5.0
TURN_SECONDS_MAX = 30.0  # that a transaction waits for a connection of others
OF_LOCKS = ("lease", "deadlock-detection")  # in a URL that names the same server for locks

REFUSED = (asyncpg.SyntaxOrAccessError, asyncpg.FeatureNotSupportedError)


class Row(NamedTuple):
    """A key as the table has it; without a value it is absent."""

    key: str
    value: bytes | None
    version: int


class PooledConnection(NamedTuple):
    """A connection, and the run of the server that it belongs to."""

    connection: Any
    run: str

    def is_free(self) -> bool:
        """Return whether it is in no transaction, or has ended."""
        return bool(self.connection.is_closed() or not self.connection.is_in_transaction())

    async def close(self) -> None:
        """Disconnect in bounded time."""
        await close(self.connection)


def read_url(url: str) -> tuple[PostgresqlServers, int]:
    """Return the servers of a URL, and how many connections a store may have at a time.

    What the URL does not say is taken from the environment.
    """
    parts = split_server_url(url)
    parameters = dict(parse_qsl(parts.query, keep_blank_values=True))
    given = parameters.pop("connections", str(CONNECTIONS))
    rest = {name: value for name, value in parameters.items() if name not in OF_LOCKS}
    user, _, hosts = parts.netloc.rpartition("@")
    name, _, password = user.partition(":")
    each = [parts._replace(netloc=host, query=urlencode(rest)) for host in hosts.split(",")]
    servers = PostgresqlServers(
        f"{hosts or 'the default server'}{parts.path}",
        [source.geturl() for source in each],
        _mistake,
        user=unquote(name) or None,
        password=unquote(password) or None,
    )
    if not given.isdecimal() or int(given) < 1:
        raise UsageError(f"{servers}: connections must be at least 1, got {given!r}")
    return servers, int(given)


async def connect(servers: PostgresqlServers) -> PooledConnection:
    """Connect to a server that can do what is needed."""

    async def begin(connection: Any) -> PooledConnection:
        return await _begin(servers, connection)

    return await servers.open(CONNECT_SECONDS_MAX, begin)


async def _begin(servers: PostgresqlServers, connection: Any) -> PooledConnection:
    version = connection.get_server_version()
    if version.major < VERSION_MIN:
        raise ConfigError(
            f"{servers}: version {version.major}.{version.minor} is too old; a store needs"
            f" {VERSION_MIN} or newer"
        )
    encoding = connection.get_settings().server_encoding
    if encoding != "UTF8":  # or keys would have another order there
        raise ConfigError(f"{servers}: a store needs a database in UTF8, this one is {encoding}")
    is_standby, run = await connection.fetchrow(statements.CONNECTED)
    if is_standby:
        raise Unavailable(f"{servers}: it is a standby; name the primary")
    return PooledConnection(connection, run)


def _mistake(error: Exception) -> str | None:
    """Return what the administrator has to change, if an error shows that."""
    if isinstance(error, POOLER_ERRORS):
        return (
            "a pooler in the way does not keep prepared statements; use PgBouncer 1.21 or"
            " newer with max_prepared_statements, or pool_mode = session"
        )
    text = str(error).partition("\n")[0]
    if isinstance(error, asyncpg.InsufficientPrivilegeError):
        return (
            f"{text}; a store needs the table coterie_store, with rights to select, insert,"
            f" update and delete, or the right to create it: {statements.MAKE}"
        )
    if isinstance(error, REFUSED):
        return f"refused: {text}"
    return None


class Pool:
    """The connections of one event loop."""

    def __init__(
        self,
        servers: PostgresqlServers,
        connections: int,
        remember: Callable[[Iterable[Row]], None] | None = None,
    ) -> None:
        """Begin without any; `remember` gets what is in the table before the first is used."""
        self._servers = servers
        self._connections = connections
        self._remember = remember
        self._idle: list[PooledConnection] = []
        self._turns = asyncio.Semaphore(connections)
        self._first = asyncio.Lock()
        self._is_set_up = False

    async def take(self) -> PooledConnection:
        """Return a connection in whose transaction the caller is, when there is a turn."""
        try:
            async with asyncio.timeout(TURN_SECONDS_MAX):
                await self._turns.acquire()
        except TimeoutError:
            raise Unavailable(
                f"{self._servers}: all {self._connections} connections of this store have been"
                f" in use for {TURN_SECONDS_MAX:g} s; more at a time: ?connections="
            ) from None
        try:
            return await self._begun()
        except BaseException:
            self._turns.release()
            raise

    def give(self, pooled: PooledConnection, *, usable: bool) -> None:
        """Give a connection back; it is in no transaction, or else it is not usable."""
        if usable and not pooled.connection.is_closed():
            self._idle.append(pooled)
        else:
            pooled.connection.terminate()
        self._turns.release()

    async def close(self) -> None:
        """Close the connections that no transaction has."""
        idle, self._idle = self._idle, []
        await asyncio.gather(*(pooled.close() for pooled in idle))

    async def _begun(self) -> PooledConnection:
        while self._idle:
            pooled = self._idle.pop()
            try:
                await pooled.connection.execute(statements.BEGIN)
            except (
                FAILURES
            ):  # the server has ended it meanwhile, and nothing was asked of it so far
                pooled.connection.terminate()
            except BaseException:
                pooled.connection.terminate()
                raise
            else:
                return pooled
        pooled = await connect(self._servers)
        try:
            async with self._first:
                if not self._is_set_up:
                    await self._set_up(pooled.connection)
                    self._is_set_up = True
            await pooled.connection.execute(statements.BEGIN)
        except BaseException:
            pooled.connection.terminate()
            raise
        return pooled

    async def _set_up(self, connection: Any) -> None:
        if not await connection.fetchval(statements.IS_MADE):
            # Another process may make it at the same moment.
            with contextlib.suppress(asyncpg.UniqueViolationError, asyncpg.DuplicateTableError):
                await connection.execute(statements.MAKE)
        if self._remember is not None:
            self._remember([Row(*row) for row in await connection.fetch(statements.READ_ALL)])
