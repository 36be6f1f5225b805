"""The write-skew probe: two transactions read x and y, then one sets x to 0 and the other y.

Each does so only because it has seen both at 1. A store that keeps transactions serializable lets only
one of them through; the other is refused, or has waited and seen the 0.
"""

from __future__ import annotations

import asyncio
import importlib
import sqlite3
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from benchmarks.locks.machine import HOST
from benchmarks.locks.peers.postgres import Postgres
from benchmarks.transactions.peers.ours import SCHEMES
from benchmarks.transactions.peers.redis_watch import RedisWatch
from benchmarks.transactions.peers.zodb import Zodb
from coterie.errors import Conflict
from coterie.transactions import Store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.locks.peers.base import Need


class Skew(msgspec.Struct):
    """How many of the two got through; None if that store could not be asked."""

    store: str
    through: int | None


def probe() -> Iterator[Skew]:
    """Probe our schemes, and every peer that is installed."""
    yield from probe_ours()
    for begin in ("BEGIN", "BEGIN IMMEDIATE"):
        yield Skew(f"SQLite, {begin}", _sqlite(begin))
    if _is_there(Zodb.needs):
        yield Skew("ZODB", _zodb(declared=False))
        yield Skew("ZODB, readCurrent", _zodb(declared=True))
    if _is_there(RedisWatch.needs):
        yield from asyncio.run(_redis())
    if _is_there(Postgres.needs):
        try:
            yield from _postgres()
        except (OSError, subprocess.SubprocessError) as error:  # its server does not start
            yield Skew(f"PostgreSQL ({type(error).__name__})", None)


def probe_ours() -> Iterator[Skew]:
    for scheme in SCHEMES:
        yield Skew(f"coterie {scheme}", asyncio.run(_ours(scheme)))


def _is_there(needs: tuple[Need, ...]) -> bool:
    return all(need.is_met() for need in needs)


async def _ours(scheme: str) -> int:
    store = Store(scheme, timeout=5)

    async def reset(key: str) -> bool:
        async with store.transaction() as t:
            both = [await t.get("x"), await t.get("y")]
            await asyncio.sleep(0.01)  # the other one has read by now, if it may
            if both != [1, 1]:
                return False
            await t.put(key, 0)
        return True

    async with store.transaction() as t:
        for key in ("x", "y"):
            await t.put(key, 1)
    outcomes = await asyncio.gather(reset("x"), reset("y"), return_exceptions=True)
    for outcome in outcomes:
        if not isinstance(outcome, bool | Conflict):
            raise outcome
    return outcomes.count(True)


def _sqlite(begin: str) -> int:
    with tempfile.TemporaryDirectory(prefix="coterie-bench-") as folder:
        path = Path(folder, "skew")
        connections = [sqlite3.connect(path, isolation_level=None, timeout=0) for _ in range(2)]
        connections[0].execute("PRAGMA journal_mode = WAL")
        connections[0].execute("CREATE TABLE both(key TEXT PRIMARY KEY, value)")
        connections[0].execute("INSERT INTO both VALUES('x', 1), ('y', 1)")
        through, readers = 0, []
        for connection, key in zip(connections, "xy", strict=True):
            try:
                connection.execute(begin)
                connection.execute("SELECT * FROM both").fetchall()
                readers.append((connection, key))
            except sqlite3.OperationalError:  # the other one has it
                continue
        for connection, key in readers:
            try:
                connection.execute("UPDATE both SET value = 0 WHERE key = ?", (key,))
                connection.execute("COMMIT")
                through += 1
            except sqlite3.OperationalError:
                connection.execute("ROLLBACK")
        for connection in connections:
            connection.close()
        return through


def _zodb(*, declared: bool) -> int:
    library = importlib.import_module("ZODB")
    manager = importlib.import_module("transaction").TransactionManager
    mapping = importlib.import_module("persistent.mapping").PersistentMapping
    conflict = importlib.import_module("ZODB.POSException").ConflictError
    database = library.DB(None)
    with database.transaction() as connection:
        connection.root()["x"], connection.root()["y"] = mapping(value=1), mapping(value=1)
    sessions = []
    for key, other in ("xy", "yx"):
        own = manager()
        connection = database.open(own)
        own.begin()
        values = connection.root()
        assert [values[each]["value"] for each in "xy"] == [1, 1]
        if declared:
            connection.readCurrent(values[other])
        values[key]["value"] = 0
        sessions.append(own)
    through = 0
    for own in sessions:
        try:
            own.commit()
            through += 1
        except conflict:
            own.abort()
    return through


async def _redis() -> list[Skew]:
    peer = RedisWatch("redis")
    conflict = importlib.import_module("redis.exceptions").WatchError
    found = []
    with tempfile.TemporaryDirectory(prefix="coterie-bench-") as folder:
        await peer.open(Path(folder))
        for text, watched in (("all keys read", ("xy", "xy")), ("the key written", ("x", "y"))):
            connection = peer.connection()
            await connection.mset({"x": 1, "y": 1})
            through, pipelines = 0, []
            for keys in watched:
                pipeline = peer.connection().pipeline(transaction=True)
                await pipeline.watch(*keys)
                await pipeline.mget("x", "y")
                pipelines.append(pipeline)
            for pipeline, key in zip(pipelines, "xy", strict=True):
                pipeline.multi()
                pipeline.set(key, 0)
                try:
                    await pipeline.execute()
                    through += 1
                except conflict:
                    pass
                await pipeline.reset()
            found.append(Skew(f"Redis, watching {text}", through))
        await peer.close()
    return found


def _postgres() -> Iterator[Skew]:
    peer = Postgres()
    with tempfile.TemporaryDirectory(prefix="coterie-bench-") as folder:
        Path(folder).chmod(0o755)  # its server may run as another user
        try:
            peer.start(Path(folder))
            for level in ("read_committed", "repeatable_read", "serializable"):
                name = level.replace("_", " ").upper()
                yield Skew(f"PostgreSQL, {name}", asyncio.run(_postgres_at(level, peer)))
        finally:
            peer.stop()


async def _postgres_at(level: str, peer: Postgres) -> int:
    library = importlib.import_module("asyncpg")
    settings = {"host": HOST, "port": peer.port, "user": peer.user, "database": "postgres"}
    connections = [await library.connect(**settings, ssl=False) for _ in range(2)]
    await connections[0].execute(
        "DROP TABLE IF EXISTS pair; CREATE TABLE pair(key text PRIMARY KEY, value int);"
        " INSERT INTO pair VALUES('x', 1), ('y', 1)"
    )
    transactions = [connection.transaction(isolation=level) for connection in connections]
    for transaction, connection in zip(transactions, connections, strict=True):
        await transaction.start()
        await connection.fetchval("SELECT sum(value) FROM pair")
    through = 0
    for transaction, connection, key in zip(transactions, connections, "xy", strict=True):
        try:
            await connection.execute("UPDATE pair SET value = 0 WHERE key = $1", key)
            await transaction.commit()
            through += 1
        except library.SerializationError:
            if connection.is_in_transaction():
                await transaction.rollback()
    for connection in connections:
        await connection.close()
    return through
