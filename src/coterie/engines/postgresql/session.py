"""A session of PostgreSQL: one connection, used by one operation at a time."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import asyncpg

from coterie import system
from coterie.engines.postgresql import statements
from coterie.engines.queue.server import ServerNode
from coterie.errors import ConfigError, Unavailable
from coterie.system.postgresql import FAILURES, POOLER_ERRORS, PostgresqlServers, close

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.engines.queue.url import ServerUrl

VERSION_MIN = 14  # the first that has idle_session_timeout
CALL_SECONDS_MAX = 5.0
TLS_PARAMETERS = ("sslmode", "sslrootcert", "sslcert", "sslkey", "sslpassword", "sslcrl")
POOLED = (
    "a pooler in the way does not keep sessions, as PgBouncer in transaction mode; name the server"
    " itself, or use pool_mode = session"
)


class ServerSession:
    """One session of the server, over one connection."""

    def __init__(self, servers: PostgresqlServers, connection: Any, pid: int, run: str) -> None:
        """Begin with a connection whose settings are made."""
        self.servers = servers
        self.connection = connection
        self.pid = pid  # of the process that serves it
        self.run = run  # of the server
        self.turn = asyncio.Lock()  # asyncpg and PostgreSQL know one operation at a time
        self.sent_at = -math.inf  # the last statement that was answered
        self._prepared: dict[str, Any] = {}
        self.used_at = system.now()

    async def ask(self, query: str, *arguments: object) -> Any:
        """Return the value that a statement answers with, when it is our turn."""
        async with self.turn:
            return await self.run_now(query, *arguments)

    async def run_now(self, query: str, *arguments: object) -> Any:
        """Return the value that a statement answers with; the caller has the turn."""
        statement = self._prepared.get(query)
        if statement is None:
            statement = self._prepared[query] = await self.connection.prepare(query)
        sent_at = system.now()
        answer = await statement.fetchval(*arguments)
        self.sent_at = sent_at
        return answer

    async def ask_rows(self, query: str, *arguments: object) -> Any:
        """Return the rows that a statement answers with, when it is our turn."""
        async with self.turn:
            return await self.connection.fetch(query, *arguments)

    async def beat(self, since: float) -> None:
        """Renew the lease of this session, unless a statement that was sent later has done so."""
        async with self.turn:
            if self.sent_at < since and await self.run_now(statements.BEAT) != self.pid:
                raise ConfigError(f"{self.servers}: {POOLED}")

    def on_end(self, tell: Callable[[ServerSession], None]) -> None:
        """Tell when the connection has ended, by whichever side."""
        self.connection.add_termination_listener(lambda _: tell(self))

    async def close(self) -> None:
        """Disconnect in bounded time; a statement under way is cancelled before."""
        await close(self.connection)

    async def check_direct(self, lease: float) -> None:
        """Refuse a pooler that gives statements of one session to several, or the other way round."""
        if self.connection.get_server_pid() == self.pid:
            return  # the server has greeted us itself
        key = int.from_bytes(system.secret(8), signed=True)
        other = await open_session(self.servers, "", lease)
        try:
            taken = await self.ask("select pg_try_advisory_lock($1)", key)
            # A second session that is none takes what the first one has.
            again = await other.ask("select pg_try_advisory_lock($1)", key)
            moved = [await each.ask(statements.BEAT) != each.pid for each in (self, other)]
            if not taken or again or any(moved):
                raise ConfigError(f"{self.servers}: {POOLED}")
            await self.ask("select pg_advisory_unlock($1)", key)
        except FAILURES as error:
            raise self.servers.error(error) from None
        finally:
            await other.close()


def servers_of(url: ServerUrl) -> PostgresqlServers:
    """Return the servers of a URL; what it does not say is taken from the environment."""
    each = [url._replace(addresses=[address]).shown for address in url.addresses]
    options = {k: v for k, v in url.parameters.items() if k in TLS_PARAMETERS}
    query = f"?{urlencode(options)}" if options else ""
    return PostgresqlServers(
        f"{url.shown}, database {url.path}" if url.path else url.shown,
        [f"postgresql://{shown}/{query}" for shown in each],
        _mistake,
        user=url.user or None,
        password=url.password or None,
        database=url.path or None,
    )


async def open_session(servers: PostgresqlServers, label: str, lease: float) -> ServerSession:
    """Connect, as a process of this name whose session ends after a lease without a statement."""

    async def begin(connection: Any) -> ServerSession:
        return await _begin(servers, connection, label, lease)

    return await servers.open(min(CALL_SECONDS_MAX, lease), begin)


async def describe(url: ServerUrl) -> ServerNode:
    """Ask a server what it is, without a session; raises `ConfigError` where it refuses us."""
    servers, connection = servers_of(url), None
    try:
        async with asyncio.timeout(CALL_SECONDS_MAX):
            connection = await servers.connect(CALL_SECONDS_MAX)
            version, is_standby = await connection.fetchrow(statements.DESCRIBE)
            await connection.close()
    except FAILURES as failure:
        error = servers.error(failure)
        if not isinstance(error, Unavailable):
            raise error from None
        return ServerNode(url.shown, trouble=str(error).removeprefix(f"{servers}: "))
    finally:
        if connection is not None:
            connection.terminate()
    return ServerNode(url.shown, version, "standby" if is_standby else "primary")


async def _begin(
    servers: PostgresqlServers, connection: Any, label: str, lease: float
) -> ServerSession:
    """Set what each connection needs, and read it back in a statement of its own."""
    version = connection.get_server_version().major
    if version < VERSION_MIN:
        raise ConfigError(
            f"{servers}: version {version} is too old; locks need {VERSION_MIN} or newer"
        )
    settings = dict(statements.SETTINGS)
    settings["application_name"] = label
    # Not shorter than the lease that the holder counts.
    settings["idle_session_timeout"] = str(math.ceil(lease * 1000))
    try:
        await connection.fetchval(statements.SET, *settings.values())
    except asyncpg.InvalidParameterValueError:
        # Not every system can look at a connection while it waits.
        settings["client_connection_check_interval"] = "0"
        await connection.fetchval(statements.SET, *settings.values())
    pid, is_standby, shown, run = await connection.fetchrow(statements.BEGIN)
    if is_standby:
        raise Unavailable(f"{servers}: it is a standby; name the primary")
    if shown != label:
        raise ConfigError(f"{servers}: {POOLED}")
    return ServerSession(servers, connection, pid, run)


def _mistake(error: Exception) -> str | None:
    """Return what the administrator has to change, if an error shows that."""
    if isinstance(error, POOLER_ERRORS):
        return POOLED
    if isinstance(error, asyncpg.InsufficientPrivilegeError):
        return (
            f"{error}; locks need a schema `coterie` that this role may create, or has rights"
            " to: grant usage on it, and all on its sequence and its table"
        )
    if isinstance(error, asyncpg.OutOfMemoryError):
        return "it has no room for more locks; raise max_locks_per_transaction there"
    return None
