"""Connections to PostgreSQL: a transaction has one for itself, and there are not too many."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlencode

import asyncpg

from coterie.errors import ConfigError, Unavailable, UsageError
from coterie.locks.url import split_server_url
from coterie.system.postgresql import FAILURES, POOLER_ERRORS, Servers, close, meaning
from coterie.transactions.store.postgresql import statements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from coterie.errors import CoterieError

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


class Address:
    """Where the server is, and how a connection is made."""

    def __init__(self, url: str) -> None:
        """Take a URL apart; what it does not say is taken from the environment."""
        parts = split_server_url(url)
        user, _, places = parts.netloc.rpartition("@")
        self._shown = f"{places or 'the default server'}{parts.path}"
        parameters = dict(parse_qsl(parts.query, keep_blank_values=True))
        given = parameters.pop("connections", str(CONNECTIONS))
        if not given.isdecimal() or int(given) < 1:
            raise UsageError(f"{self}: connections must be at least 1, got {given!r}")
        self.connections = int(given)
        rest = {name: value for name, value in parameters.items() if name not in OF_LOCKS}
        each = [parts._replace(netloc=place, query=urlencode(rest)) for place in places.split(",")]
        name, _, password = user.partition(":")
        self._servers = Servers(
            [source.geturl() for source in each],
            user=unquote(name) or None,
            password=unquote(password) or None,
        )

    def __str__(self) -> str:
        """Name the server for people, without a password."""
        return f"postgresql at {self._shown}"

    async def connect(self) -> Line:
        """Connect to a server that can do what is needed."""
        connection = None
        try:
            async with asyncio.timeout(CONNECT_SECONDS_MAX):
                connection = await self._servers.connect(CONNECT_SECONDS_MAX)
                return await self._begin(connection)
        except BaseException as error:
            if connection is not None:
                connection.terminate()
            if isinstance(error, FAILURES):
                raise self.error(error) from None
            raise

    async def _begin(self, connection: Any) -> Line:
        version = connection.get_server_version()
        if version.major < VERSION_MIN:
            raise ConfigError(
                f"{self}: version {version.major}.{version.minor} is too old; a store needs"
                f" {VERSION_MIN} or newer"
            )
        encoding = connection.get_settings().server_encoding
        if encoding != "UTF8":  # or keys would have another order there
            raise ConfigError(f"{self}: a store needs a database in UTF8, this one is {encoding}")
        is_standby, run = await connection.fetchrow(statements.CONNECTED)
        if is_standby:
            raise Unavailable(f"{self}: it is a standby; name the primary")
        return Line(connection, run)

    def error(self, error: Exception) -> CoterieError:
        """Say what an error means: whether time may mend it."""
        if isinstance(error, POOLER_ERRORS):
            return ConfigError(
                f"{self}: a pooler in the way does not keep prepared statements; use PgBouncer 1.21 or"
                " newer with max_prepared_statements, or pool_mode = session"
            )
        text = str(error).partition("\n")[0]
        if isinstance(error, asyncpg.InsufficientPrivilegeError):
            return ConfigError(
                f"{self}: {text}; a store needs the table coterie_store, with rights to select, insert,"
                f" update and delete, or the right to create it: {statements.MAKE}"
            )
        if isinstance(error, REFUSED):
            return ConfigError(f"{self}: refused: {text}")
        return meaning(self, error)


class Line(NamedTuple):
    """A connection, and the run of the server that it belongs to."""

    connection: Any
    run: str

    def is_free(self) -> bool:
        """Return whether it is in no transaction, or has ended."""
        return bool(self.connection.is_closed() or not self.connection.is_in_transaction())

    async def close(self) -> None:
        """Disconnect in bounded time."""
        await close(self.connection)


class Pool:
    """The connections of one event loop."""

    def __init__(
        self, address: Address, remember: Callable[[Iterable[Row]], None] | None = None
    ) -> None:
        """Begin without any; `remember` gets what is in the table before the first is used."""
        self._address = address
        self._remember = remember
        self._idle: list[Line] = []
        self._turns = asyncio.Semaphore(address.connections)
        self._first = asyncio.Lock()
        self._is_set_up = False

    async def take(self) -> Line:
        """Return a connection in whose transaction the caller is, when there is a turn."""
        try:
            async with asyncio.timeout(TURN_SECONDS_MAX):
                await self._turns.acquire()
        except TimeoutError:
            raise Unavailable(
                f"{self._address}: all {self._address.connections} connections of this store have been"
                f" in use for {TURN_SECONDS_MAX:g} s; more at a time: ?connections="
            ) from None
        try:
            return await self._begun()
        except BaseException:
            self._turns.release()
            raise

    def give(self, line: Line, *, usable: bool) -> None:
        """Give a connection back; it is in no transaction, or else it is not usable."""
        if usable and not line.connection.is_closed():
            self._idle.append(line)
        else:
            line.connection.terminate()
        self._turns.release()

    async def close(self) -> None:
        """Close the connections that no transaction has."""
        idle, self._idle = self._idle, []
        await asyncio.gather(*(line.close() for line in idle))

    async def _begun(self) -> Line:
        while self._idle:
            line = self._idle.pop()
            try:
                await line.connection.execute(statements.BEGIN)
            except (
                FAILURES
            ):  # the server has ended it meanwhile, and nothing was asked of it so far
                line.connection.terminate()
            except BaseException:
                line.connection.terminate()
                raise
            else:
                return line
        line = await self._address.connect()
        try:
            async with self._first:
                if not self._is_set_up:
                    await self._set_up(line.connection)
                    self._is_set_up = True
            await line.connection.execute(statements.BEGIN)
        except BaseException:
            line.connection.terminate()
            raise
        return line

    async def _set_up(self, connection: Any) -> None:
        if not await connection.fetchval(statements.IS_MADE):
            # Another process may make it at the same moment.
            with contextlib.suppress(asyncpg.UniqueViolationError, asyncpg.DuplicateTableError):
                await connection.execute(statements.MAKE)
        if self._remember is not None:
            self._remember([Row(*row) for row in await connection.fetch(statements.READ_ALL)])
