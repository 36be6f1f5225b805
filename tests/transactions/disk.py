"""A disk under a store, in the hands of a test: it can be looked at, slowed down and broken."""

from __future__ import annotations

import sqlite3
import threading
from typing import TYPE_CHECKING, Any, cast

from coterie.transactions import Store
from coterie.transactions.catalogue import scheme as scheme_named
from coterie.transactions.store.local import LocalExecutor
from coterie.transactions.store.log import Log, open_file

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class Disk:
    """A connection to the file of a store; the writes of the store go through it."""

    def __init__(self, path: str | Path) -> None:
        self.connection = open_file(path)
        self.broken = False
        self.batches: list[int] = []  # how many versions were written together
        self.reached = threading.Event()  # by a write
        self.open = threading.Event()  # else writes wait
        self.open.set()

    def execute(self, statement: str, *values: Any) -> Any:
        if self.broken and statement.startswith(("COMMIT", "UPDATE")):
            raise sqlite3.OperationalError("disk I/O error")
        return self.connection.execute(statement, *values)

    def executemany(self, statement: str, rows: Sequence[Any]) -> Any:
        self.reached.set()
        assert self.open.wait(10)
        self.batches.append(len(rows))
        return self.connection.executemany(statement, rows)

    def close(self) -> None:
        self.connection.close()


def store_on_disk(
    path: Path, scheme: str = "two-phase-locking", *, timeout: float | None = None
) -> tuple[Store, Disk]:
    """Open a store in a new file, and give the disk as well."""
    disk = Disk(path)
    log = Log(path, lambda _: cast("sqlite3.Connection", disk))
    executor = LocalExecutor(scheme_named(scheme).build(), log)
    return Store(executor, timeout=timeout, record=True), disk
