"""Values on NATS: a message each, which is written only in the place of the one that this hold has read or written.

JetStream compares the number of one message as it writes it, and knows of no other: neither of the entry of a hold nor of its
session. So each holder that reads writes the message again, before it reads what is in it: the number changes, and a write
of an earlier hold, which expects the former one, is refused from then on. Until then it may still take effect, and is read.

A read without the lock may be answered by a replica that lags behind. So it first writes a message of its own, and
waits until the replica has that.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from coterie.engines.queue.nonsense import sensible
from coterie.errors import Unavailable
from coterie.locks.value import ValueRecord

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from coterie.engines.nats.records import Subjects
    from coterie.engines.nats.stream import LockStream, Stored
    from coterie.engines.queue.server import Ticket

PAUSES = (0.0, 0.001, 0.005, 0.02, 0.05, 0.1, 0.2)  # where others write at the same moment
HOLDS_MAX = 1024  # whose numbers are known


class KeptValue(msgspec.Struct, frozen=True, array_like=True):
    """The message of a value: what was written last, and the token of the last hold that has read or written it."""

    fence: int
    record: ValueRecord | None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(KeptValue).decode


class NatsValues:
    """Plays the store of values of one session."""

    def __init__(
        self,
        shown: object,
        subjects: Subjects,
        connected: Callable[[], Awaitable[LockStream]],
    ) -> None:
        """Prepare.

        Args:
            shown: The servers, for people.
            subjects: Of the stream.
            connected: Returns the stream over the connection that is there.
        """
        self._shown = shown
        self._subjects = subjects
        self._connected = connected
        self._numbers: dict[tuple[str, int], int] = {}  # of the message of a lock, by token

    async def read(self, lock: str, token: int | None) -> ValueRecord | None:
        """Return what is in the message; as a holder write it again before."""
        if token is None:
            return (await self._newest(lock)).record
        stream, subject = await self._connected(), self._subjects.value(lock)
        for pause in PAUSES:
            found = await stream.get(subject)
            kept = self._read(found)
            fenced = KeptValue(max(kept.fence, token), kept.record)
            number = await stream.put(subject, _encode(fenced), found.number if found else 0)
            if number is not None:
                self._note(lock, token, number)
                return kept.record
            await asyncio.sleep(pause)  # a replica may lag behind
        raise Unavailable(f"{self._shown}: the value of lock {lock!r} is written again and again")

    async def write(self, ticket: Ticket, record: ValueRecord, *, is_alone: bool) -> bool:
        """Write the message in the place of the one that this hold knows.

        One without data stays: without it a write of an earlier hold would expect none, and find none.
        """
        stream, subject = await self._connected(), self._subjects.value(record.name)
        for pause in PAUSES:
            hold = (record.name, record.token)
            if hold not in self._numbers:
                await self.read(*hold)
            expected = self._numbers.pop(hold)  # until the answer is there
            body = _encode(KeptValue(record.token, record))
            number = await stream.put(subject, body, expected)
            if number is not None:
                self._note(*hold, number)
                return True
            kept = self._read(await stream.get(subject))
            if kept.fence > record.token or (
                kept.record is not None and kept.record.version >= record.version
            ):
                return False
            await asyncio.sleep(pause)
        raise Unavailable(
            f"{self._shown}: the value of lock {record.name!r} is written again and again"
        )

    async def time(self) -> float:
        """Ask for the time of day of the server that leads the stream."""
        return await (await self._connected()).time()

    async def all(self) -> list[ValueRecord]:
        """Return what is in all messages."""
        stream = await self._connected()
        kept = [self._read(found) for found in await stream.all(self._subjects.values)]
        return [each.record for each in kept if each.record is not None]

    async def _newest(self, lock: str) -> KeptValue:
        """Read a message from a replica that has all that was answered before."""
        stream, subject = await self._connected(), self._subjects.value(lock)
        for pause in PAUSES:
            least = await stream.mark(self._subjects.mark)
            # The mark comes along: without any message there is no answer that says how far the replica has come.
            shown = await stream.last([subject, self._subjects.mark], least)
            found = next((each for each in shown if each.subject == subject), None)
            if found is not None or await stream.get(subject) is None:
                return self._read(found)
            await asyncio.sleep(pause)  # it was replaced just then, and left out
        raise Unavailable(f"{self._shown}: the value of lock {lock!r} is written again and again")

    def _read(self, found: Stored | None) -> KeptValue:
        if found is None:
            return KeptValue(0, None)
        with sensible(self._shown):
            return _decode(found.body)

    def _note(self, lock: str, token: int, number: int) -> None:
        """Remember the number of the message that a hold has written."""
        self._numbers[lock, token] = number
        if len(self._numbers) > HOLDS_MAX:
            del self._numbers[next(iter(self._numbers))]
