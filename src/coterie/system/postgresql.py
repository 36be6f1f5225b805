"""What locks and stores on PostgreSQL have in common: connections to it, and what its errors mean."""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
from typing import TYPE_CHECKING, Any, TypeVar

import asyncpg

from coterie.errors import ConfigError, CoterieError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

BegunT = TypeVar("BegunT")

CLOSE_SECONDS_MAX = 0.5

FAILURES = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
POOLER_ERRORS = (asyncpg.InvalidSQLStatementNameError, asyncpg.DuplicatePreparedStatementError)
REFUSED = (
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.ClientConfigurationError,
    ssl.SSLError,
)

# The run of the server, by the time of its start, and of the last crash of one of its processes: that
# takes all locks away, and also the statistics. A standby that is promoted was no primary in this run.
# Where the statistics are set back by hand, a run ends in which nothing was lost.
RUN = (
    "extract(epoch from pg_postmaster_start_time())::text || '/'"
    " || coalesce(extract(epoch from (select stats_reset from pg_stat_bgwriter))::text, '')"
)


class PostgresqlServers:
    """The servers that a URL names, of which one is the primary, and what their errors mean."""

    def __init__(
        self,
        shown: str,
        sources: Sequence[str],
        mistake: Callable[[Exception], str | None] = lambda _: None,
        **options: Any,
    ) -> None:
        """Remember where they are.

        Args:
            shown: The servers and the database for people, without a password.
            sources: A DSN for each server.
            mistake: Returns what is wrong with the configuration, if an error shows that its user
                made a mistake that is special to locks or to stores.
            options: What `asyncpg.connect` is given beside the DSN.
        """
        self._shown = shown
        self._sources = list(sources)  # that which was the primary last comes first
        self._mistake = mistake
        self._options = options
        if len(self._sources) > 1:
            self._options["target_session_attrs"] = "primary"

    def __str__(self) -> str:
        """Name the servers for people, without a password."""
        return f"postgresql at {self._shown}"

    async def open(self, limit: float, begin: Callable[[Any], Awaitable[BegunT]]) -> BegunT:
        """Connect and `begin` within the limit; raise what an error means."""
        connection, end = None, None
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + limit
        try:
            async with asyncio.timeout_at(ends_at):
                connection = await self.connect(limit)
                # A timeout cancels once, and a transaction waits for its rollback then: without an end, where
                # the server is silent.
                end = loop.call_at(ends_at, connection.terminate)
                return await begin(connection)
        except BaseException as error:
            if connection is not None:
                connection.terminate()
            # Whatever asyncpg raises for an answer that makes no sense, BufferError for instance.
            if isinstance(error, Exception) and not isinstance(error, CoterieError):
                raise self.error(error) from None
            raise
        finally:
            if end is not None:
                end.cancel()

    async def connect(self, limit: float) -> Any:
        """Connect to the server, or to that of several which is the primary.

        Each has its share of the time: one that hangs must not be the end of the search.
        """
        trouble: Exception | None = None
        for source in list(self._sources):
            share = limit / len(self._sources)
            try:
                connection = await asyncpg.connect(source, timeout=share, **self._options)
            except FAILURES as error:
                is_standby = isinstance(error, asyncpg.TargetServerAttributeNotMatched)
                if trouble is None or not is_standby:
                    trouble = error
            else:
                self._sources.remove(source)
                self._sources.insert(0, source)
                return connection
        assert trouble is not None, "there is a server"
        raise trouble

    def error(self, error: Exception) -> CoterieError:
        """Say what an error means: whether time may mend it."""
        mistake = self._mistake(error)
        if mistake is not None:
            return ConfigError(f"{self}: {mistake}")
        text = str(error).partition("\n")[0] or type(error).__name__
        if isinstance(error, TimeoutError):
            return Unavailable(f"{self}: no answer in time")
        if isinstance(error, REFUSED) or "rejected SSL upgrade" in text:
            return ConfigError(f"{self}: refused: {text}")
        if isinstance(error, OSError) and (error.errno or 0) > 0:
            text = os.strerror(error.errno or 0)  # asyncio's own text repeats the address
        return Unavailable(f"{self}: {text}")


async def close(connection: Any) -> None:
    """Disconnect in bounded time; a statement under way is cancelled before."""
    try:
        with contextlib.suppress(*FAILURES):
            async with asyncio.timeout(CLOSE_SECONDS_MAX):
                # Not `terminate` alone: a backend that waits would go on for a while.
                await connection.close()
    finally:
        connection.terminate()
