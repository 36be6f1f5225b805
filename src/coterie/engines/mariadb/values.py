"""Values on MariaDB and MySQL: a row each, written by a statement that locks the rows of the session and of the entry.

The end of a session changes its row. So it comes before the statement, which does not find the session then, or waits
until the statement is committed. Another one is inside after that: so a late write does nothing, also if the next
holder has only read.

InnoDB shows what is committed a moment before it is on the disk. So each read is followed by a small write of its
own: when that is on the disk, so is what was read. A value that was deleted is a row without a record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from coterie.engines.mariadb import statements
from coterie.engines.mariadb.connection import TRIES
from coterie.engines.queue.nonsense import sensible
from coterie.locks.value import ValueRecord, Version

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from typing import Protocol

    from coterie.engines.mariadb.connection import Answer
    from coterie.engines.queue.server import Ticket

    class Ask(Protocol):
        """Carries out statements over the connection of the session."""

        def __call__(self, text: str, *, tries: int = 1) -> Awaitable[Answer]:
            """Return the answer of the server."""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ValueRecord).decode


class MariadbValues:
    """Plays the store of values of one session."""

    def __init__(self, shown: object, session: str, ask: Ask) -> None:
        """Prepare.

        Args:
            shown: The server, for people.
            session: The name of the session.
            ask: Carries out statements.
        """
        self._shown = shown
        self._session = session
        self._ask = ask

    async def read(self, lock: str, token: int | None) -> ValueRecord | None:
        """Read the row, and wait until it is on the disk; a holder has nothing else to do."""
        answer = await self._ask(statements.read_value(lock), tries=TRIES)
        with sensible(self._shown):
            rows = answer.rows[0]
            return _decode(rows[0][0]) if rows and rows[0][0] is not None else None

    async def write(self, ticket: Ticket, record: ValueRecord, *, is_alone: bool) -> bool:
        """Write the row, if our entry is there and the version in the row is lower."""
        body = None if record.data is None else _encode(record)
        text = statements.write_value(self._session, ticket, record.version, body)
        # A batch that was in the way of another one was undone: it may be carried out again.
        answer = await self._ask(text, tries=TRIES)
        with sensible(self._shown):
            return any(Version(*row) == record.version for row in answer.rows[1])

    async def all(self) -> list[ValueRecord]:
        """Read all rows."""
        answer = await self._ask(statements.ALL_VALUES)
        with sensible(self._shown):
            return [_decode(row[0]) for row in answer.rows[0]]

    async def time(self) -> float:
        """Ask for the time of day of the server."""
        answer = await self._ask(statements.TIME)
        with sensible(self._shown):
            return float(answer.rows[0][0][0])
