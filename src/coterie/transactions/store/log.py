"""What a site must not forget: a file of the standard library's SQLite, written by one thread.

A commit is on disk as a whole or not at all, and its caller is told when it is. All
commits that gather while the disk is busy go there together, so that many share the wait for it. In
the write-ahead mode of SQLite, `synchronous=FULL` flushes the file at the end of each of its own
transactions: what was acknowledged survives a crash of the process, and of the machine if its disk
is honest.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import sqlite3
import threading
from typing import TYPE_CHECKING, NamedTuple

from coterie import system
from coterie.clocks import Stamp
from coterie.errors import ConfigError, MisuseError, Unavailable, UsageError
from coterie.transactions.schemes.scheduler import Item

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    Items = Mapping[str, Item]
    Done = Callable[[Exception | None], None]
    Connect = Callable[[str | Path], sqlite3.Connection]

APPLICATION = 0x636F7465  # as `file` shows it: the first letters of our name
FORMAT = 1
STAMPS_AT_ONCE = 1 << 20  # reserved ahead, so that the clock is written once in so many stamps

SCHEMA = f"""
CREATE TABLE items(key TEXT PRIMARY KEY, value BLOB, time INTEGER, site INTEGER) WITHOUT ROWID;
CREATE TABLE clock(time INTEGER);
INSERT INTO clock VALUES(0);
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {FORMAT};
"""

# Where stamps number the versions, a smaller one may commit after a larger one: it stays hidden.
INSTALL = """
INSERT INTO items VALUES(?, ?, ?, ?) ON CONFLICT(key) DO UPDATE
SET value = excluded.value, time = excluded.time, site = excluded.site
WHERE (excluded.time, excluded.site) > (time, site)
"""


class Recovered(NamedTuple):
    """What was on disk when a log was opened."""

    items: list[tuple[str, Item]]  # in the order of keys
    time: int  # no stamp of the past has a larger one


class Log:
    """A file that belongs to one process until it is closed."""

    def __init__(self, path: str | Path, connect: Connect | None = None) -> None:
        """Open the file, or create it; raise `ConfigError` if it is not a store of this process.

        `connect` may open it in another way, such as with a disk that fails in a test.
        """
        self._path = path
        self._process = system.pid()
        self._connection = (connect or open_file)(path)
        self._writing = threading.Lock()  # held around each use of the connection
        self._queue: queue.SimpleQueue[tuple[Items, Done] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._broken: Exception | None = None
        self._closed = False

    def recover(self) -> Recovered:
        """Read everything but deletions: no transaction is left that could write an older version."""
        try:
            # What can be read need not be on disk. The process before may have been killed between the
            # write and the sync of a commit, or that sync has failed; the commit was told to none, but
            # it is from now on, and a power loss would take it back. Another sync of the same file is
            # not enough, since after one that has failed the system may take the rest for written. So
            # everything moves from SQLite's log into its main file, and that is synced.
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            self._connection.execute("DELETE FROM items WHERE value IS NULL")
            rows = self._connection.execute("SELECT key, value, time, site FROM items").fetchall()
            (time,) = self._connection.execute("SELECT time FROM clock").fetchone()
        except sqlite3.Error as error:
            self.close()
            raise ConfigError(f"{self._path} is damaged: {error}") from None
        items = sorted((key, Item(value, Stamp(time, site))) for key, value, time, site in rows)
        return Recovered(items, time)

    def reserve(self, time: int) -> int:
        """Make sure that stamps up to a later time count as used, and return that time."""
        self._check()
        bound = time + STAMPS_AT_ONCE
        try:
            with self._writing:
                self._connection.execute("UPDATE clock SET time = max(time, ?)", (bound,))
        except sqlite3.Error as error:
            self._broken = error
            self._check()
        return bound

    def append(self, items: Items, done: Done) -> None:
        """Write a commit soon; `done` hears on the event loop that it is on disk, or may not be."""
        self._check()
        self._loop = asyncio.get_running_loop()
        if self._thread is None:
            self._thread = threading.Thread(target=self._write_all, name="coterie log", daemon=True)
            self._thread.start()
        self._queue.put((items, done))

    def close(self) -> None:
        """Write what was appended, and let go of the file."""
        if self._closed or system.pid() != self._process:
            return
        self._closed = True
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
        self._connection.close()

    def _check(self) -> None:
        if system.pid() != self._process:
            raise MisuseError(
                f"{self._path} was opened before a fork: open it after, in one process"
            )
        if self._closed:
            raise MisuseError(f"{self._path} is closed")
        failure = self.failure
        if failure is not None:
            raise failure

    @property
    def failure(self) -> Unavailable | None:
        """Why nothing can be written any more; None as long as all is well."""
        if self._broken is None:
            return None
        return Unavailable(
            f"{self._path} can no longer be written: {self._broken};"
            " reopen the store when the cause is removed"
        )

    def _write_all(self) -> None:
        """Write whatever has gathered, again and again, until there is the end."""
        going = True
        while going:
            batch = [self._queue.get()]
            while batch[-1] is not None and not self._queue.empty():
                batch.append(self._queue.get())
            going = batch[-1] is not None
            commits = [commit for commit in batch if commit is not None]
            self._write([items for items, _ in commits])
            self._report([done for _, done in commits])

    def _write(self, commits: Sequence[Items]) -> None:
        """Write commits in one transaction. After a failure it is unknown what the disk has kept."""
        rows = [(k, item.value, *item.number) for items in commits for k, item in items.items()]
        if self._broken is not None or not rows:
            return
        try:
            with self._writing:
                self._connection.execute("BEGIN")
                self._connection.executemany(INSTALL, rows)
                self._connection.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - whatever it is, those that wait must be told
            self._broken = error  # nothing is written behind a batch that may or may not be there

    def _report(self, told: Sequence[Done]) -> None:
        error = self._broken
        assert self._loop is not None, "a commit was appended"
        with contextlib.suppress(RuntimeError):  # the loop has ended, and none waits for it
            self._loop.call_soon_threadsafe(_tell, told, error)


def _tell(told: Sequence[Done], error: Exception | None) -> None:
    for done in told:
        done(error)


def open_file(path: str | Path) -> sqlite3.Connection:
    """Open the database of a store and lock it, or say why that cannot be done."""
    try:  # an absolute path, for SQLite takes some names for a database that is soon forgotten
        name = os.path.abspath(path)  # noqa: PTH100 - Path.resolve would follow links
        connection = sqlite3.connect(name, timeout=0, isolation_level=None, check_same_thread=False)
    except (TypeError, ValueError):
        raise UsageError(f"expected the path of a file, got {path!r:.99}") from None
    except sqlite3.Error as error:
        raise ConfigError(f"{path} cannot be opened: {error}") from None
    try:
        _claim(connection)
    except sqlite3.OperationalError as error:
        connection.close()
        if "locked" in str(error):
            raise ConfigError(f"{path} is already open: one process at a time may use it") from None
        raise ConfigError(f"{path} cannot be opened: {error}") from None
    except (sqlite3.Error, ConfigError) as error:
        connection.close()
        raise ConfigError(f"{path} is not a store: {error}") from None
    return connection


def _claim(connection: sqlite3.Connection) -> None:
    """Lock the file until it is closed, and make sure that it is one of ours before changing it."""
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    connection.execute("BEGIN EXCLUSIVE")
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if tables:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if application != APPLICATION:
            raise ConfigError("it is the database of another program")
        if version != FORMAT:
            raise ConfigError(
                f"it has format {version}, and this version of coterie needs {FORMAT}"
            )
    else:
        for statement in SCHEMA.split(";"):
            connection.execute(statement)
    connection.execute("COMMIT")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
