"""A transaction of the user's, in which a value is written: on a connection of asyncpg or of psycopg."""

from __future__ import annotations

import asyncio
import re
import sys
from typing import TYPE_CHECKING, Any

import asyncpg

from coterie.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

NO_TABLE = ("42P01", "3F000")  # nor schema
KINDS = "a value is written in a transaction on a connection of asyncpg or psycopg"
NOT_BEGUN = (
    "no transaction is open on this connection: begin one, in which your work and the value are committed"
    " together"
)
OTHER_DATABASE = "this transaction is in another database than the locks, so the value cannot be committed with it"


async def carry_out(connection: Any, query: str, arguments: Sequence[object]) -> Any:
    """Carry out a statement in the open transaction of a connection, and return its row.

    Raises `UsageError` if there is no such transaction, and whatever the client library raises: that belongs to the
    user, who may try the transaction again for it.
    """
    is_asyncpg = isinstance(connection, asyncpg.Connection | asyncpg.pool.PoolConnectionProxy)
    by = _by_asyncpg if is_asyncpg else _by_psycopg
    try:
        return await by(connection, query, arguments)
    except Exception as error:
        if getattr(error, "sqlstate", None) in NO_TABLE:
            raise UsageError(OTHER_DATABASE) from None
        raise


async def _by_asyncpg(connection: Any, query: str, arguments: Sequence[object]) -> Any:
    if not connection.is_in_transaction():
        raise UsageError(NOT_BEGUN)
    return await connection.fetchrow(query, *arguments)


async def _by_psycopg(connection: Any, query: str, arguments: Sequence[object]) -> Any:
    psycopg: Any = sys.modules.get("psycopg")
    if psycopg is None or not isinstance(connection, psycopg.Connection | psycopg.AsyncConnection):
        raise UsageError(f"{KINDS}, got {type(connection).__module__}.{type(connection).__name__}")
    is_idle = connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
    if connection.autocommit and is_idle:
        raise UsageError(NOT_BEGUN)
    named = re.sub(r"\$(\d)", r"%(p\1)s", query)
    values = {f"p{number}": value for number, value in enumerate(arguments, 1)}
    if isinstance(connection, psycopg.AsyncConnection):
        return await (await connection.execute(named, values)).fetchone()
    # Its thread waits for us, or has given the connection away for as long as this takes.
    cursor = await asyncio.to_thread(connection.execute, named, values)
    return await asyncio.to_thread(cursor.fetchone)
