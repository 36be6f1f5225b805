"""Values on ZooKeeper: nodes `v/LOCK`, each written in a transaction that finds the entry of the hold.

An entry is an ephemeral node, which is gone before another one is inside: so a late transaction does not find it, also if
the next holder has only read. Each write names the version of the node that it replaces: of two writes of one hold, a
late one does nothing.

A holder reads what its member has: it has seen the end of the hold before there, so all that was written in it. Who
holds nothing asks after a transaction of its own, to which a majority has agreed: else a member that was cut off from
the others might tell what was true before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from kazoo.exceptions import NoNodeError

from coterie.engines.queue.nonsense import sensible
from coterie.engines.zookeeper import names
from coterie.locks.value import ValueRecord

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.engines.queue.server import Ticket
    from coterie.engines.zookeeper.connection import ZooKeeperConnection

READ_AT_ONCE = 100

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ValueRecord).decode


class ZooKeeperValues:
    """Plays the store of values of one session."""

    def __init__(
        self, connection: ZooKeeperConnection, root: str, find: Callable[[Ticket], str | None]
    ) -> None:
        """Prepare.

        Args:
            connection: The session.
            root: The node that ours stand below.
            find: Returns the path of an entry.
        """
        self._connection = connection
        self._root = root
        self._folder = f"{root}/v"
        self._find = find

    async def read(self, lock: str, token: int | None) -> ValueRecord | None:
        """Read the node, from a member that knows of all writes that were answered."""
        if token is None:
            await self._connection.transact(("check", self._root, -1))
        found, _ = await self._look(self._path(lock))
        return found

    async def write(self, ticket: Ticket, record: ValueRecord, *, is_alone: bool) -> bool:
        """Make, write or delete the node, if our entry is there and the version in the node is lower."""
        entry, path = self._find(ticket), self._path(record.name)
        if entry is None:
            return False
        found, version = await self._look(path)
        if found is not None and found.version >= record.version:
            return False
        removes = record.data is None and is_alone
        ours = ("check", entry, 0)
        if found is None and removes:
            return await self._connection.transact(ours)
        if found is None:
            await self._connection.answers(self._connection.send("create", self._folder))
            return await self._connection.transact(ours, ("create", path, _encode(record)))
        if removes:
            return await self._connection.transact(ours, ("delete", path, version))
        return await self._connection.transact(ours, ("set_data", path, _encode(record), version))

    async def all(self) -> list[ValueRecord]:
        """Read all nodes, some at a time."""
        connection = self._connection
        await connection.transact(("check", self._root, -1))
        (listed,) = await connection.answers(connection.send("get_children", self._folder))
        if isinstance(listed, NoNodeError):
            return []
        records = []
        for start in range(0, len(listed), READ_AT_ONCE):
            some = listed[start : start + READ_AT_ONCE]
            sent = [connection.send("get", f"{self._folder}/{node}") for node in some]
            answers = await connection.answers(*sent)
            with sensible(connection):
                records += [_decode(each[0]) for each in answers if isinstance(each, tuple)]
        return records

    async def time(self) -> float:
        """Ask for the time of day of the member that leads: it notes when a node was written, here that of all values."""
        connection = self._connection
        made, written = (
            connection.send("create", self._folder),
            connection.send("set", self._folder, b""),
        )
        _, stat = await connection.answers(made, written)
        with sensible(connection):
            return float(stat.mtime / 1000)

    async def _look(self, path: str) -> tuple[ValueRecord | None, int]:
        """Return the record in a node, and the version of the node."""
        (answer,) = await self._connection.answers(self._connection.send("get", path))
        if isinstance(answer, NoNodeError):
            return None, -1
        with sensible(self._connection):
            data, stat = answer
            return _decode(data), stat.version

    def _path(self, lock: str) -> str:
        return f"{self._folder}/{names.escape(lock)}"
