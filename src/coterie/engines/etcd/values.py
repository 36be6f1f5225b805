"""Values on etcd: a key `coterie/v/LOCK`, written in a transaction that finds the key of the hold, and its session.

One of them goes before another one is inside. So a late transaction does not find both, also if the
next holder has only read; and a read, which asks a majority, sees all that was written before it.

A value begins with its version in digits of a fixed length, which etcd compares as bytes: of two writes of one hold,
the earlier one does nothing where the later one has been.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from coterie.engines.etcd import messages as api
from coterie.engines.etcd.keys import after
from coterie.engines.queue.nonsense import sensible
from coterie.locks.value import ValueRecord, Version

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from coterie.engines.queue.server import Ticket

VALUES = b"coterie/v/"
VERSION_BYTES = len(Version(0, 0).digits)
PAGE = 32  # of the longest values: an answer has 4 MiB at most

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ValueRecord).decode


class EtcdValues:
    """Plays the store of values of one session."""

    def __init__(
        self,
        shown: object,
        call: Callable[[str, bytes], Awaitable[bytes]],
        find: Callable[[Ticket], list[bytes] | None],
    ) -> None:
        """Prepare.

        Args:
            shown: The cluster, for people.
            call: Makes a request in the session.
            find: Returns what a transaction compares that is to take effect while an entry is there, in a session that
                is not over.
        """
        self._shown = shown
        self._call = call
        self._find = find

    async def read(self, lock: str, token: int | None) -> ValueRecord | None:
        """Read the key; a holder has nothing else to do."""
        found = await self._read(api.get(_key(lock)))
        return found[0] if found else None

    async def write(self, ticket: Ticket, record: ValueRecord, *, is_alone: bool) -> bool:
        """Write the key, if our entry is the one that was created and the version there is lower."""
        entry = self._find(ticket)
        if entry is None:
            return False
        key, version = _key(record.name), record.version.digits.encode()
        if record.data is None and is_alone:
            change = api.chunk(3, api.delete(key))
        else:
            change = api.chunk(2, api.put(key, version + _encode(record), 0))
        newer = api.transaction([api.below(key, version)], [change])
        first = api.transaction([api.absent(key)], [change], [api.chunk(4, newer)])
        request = api.transaction(entry, [api.chunk(4, first)])
        written = await self._call("KV/Txn", request)
        with sensible(self._shown):
            return api.carried_out(written)

    async def all(self) -> list[ValueRecord]:
        """Read all keys, some at a time."""
        start, records = VALUES, []
        while page := await self._read(api.get(start, after(VALUES), limit=PAGE)):
            records += page
            start = _key(page[-1].name) + b"\0"
        return records

    async def _read(self, request: bytes) -> list[ValueRecord]:
        answer = await self._call("KV/Range", request)
        with sensible(self._shown):
            return [_decode(each.value[VERSION_BYTES:]) for each in api.found(answer).keys]


def _key(lock: str) -> bytes:
    return VALUES + quote(lock).encode()
