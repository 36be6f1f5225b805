"""Values on Redis: a hash beside the queue of the lock, written by a script that finds the entry of the hold.

An entry goes with its session, in one step, before another one is inside: so a late script does not find it, also if
the next holder has only read. The script writes only over a lower version.

What is kept is as durable as the memory of the server. A hash names the run of the server in which it was written: in
another run a later value may have been lost, so what is left is doubtful until it is written again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from coterie.engines.queue.nonsense import sensible
from coterie.engines.redis import scripts
from coterie.locks.value import ValueRecord

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from coterie.engines.queue.server import Ticket

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ValueRecord).decode


class RedisValues:
    """Plays the store of values of one session."""

    def __init__(
        self,
        shown: object,
        ask: Callable[..., Awaitable[Any]],
        call: Callable[..., Awaitable[Any]],
        member: Callable[[Ticket], str],
    ) -> None:
        """Prepare.

        Args:
            shown: The server, for people.
            ask: Runs a script that is not about the session.
            call: Runs one in its name, to the end even if the caller is cancelled.
            member: Returns an entry as the server knows it.
        """
        self._shown = shown
        self._ask = ask
        self._call = call
        self._member = member

    async def read(self, lock: str, token: int | None) -> ValueRecord | None:
        """Read the hash; a holder has nothing else to do."""
        answer = await self._ask(scripts.READ_VALUE, lock)
        with sensible(self._shown):
            written, is_of_this_run = answer
            if not written:
                return None
            return msgspec.structs.replace(_decode(written), doubtful=not is_of_this_run)

    async def write(self, ticket: Ticket, record: ValueRecord, *, is_alone: bool) -> bool:
        """Write the hash, if our entry is the first and the version there is lower."""
        removes = record.data is None and is_alone
        written = await self._call(
            scripts.WRITE_VALUE,
            record.name,
            self._member(ticket),
            record.version.digits,
            b"" if removes else _encode(record),
        )
        return bool(written)

    async def all(self) -> list[ValueRecord]:
        """Read all hashes, one by one: a script that reads them all would keep the others waiting."""
        names = await self._ask(scripts.VALUES)
        with sensible(self._shown):
            found = [await self.read(name.decode(), None) for name in names]
        return [record for record in found if record is not None]

    async def time(self) -> float:
        """Ask for the time of day of the server."""
        answer = await self._ask(scripts.TIME)
        with sensible(self._shown):
            seconds, microseconds = answer
            return int(seconds) + int(microseconds) / 1e6
