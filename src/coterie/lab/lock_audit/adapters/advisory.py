"""Advisory locks of PostgreSQL by psycopg: a lock of the session, which ends with its connection."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg

if TYPE_CHECKING:
    from coterie.lab.lock_audit.adapter import LockPlace

SERVER = "postgresql"
LIBRARY = "psycopg"


class AdvisoryLock:
    """A lock, over a connection of its own."""

    def __init__(self, url: str, name: str) -> None:
        """Connect."""
        self._connection = psycopg.connect(url, autocommit=True, connect_timeout=5)
        self._name = name

    def acquire(self) -> bool:
        """Wait for the lock."""
        self._connection.execute("select pg_advisory_lock(hashtext(%s))", [self._name])
        return True

    def held(self) -> bool:
        """Say whether the connection is still there, as far as psycopg knows."""
        return not self._connection.closed

    def ask(self) -> bool:
        """Use the connection."""
        self._connection.execute("select 1")
        return True

    def release(self) -> bool:
        """Give it back; the server says whether it was ours."""
        given = self._connection.execute("select pg_advisory_unlock(hashtext(%s))", [self._name])
        row = given.fetchone()
        return bool(row and row[0])

    def close(self) -> None:
        """Disconnect."""
        self._connection.close()


def lock(place: LockPlace, name: str) -> AdvisoryLock:
    """Connect to the server."""
    return AdvisoryLock(place.url, name)
