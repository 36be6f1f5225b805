"""Values on S3: an object each, which is written only in the place of the one that this hold has read or written.

S3 compares one object as it writes it, and knows neither of the entry of a hold nor of its session. So each holder that
reads writes the object again, before it reads what is in it: the ETag changes, and a write of an earlier hold, which expects
the former one, is refused from then on. Until then it may still take effect, and is read.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from coterie import system
from coterie.engines.s3.records import ValueObject, read, write
from coterie.errors import Unavailable

if TYPE_CHECKING:
    from coterie.engines.queue.server import Ticket
    from coterie.engines.s3.bucket import Bucket, StoredObject
    from coterie.engines.s3.records import Keys
    from coterie.locks.value import ValueRecord

PAUSES = (0.0, 0.01, 0.05, 0.1, 0.2, 0.5)  # where others write at the same moment
HOLDS_MAX = 1024  # whose ETags are known


class S3Values:
    """Plays the store of values of one session."""

    def __init__(self, bucket: Bucket, keys: Keys) -> None:
        """Prepare."""
        self._bucket = bucket
        self._keys = keys
        self._etags: dict[tuple[str, int], str] = {}  # of the object of a lock, by token

    async def read(self, lock: str, token: int | None) -> ValueRecord | None:
        """Return what is in the object; as a holder write it again before."""
        key = self._keys.value(lock)
        if token is None:
            return self._read(await self._bucket.get(key)).record
        for pause in PAUSES:
            found = await self._bucket.get(key)
            kept = self._read(found)
            fenced = ValueObject(fence=max(kept.fence, token), record=kept.record)
            etag = await self._bucket.put(key, write(fenced), found.etag if found else None)
            if etag is not None:
                self._note(lock, token, etag)
                return kept.record
            await asyncio.sleep(pause * system.random().random())
        raise self._contended(lock)

    async def write(self, ticket: Ticket, record: ValueRecord, *, is_alone: bool) -> bool:
        """Write the object in the place of the one that this hold knows.

        One without data stays: without it a write of an earlier hold would expect none, and find none.
        """
        key, hold = self._keys.value(record.name), (record.name, record.token)
        for pause in PAUSES:
            if hold not in self._etags:
                await self.read(*hold)
            expected = self._etags.pop(hold)  # until the answer is there
            kept = ValueObject(fence=record.token, record=record)
            etag = await self._bucket.put(key, write(kept), expected)
            if etag is not None:
                self._note(*hold, etag)
                return True
            kept = self._read(await self._bucket.get(key))
            if kept.fence > record.token or (
                kept.record is not None and kept.record.version >= record.version
            ):
                return False
            await asyncio.sleep(pause * system.random().random())
        raise self._contended(record.name)

    async def all(self) -> list[ValueRecord]:
        """Return what is in all objects."""
        listed = await self._bucket.list(self._keys.values)
        found = await asyncio.gather(*(self._bucket.get(each.key) for each in listed))
        kept = [self._read(each) for each in found]
        return [each.record for each in kept if each.record is not None and each.record.value]

    async def time(self) -> float:
        """Ask for the time of day of the server."""
        return await self._bucket.time(self._keys.past)

    def _read(self, found: StoredObject | None) -> ValueObject:
        return ValueObject() if found is None else read(self._bucket, found.body, ValueObject)

    def _note(self, lock: str, token: int, etag: str) -> None:
        """Remember the ETag of the object that a hold has written."""
        self._etags[lock, token] = etag
        if len(self._etags) > HOLDS_MAX:
            del self._etags[next(iter(self._etags))]

    def _contended(self, lock: str) -> Unavailable:
        return Unavailable(f"{self._bucket}: the value of lock {lock!r} is written again and again")
