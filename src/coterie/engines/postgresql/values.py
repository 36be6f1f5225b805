"""Values on PostgreSQL: rows of a logged table, written by the holder, also within a transaction of its own.

A write locks the rows of its session and of its lock: so it comes before their end, or does not find them any more. A
transaction of the user's must not lock these for as long as it is open. There the row of the value itself refuses a late
writer: each hold that reads leaves its token in it, and waits for a transaction that has the row.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from coterie.engines.postgresql import schema, statements
from coterie.engines.postgresql.connection import RowLocked
from coterie.engines.postgresql.transaction import OTHER_DATABASE, carry_out
from coterie.engines.queue.nonsense import sensible
from coterie.errors import UsageError
from coterie.locks.value import ValueRecord

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from coterie.engines.queue.server import Ticket

PAUSE_SECONDS = 0.1  # before a row is asked for again that a transaction has

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ValueRecord).decode


class PostgresqlValues:
    """Plays the store of values of one session."""

    def __init__(
        self,
        shown: object,
        ask: Callable[..., Awaitable[tuple[float, Any]]],
        find: Callable[[Ticket], tuple[str, str] | None],
        run: Callable[[], str],
    ) -> None:
        """Prepare.

        Args:
            shown: The server, for people.
            ask: Carries out a statement over the connection of the session.
            find: Returns the session, and an entry of it as the server knows it.
            run: Returns the run of the server.
        """
        self._shown = shown
        self._ask = ask
        self._find = find
        self._run = run
        self._has_table = False
        self._in_transaction: tuple[str, int] | None = (
            None  # a lock and its token: the last such write
        )

    async def read(self, lock: str, token: int | None) -> ValueRecord | None:
        """Read the row; a holder leaves its token there."""
        if token is None:
            rows = await self._carry_out(statements.READ_VALUE, lock)
        else:
            rows = await self._in_turn(lock, token, statements.READ_VALUE_IN_HOLD, lock, token)
        with sensible(self._shown):
            return _decode(rows[0][0]) if rows and rows[0][0] is not None else None

    async def write(self, ticket: Ticket, record: ValueRecord, *, is_alone: bool) -> bool:
        """Write the row, if our entry is the first in its queue and the row is of a lower version.

        One without data stays as well: a transaction of an earlier hold must find that it is late.
        """
        entry = self._find(ticket)
        if entry is None:
            return False
        session, text = entry
        arguments = (session, record.name, text, record.token, record.sequence, _body(record))
        rows = await self._in_turn(record.name, record.token, statements.WRITE_VALUE, *arguments)
        return bool(rows)

    async def write_in(self, connection: object, record: ValueRecord) -> bool:
        """Write the row within a transaction that is open on a connection of the user's; False if it is late."""
        arguments = (record.name, record.token, record.sequence, _body(record), self._run())
        self._in_transaction = (record.name, record.token)
        query = statements.WRITE_VALUE_IN_TRANSACTION
        is_here, is_written = await carry_out(connection, query, arguments)
        if not is_here:
            raise UsageError(OTHER_DATABASE)
        return bool(is_written)

    async def all(self) -> list[ValueRecord]:
        """Read all rows."""
        rows = await self._carry_out(statements.ALL_VALUES)
        with sensible(self._shown):
            return [_decode(body) for (body,) in rows]

    async def time(self) -> float:
        """Ask for the time of day of the server."""
        _, rows = await self._ask(statements.TIME)
        with sensible(self._shown):
            return float(rows[0][0])

    async def _in_turn(self, lock: str, token: int, query: str, *arguments: object) -> Any:
        """Carry out a statement about the row of a lock, as soon as no transaction has that.

        It ends with the session, which is renewed meanwhile, at the latest.
        """
        while True:
            try:
                return await self._carry_out(query, *arguments)
            except RowLocked:
                if self._in_transaction == (lock, token):
                    raise RowLocked(
                        f"lock {lock!r}: its value was written in a transaction that is still open: end that first"
                    ) from None
                await asyncio.sleep(PAUSE_SECONDS)

    async def _carry_out(self, query: str, *arguments: object) -> Any:
        """Carry out a statement; make the table where the others were made by an earlier version."""
        if not self._has_table:
            _, ((has_table,),) = await self._ask(schema.HAS_VALUES)
            if not has_table:
                await self._ask(schema.MAKE_VALUES)
            self._has_table = True
        _, rows = await self._ask(query, *arguments)
        return rows


def _body(record: ValueRecord) -> bytes | None:
    return None if record.data is None else _encode(record)
