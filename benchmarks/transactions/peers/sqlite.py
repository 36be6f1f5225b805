"""SQLite in its write-ahead mode, flushed at each commit; one writer at a time, the others wait."""

from __future__ import annotations

import sqlite3
import time
from typing import TYPE_CHECKING

from benchmarks.transactions.peers.base import ThreadPeer
from benchmarks.transactions.workload import ACCOUNTS, DEPOSIT

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.transactions.workload import Transfer

WAIT_SECONDS = 10.0
READ = "SELECT balance FROM accounts WHERE number = ?"
WRITE = "UPDATE accounts SET balance = ? WHERE number = ?"


def connected(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, timeout=WAIT_SECONDS)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    return connection


class Sqlite(ThreadPeer):
    path: Path

    async def open(self, folder: Path) -> None:
        self.path = folder / "bank"
        connection = connected(self.path)
        connection.execute("CREATE TABLE accounts(number INTEGER PRIMARY KEY, balance INTEGER)")
        connection.execute("BEGIN")
        rows = ((number, DEPOSIT) for number in range(ACCOUNTS))
        connection.executemany("INSERT INTO accounts VALUES(?, ?)", rows)
        connection.execute("COMMIT")
        connection.close()

    def connect(self) -> SqliteClient:
        return SqliteClient(connected(self.path))

    async def balances(self) -> list[int]:
        connection = connected(self.path)
        rows = connection.execute("SELECT balance FROM accounts ORDER BY number").fetchall()
        connection.close()
        return [balance for (balance,) in rows]


class SqliteClient:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def transfer(self, transfer: Transfer, pause: float) -> int:
        attempts = 1
        while not self._begin():
            attempts += 1
        execute = self._connection.execute
        (given,) = execute(READ, (transfer.giver,)).fetchone()
        (taken,) = execute(READ, (transfer.taker,)).fetchone()
        if pause:
            time.sleep(pause)
        execute(WRITE, (given - transfer.amount, transfer.giver))
        execute(WRITE, (taken + transfer.amount, transfer.taker))
        execute("COMMIT")
        return attempts

    def _begin(self) -> bool:
        """Wait to be the one who writes; tell whether that came to be in time."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                return False
            raise
        return True

    def close(self) -> None:
        self._connection.close()
