"""SQLite under audit: one table of its own in a database file, with transactions and without."""

from __future__ import annotations

import asyncio
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from coterie.errors import Unavailable, UsageError
from coterie.lab.audit.target import Aborted, Level

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

BUSY_SECONDS_MAX = 0.1  # that a statement waits for the locks of others
ATTEMPTS = 50  # to make and drop the table beside other users of the file

MAKE = "create table {} (key text primary key, value text not null)"
DROP = "drop table if exists {}"
READ = "select value from {} where key = ?"
WRITE = "insert into {} values (?, ?) on conflict (key) do update set value = excluded.value"
APPEND = (
    "insert into {} values (?, ?) on conflict (key) do update set value = value || excluded.value"
)
SCAN = "select key, value from {} where key >= ? and key < ?"


def make_target(url: str, prefix: str) -> SqliteTarget:
    """Return the file that `sqlite:///relative` or `sqlite:////absolute` names."""
    path = url.removeprefix("sqlite://").removeprefix("/").partition("?")[0]
    if not path or path == ":memory:":
        raise UsageError("sqlite:// names a file that several connections share: sqlite:///file.db")
    return SqliteTarget(Path(path), prefix)


class SqliteTarget:
    """One database file."""

    rounds_at_a_time = 1  # there is one writer at a time: more rounds would only be refused
    levels: ClassVar[dict[str, Level]] = {
        "autocommit": Level("each statement by itself", ""),
        "serializable": Level("BEGIN ... COMMIT", "serializable"),
    }

    def __init__(self, path: Path, prefix: str) -> None:
        """Remember where it is; `open` opens it."""
        self.path = path
        self.prefix = prefix
        self._connection: SqliteConnection | None = None

    def __str__(self) -> str:
        """Name the file for people."""
        return f"sqlite at {self.path}"

    async def open(self) -> None:
        """Open the file, and make the table."""
        if not self.path.is_file():
            raise Unavailable(f"{self}: there is no such file; create the database first")
        self._connection = await SqliteConnection.open(self)
        await self._patiently(MAKE)

    async def session(self, level: str) -> SqliteSession:
        """Open a session of its own connection."""
        return SqliteSession(
            self, await SqliteConnection.open(self), in_transaction=level == "serializable"
        )

    async def remove(self) -> None:
        """Drop the table."""
        if self._connection is not None:
            try:
                await self._patiently(DROP)
            finally:
                await self._connection.close()

    async def _patiently(self, statement: str) -> None:
        assert self._connection is not None
        for left in reversed(range(ATTEMPTS)):
            try:
                await self._connection.ask(statement.format(self.prefix))
            except Aborted as error:
                if not left:
                    raise Unavailable(f"{self}: {error}") from None
            else:
                return


class SqliteConnection:
    """A connection with a thread of its own, in which it waits for locks."""

    def __init__(self, target: SqliteTarget) -> None:
        """Prepare; `open` connects."""
        self._target = target
        self._thread = ThreadPoolExecutor(1)
        self._connection: sqlite3.Connection | None = None

    @classmethod
    async def open(cls, target: SqliteTarget) -> SqliteConnection:
        """Connect."""
        opened = cls(target)
        opened._connection = await opened._run(opened._connect)
        return opened

    async def ask(self, statement: str, *values: str) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        connection = self._connection
        assert connection is not None
        rows: list[tuple[Any, ...]] = await self._run(
            lambda: connection.execute(statement, values).fetchall()
        )
        return rows

    async def roll_back(self) -> None:
        """Roll back, if the connection is in a transaction."""
        assert self._connection is not None
        await self._run(self._connection.rollback)

    async def close(self) -> None:
        """Disconnect; a transaction under way is rolled back."""
        if self._connection is not None:
            await self._run(self._connection.close)
        self._thread.shutdown(wait=False)

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._target.path, timeout=BUSY_SECONDS_MAX, isolation_level=None)

    async def _run(self, work: Callable[[], Any]) -> Any:
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, work)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise Aborted(str(error)) from None
            raise Unavailable(f"{self._target}: {error}") from None
        except sqlite3.DatabaseError as error:
            raise Unavailable(f"{self._target}: {error}") from None


class SqliteSession:
    """One connection, which runs transactions or single statements."""

    def __init__(
        self, target: SqliteTarget, connection: SqliteConnection, *, in_transaction: bool
    ) -> None:
        """Take over a connection."""
        self._target = target
        self._connection = connection
        self._in_transaction = in_transaction

    async def begin(self) -> None:
        """Begin, without a lock until something is read."""
        if self._in_transaction:
            await self._connection.ask("begin")

    async def read(self, key: str) -> str | None:
        """Select one row."""
        found = await self._ask(READ, key)
        return found[0][0] if found else None

    async def write(self, key: str, value: str) -> None:
        """Insert or update one row."""
        await self._ask(WRITE, key, value)

    async def append(self, key: str, element: int) -> None:
        """Append to the text of one row, in one statement."""
        await self._ask(APPEND, key, f"{element},")

    async def read_list(self, key: str) -> list[int]:
        """Read one row as a list."""
        text = await self.read(key) or ""
        return [int(element) for element in text.split(",") if element]

    async def scan(self, prefix: str, names: Sequence[str]) -> dict[str, str]:
        """Select all rows of a prefix."""
        return dict(await self._ask(SCAN, prefix, prefix + "\x7f"))

    async def commit(self) -> None:
        """Commit."""
        if self._in_transaction:
            await self._connection.ask("commit")

    async def abort(self) -> None:
        """Roll back."""
        await self._connection.roll_back()

    async def close(self) -> None:
        """Disconnect."""
        await self._connection.close()

    async def _ask(self, statement: str, *values: str) -> list[tuple[Any, ...]]:
        return await self._connection.ask(statement.format(self._target.prefix), *values)
