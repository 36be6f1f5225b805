"""A connection to PostgreSQL, used by one statement at a time."""

from __future__ import annotations

import asyncio
import contextlib
import math
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import asyncpg

from coterie import system
from coterie.engines.postgresql import schema, statements
from coterie.engines.queue.server import ServerNode
from coterie.errors import ConfigError, CoterieError, Unavailable
from coterie.system.postgresql import FAILURES, POOLER_ERRORS, PostgresqlServers, close

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.engines.postgresql.schema import PostgresqlRun
    from coterie.engines.queue.url import ServerUrl

VERSION_MIN = 14  # the first that has idle_session_timeout
CALL_SECONDS_MAX = 5.0
LABEL_BYTES_MAX = 63  # of an application_name
TLS_PARAMETERS = ("sslmode", "sslrootcert", "sslcert", "sslkey", "sslpassword", "sslcrl")
POOLED = (
    "a pooler in the way does not keep sessions, as PgBouncer in transaction mode; name the server"
    " itself, or use pool_mode = session"
)


class RowLocked(Unavailable):
    """A statement was undone that has waited for a row of another transaction for as long as it may."""

    definite = True


class LockConnection:
    """One connection, whose settings are made, to a run of the server that was entered."""

    def __init__(self, servers: PostgresqlServers, connection: Any, run: PostgresqlRun) -> None:
        """Begin with a connection that no one else uses."""
        self.run = run
        self._servers = servers
        self._connection = connection
        self._turn = asyncio.Lock()  # asyncpg and PostgreSQL know one operation at a time
        self._prepared: dict[str, Any] = {}
        self._answer_by = math.inf  # when the statement that is under way has to be answered
        self._is_overdue = False
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_up(self) -> bool:
        """Whether no statement has failed to be answered."""
        return not self._connection.is_closed()

    async def ask(self, query: str, *arguments: object, limit: float) -> tuple[float, Any]:
        """Return when a statement was sent, and the rows that it answers with.

        Raises `Unavailable` where it is not known what has become of it, or that it was not carried
        out; then the connection is closed, unless the server has refused it. A cancellation closes it, too.
        """
        async with self._turn:
            sent_at = system.now()
            self._expect_answer(limit)
            try:
                return sent_at, await self._fetch(query, arguments)
            except asyncpg.LockNotAvailableError:
                raise RowLocked(f"{self._servers}: a row is locked for too long") from None
            except asyncpg.PostgresError as error:
                raise self._servers.error(error) from None
            except BaseException as error:
                # Whatever asyncpg raises for a statement that was under way, among it TypeError, and uvloop
                # RuntimeError: what the server says next may be the answer to it.
                self._connection.terminate()
                if self._is_overdue and isinstance(error, Exception):
                    raise self._servers.error(TimeoutError()) from None
                if isinstance(error, FAILURES):
                    raise self._servers.error(error) from None
                if isinstance(error, Exception):
                    raise Unavailable(f"{self._servers}: the connection has ended") from None
                raise
            finally:
                self._answer_by = math.inf

    def _expect_answer(self, limit: float) -> None:
        """End the connection if the statement is not answered in time.

        One timer serves many statements, each of which would else make and cancel one of its own: a tenth of the time
        that a program spends on a fresh lock.
        """
        loop = asyncio.get_running_loop()
        self._answer_by = loop.time() + limit
        if self._timer is None or self._timer.when() > self._answer_by:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = loop.call_at(self._answer_by, self._look_at_time)

    def _look_at_time(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        if self._answer_by <= loop.time():
            self._is_overdue = True
            self._connection.terminate()
        elif self._answer_by < math.inf:
            self._timer = loop.call_at(self._answer_by, self._look_at_time)

    async def _fetch(self, query: str, arguments: tuple[object, ...]) -> Any:
        statement = self._prepared.get(query)
        if statement is None:
            statement = self._prepared[query] = await self._connection.prepare(query)
        return await statement.fetch(*arguments)

    async def listen(self, channel: str, hear: Callable[[int, str], None]) -> None:
        """Hear the notices of a channel: by the process of the server that has sent each."""
        await self._connection.add_listener(channel, lambda _, pid, __, notice: hear(pid, notice))

    def on_end(self, tell: Callable[[], None]) -> None:
        """Tell when the connection has ended, by whichever side."""
        self._connection.add_termination_listener(lambda _: tell())

    async def close(self) -> None:
        """Disconnect in bounded time."""
        if self._timer is not None:
            self._timer.cancel()
        await close(self._connection)


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


async def connect(
    servers: PostgresqlServers, lease: float, known: int, *, durable: bool
) -> LockConnection:
    """Connect, and enter the run of the server; see `schema.enter`."""

    async def begin(connection: Any) -> LockConnection:
        try:
            await _prepare(servers, connection, lease)
            run = await schema.enter(connection, lease, known, durable=durable)
            if run.is_logged:
                await connection.execute("set synchronous_commit = on")
        except CoterieError as error:
            raise type(error)(f"{servers}: {error}") from None
        return LockConnection(servers, connection, run)

    return await servers.open(min(CALL_SECONDS_MAX, lease), begin)


async def describe(url: ServerUrl) -> ServerNode:
    """Ask a server what it is, without a session; raises `ConfigError` where it refuses us."""
    servers, connection = servers_of(url), None
    try:
        async with asyncio.timeout(CALL_SECONDS_MAX):
            connection = await servers.connect(CALL_SECONDS_MAX)
            version, is_standby = await connection.fetchrow(statements.DESCRIBE)
            await connection.close()
    except Exception as failure:  # noqa: BLE001 - whatever asyncpg raises for an answer that makes no sense
        error = servers.error(failure)
        if not isinstance(error, Unavailable):
            raise error from None
        return ServerNode(url.shown, trouble=str(error).removeprefix(f"{servers}: "))
    finally:
        if connection is not None:
            connection.terminate()
    return ServerNode(url.shown, version, "standby" if is_standby else "primary")


async def _prepare(servers: PostgresqlServers, connection: Any, lease: float) -> None:
    """Set what each connection needs, and read it back in a statement of its own."""
    version = connection.get_server_version().major
    if version < VERSION_MIN:
        raise ConfigError(f"version {version} is too old; locks need {VERSION_MIN} or newer")
    label = _label()
    settings = statements.settings(version)
    settings["application_name"] = label
    settings["lock_timeout"] = str(int(lease * 1000 / 6))
    await connection.fetchval(statements.set_all(list(settings)), *settings.values())
    pid, is_standby, shown = await connection.fetchrow(statements.GREET)
    if is_standby:
        raise Unavailable("it is a standby; name the primary")
    if shown != label:
        raise ConfigError(POOLED)
    if connection.get_server_pid() != pid:
        await _check_pooler(servers, connection, label)


async def _check_pooler(servers: PostgresqlServers, connection: Any, label: str) -> None:
    """Refuse a pooler that gives statements of one session to several, or the other way round."""
    other = await servers.connect(CALL_SECONDS_MAX)
    try:
        await other.fetchval("select set_config('application_name', $1, false)", f"{label} *")
        seen = [(await each.fetchrow(statements.GREET))[0] for each in (connection, other)]
        shown = (await connection.fetchrow(statements.GREET))[2]
        if shown != label or seen[0] == seen[1]:
            raise ConfigError(POOLED)
    finally:
        with contextlib.suppress(*FAILURES):
            await close(other)


def _label() -> str:
    """Return what a connection says about its process, for people who look at the server."""
    room = LABEL_BYTES_MAX - len(f"coterie-locks :{system.pid()}")
    host = system.host_name().encode(errors="replace")[:room].decode(errors="ignore")
    return f"coterie-locks {host}:{system.pid()}"


def _mistake(error: Exception) -> str | None:
    """Return what the administrator has to change, if an error shows that."""
    if isinstance(error, POOLER_ERRORS):
        return POOLED
    if isinstance(error, asyncpg.InsufficientPrivilegeError):
        return (
            f"{error}; locks need a schema `coterie` that this role may create, or that a role which may"
            " has created by taking a lock, with rights to it: grant usage on schema coterie to ROLE;"
            " grant select, insert, update, delete on all tables in schema coterie to ROLE; grant usage,"
            " select, update on sequence coterie.number to ROLE"
        )
    return None
