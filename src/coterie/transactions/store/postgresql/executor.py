"""The executor that passes the requests of transactions on to PostgreSQL.

A transaction has a connection from its first request to its end. Its writes are kept here until it
commits and are then one statement, in the order of their keys: two that only write cannot deadlock.
A transaction reads from one snapshot, a state that was there at one time; whether it fits into one order with all
others is known when it has committed.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import asyncpg

from coterie import system
from coterie.clocks import Stamp
from coterie.errors import Conflict, CoterieError, MisuseError, OutcomeUnknown, UsageError
from coterie.system.postgresql import FAILURES
from coterie.transactions.schemes.scheduler import (
    BEGINNING,
    Active,
    Attempt,
    Found,
    Item,
    Listed,
    Refused,
    listing,
)
from coterie.transactions.schemes.span import Span
from coterie.transactions.store.executor import conflict
from coterie.transactions.store.postgresql import statements
from coterie.transactions.store.postgresql.pool import Pool, Row, connect, read_url

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from coterie.transactions.schemes.scheduler import Declaration, Name, Number, Value
    from coterie.transactions.store.executor import AnswerT, Soon
    from coterie.transactions.store.postgresql.pool import PooledConnection
    from coterie.transactions.store.record import Record

KEY_BYTES_MAX = 2600  # of an index of PostgreSQL
COMMIT_SECONDS_MAX = 10.0  # without an answer; then the outcome is asked for
OUTCOME_SECONDS_MAX = 5.0  # for the outcome of a commit whose connection was lost
PATIENCE_SECONDS = 0.5  # with a server that has not noticed that yet
PAUSE_SECONDS = 0.02
ROLLBACK_SECONDS_MAX = 2.0

CONFLICTS = (
    asyncpg.SerializationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.UniqueViolationError,  # the same key, made by two
    asyncpg.LockNotAvailableError,  # where an administrator has set lock_timeout
    asyncpg.QueryCanceledError,  # or statement_timeout
)


class Running:
    """A transaction between its beginning and its end."""

    def __init__(self, attempt: Attempt) -> None:
        """Begin without a connection."""
        self.active = Active(attempt)
        self.pooled: PooledConnection | None = None
        self.request: asyncio.Task[Any] | None = None
        self.refusal: Conflict | None = None  # instead of the answer to the request under way
        self.is_deciding = False  # the server may have committed it
        self.locked: set[str] = set()  # keys that it keeps from other writers
        self.wanted: frozenset[str] = frozenset()  # by the request under way

    @property
    def name(self) -> Name:
        """Its name."""
        return self.active.attempt.name


class PostgresqlExecutor:
    """Runs transactions on a PostgreSQL server."""

    def __init__(
        self, url: str, record: Record | None = None, *, patience: float = OUTCOME_SECONDS_MAX
    ) -> None:
        """Prepare; the first request connects. Where a history is recorded, deletions leave a row."""
        self._servers, self._connections = read_url(url)
        self._record = record
        self._patience = patience
        self._process = int.from_bytes(system.secret(3))  # names are unique beyond this process
        self._time = 0
        self._running: dict[Name, Running] = {}
        self._refused: dict[Name, Conflict] = {}  # between two requests, and not told so far
        self._ends: set[asyncio.Task[None]] = set()  # of transactions that left something to undo
        self._home: tuple[asyncio.AbstractEventLoop, Pool] | None = None
        self._is_remembered = record is None

    def begin(
        self,
        declaration: Declaration,
        *,
        age: Stamp | None = None,
        failures: int = 0,
        above: Stamp | None = None,
    ) -> Attempt:
        """Begin an attempt; the server learns of it with its first request."""
        self._time += 1
        stamp = Stamp(self._time, self._process)
        name = f"T{self._time}-{self._process:06x}"
        attempt = Attempt(name, stamp, age or stamp, failures, declaration)
        self._running[name] = Running(attempt)
        return attempt

    def read(self, name: Name, key: str, *, update: bool = False) -> Soon[Found]:
        """Read a key, with `update` locking its row."""
        running = self._known(name)
        active = running.active
        if key in active.writes:
            return Found(name, key, active.writes[key], active.attempt.stamp)
        if "\0" in key:  # no such key can be written
            return Found(name, key, None, None)
        query = statements.READ_FOR_UPDATE if update else statements.READ

        async def work(connection: Any) -> Found:
            row = await connection.fetchrow(query, key)
            if update and row is not None:
                running.locked.add(key)
            return Found(name, key, None, None) if row is None else _found(name, Row(key, *row))

        return self._ask(running, work, (key,) if update else (), (key,))

    def scan(self, name: Name, span: Span, limit: int | None) -> Soon[Listed]:
        """Read all keys of a span that are there, or the first few of them."""
        running = self._known(name)
        own = running.active.writes
        gone = {key for key, value in own.items() if value is None and key in span}
        page = None if limit is None else limit + len(gone)

        async def work(connection: Any) -> Listed:
            rows: list[Row] = []
            rest = span
            while True:
                query, bounds = statements.scan_of(rest, page)
                more = [Row(*row) for row in await connection.fetch(query, *bounds)]
                rows += more
                present = sum(row.value is not None and row.key not in gone for row in rows)
                if page is None or limit is None or len(more) < page or present >= limit:
                    break
                rest = Span(more[-1].key + "\0", span.high)
            found = ((row.key, Item(row.value, Stamp(row.version, 0))) for row in rows)
            return listing(running.active, found, span, limit)

        return self._ask(running, work)

    def write(self, name: Name, key: str, value: Value) -> None:
        """Set a key when the transaction commits; None deletes it."""
        if "\0" in key:
            raise UsageError(f"{key!r:.99}: PostgreSQL keeps no key with a NUL character in it")
        if len(key) * 4 > KEY_BYTES_MAX and len(key.encode()) > KEY_BYTES_MAX:
            raise UsageError(
                f"{key!r:.99}: PostgreSQL keeps keys of at most {KEY_BYTES_MAX:,} bytes"
            )
        self._known(name).active.writes[key] = value

    def validate(self, name: Name) -> None:
        """End the transaction without effect: what it has read was there at one time."""
        self.abort(name)

    def commit(self, name: Name) -> Soon[Number]:
        """Write, and commit; the number of its versions is the server's of the transaction."""
        running = self._known(name)
        if running.active.writes:
            return self._ask(running, lambda _: self._commit(running), running.active.writes)
        if running.pooled is None:
            del self._running[name]
            return BEGINNING

        async def work(connection: Any) -> Number:
            await connection.execute(statements.COMMIT)
            self._end(running)
            return BEGINNING

        return self._ask(running, work)

    def abort(self, name: Name) -> bool:
        """End the transaction without effect, unless the server may be committing it."""
        self._refused.pop(name, None)
        running = self._running.get(name)
        if running is None:
            return True
        if running.is_deciding:
            return False
        self._end(running)
        return True

    def waits_for(self, name: Name) -> tuple[Name, ...]:
        """Name the transactions of this process that have locked what its request wants."""
        running = self._running.get(name)
        if running is None:
            return ()
        others = (other for other in self._running.values() if other is not running)
        return tuple(other.name for other in others if other.locked & running.wanted)

    async def close(self) -> None:
        """Refuse what is under way, wait for what is being decided, and disconnect."""
        for name, running in list(self._running.items()):
            if running.is_deciding:
                continue
            refusal = conflict(Refused(name, "the store was closed", (), ()))
            if running.request is None:
                self._refused[name] = refusal
            running.refusal = refusal
            self._end(running)
        deciding = [r.request for r in self._running.values() if r.request is not None]
        if deciding:
            await asyncio.wait(deciding)
        if self._ends:
            await asyncio.wait(set(self._ends))
        if self._home is not None and self._home[0] is asyncio.get_running_loop():
            await self._home[1].close()

    # Requests

    def _known(self, name: Name) -> Running:
        if name in self._refused:
            raise self._refused.pop(name)
        running = self._running.get(name)
        if running is None:
            raise MisuseError(f"{name} is not under way here: it has not begun, or has ended")
        return running

    def _ask(
        self,
        running: Running,
        work: Callable[[Any], Awaitable[AnswerT]],
        wanted: Iterable[str] = (),
        keys: tuple[str, ...] = (),
    ) -> asyncio.Future[AnswerT]:
        running.wanted = frozenset(wanted)
        task = asyncio.get_running_loop().create_task(self._carry_out(running, work, keys))
        running.request = task
        return task

    async def _carry_out(
        self,
        running: Running,
        work: Callable[[Any], Awaitable[AnswerT]],
        keys: tuple[str, ...],
    ) -> AnswerT:
        try:
            if running.pooled is None:
                running.pooled = await self._pool().take()
            return await work(running.pooled.connection)
        except asyncio.CancelledError:
            if running.refusal is not None:
                raise running.refusal from None
            raise
        except CONFLICTS as error:
            self._end(running)
            raise _conflict(running, str(error).partition("\n")[0], keys) from None
        except FAILURES as error:
            self._end(running)
            raise self._servers.error(error) from None
        finally:
            running.request = None
            running.wanted = frozenset()

    async def _commit(self, running: Running) -> Number:
        pooled = running.pooled
        assert pooled is not None, "a request has a connection"
        writes = sorted(running.active.writes.items())
        gone = [key for key, value in writes if value is None] if self._record is None else []
        put = [pair for pair in writes if pair[1] is not None or self._record is not None]
        keys, values = [key for key, _ in put], [value for _, value in put]
        number = await pooled.connection.fetchval(statements.WRITE, keys, values, gone)
        running.locked.update(running.active.writes)
        # From here on its end is the server's to decide.
        running.is_deciding = True
        try:
            async with asyncio.timeout(COMMIT_SECONDS_MAX):
                told = await pooled.connection.execute(statements.COMMIT)
        except CONFLICTS:
            raise
        except FAILURES as error:
            pooled.connection.terminate()
            await self._find_outcome(running, pooled.run, number, self._servers.error(error))
        else:
            # PostgreSQL answers so, and not by an error, to the commit of what has failed before.
            if told.upper() != "COMMIT":
                raise _conflict(running, f"the server has answered {told} to its commit")
        finally:
            self._end(running)
        return Stamp(number, 0)

    async def _find_outcome(
        self, running: Running, run: str, number: int, error: CoterieError
    ) -> None:
        """Return if a transaction has committed whose connection was lost at its commit.

        Raise `Conflict` if it never will, `OutcomeUnknown` if the server cannot tell.
        """
        began = system.monotonic()
        why = str(error)
        pause = PAUSE_SECONDS
        while (passed := system.monotonic() - began) < self._patience:
            try:
                told = await self._status(run, number, end=passed > PATIENCE_SECONDS)
            except (*FAILURES, CoterieError) as failure:
                why = str(failure)
            else:
                if told == "committed":
                    return
                if told == "aborted":
                    raise _conflict(running, f"the connection was lost before its commit ({error})")
                if told is None:
                    why = f"{error}; the server was started again since, and does not know it"
                    break
            await asyncio.sleep(pause)
            pause = min(2 * pause, PATIENCE_SECONDS)
        raise OutcomeUnknown(f"{running.name} may have been committed or not: {why}")

    async def _status(self, run: str, number: int, *, end: bool) -> str | None:
        """Ask over a connection of its own; None if the server does not know the transaction."""
        pooled = await connect(self._servers)
        try:
            try:
                told: str | None = await pooled.connection.fetchval(statements.STATUS, number)
            except asyncpg.InvalidParameterValueError:  # a number that it has not come to
                return None
            # In another run the number may be that of another transaction. It is given again only if
            # nothing that is left tells of ours, so what is aborted there has no effect in any case.
            if pooled.run != run:
                return told if told == "aborted" else None
            if told == "in progress" and end:
                await pooled.connection.fetchval(statements.END, number)
            return told
        finally:
            await pooled.close()

    # Ends

    def _end(self, running: Running) -> None:
        """Forget a transaction; what is left of it at the server is undone in the background."""
        if self._running.pop(running.name, None) is None:
            return
        request = running.request
        if request is asyncio.current_task():  # which has come to its end
            request = None
        if request is not None:
            request.cancel()  # now: a commit must not be sent after this
        pooled = running.pooled
        if request is None and pooled is not None and pooled.is_free():
            running.pooled = None
            self._pool().give(pooled, usable=True)
        elif request is not None or pooled is not None:
            task = asyncio.get_running_loop().create_task(self._undo(running, request))
            self._ends.add(task)
            task.add_done_callback(self._ends.discard)

    async def _undo(self, running: Running, request: asyncio.Task[Any] | None) -> None:
        if request is not None:
            await asyncio.wait({request})
            if not request.cancelled():
                request.exception()  # its user may have stopped waiting for it
        pooled, running.pooled = running.pooled, None
        if pooled is None:
            return
        usable = False
        try:
            with contextlib.suppress(*FAILURES):
                async with asyncio.timeout(ROLLBACK_SECONDS_MAX):
                    await pooled.connection.execute(statements.ROLLBACK)
                usable = True
        finally:
            self._pool().give(pooled, usable=usable)

    def _pool(self) -> Pool:
        """Return the connections of this event loop; those of one that has ended are of no use."""
        loop = asyncio.get_running_loop()
        if self._home is None or self._home[0] is not loop:
            self._home = loop, Pool(self._servers, self._connections, self._remember)
        return self._home[1]

    def _remember(self, rows: Iterable[Row]) -> None:
        """Let the history begin with what was there."""
        if self._record is not None and not self._is_remembered:
            self._is_remembered = True
            self._record.start_from(
                (row.key, Item(row.value, Stamp(row.version, 0))) for row in rows
            )


def _found(name: Name, row: Row) -> Found:
    return Found(name, row.key, row.value, Stamp(row.version, 0))


def _conflict(running: Running, rule: str, keys: tuple[str, ...] = ()) -> Conflict:
    return conflict(Refused(running.name, rule, keys, ()))
