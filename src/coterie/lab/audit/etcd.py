"""etcd under audit: plain puts, puts in one transaction, and a transaction that compares what was read."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from coterie.engines.etcd import messages as api
from coterie.engines.etcd.channel import EtcdChannel
from coterie.engines.queue.url import TLS_PARAMETERS, parse_server_url
from coterie.lab.audit.buffer import Buffer
from coterie.lab.audit.target import Aborted, Level

if TYPE_CHECKING:
    from collections.abc import Sequence

CALL_SECONDS_MAX = 5.0


def make_target(url: str, prefix: str) -> EtcdTarget:
    """Return the cluster that a URL names."""
    return EtcdTarget(
        EtcdChannel(parse_server_url(url, port=2379, parameters=TLS_PARAMETERS)), prefix
    )


class EtcdTarget:
    """One cluster of etcd."""

    rounds_at_a_time = None
    levels: ClassVar[dict[str, Level]] = {
        "plain": Level("each put by itself", ""),
        "txn": Level("all puts in one transaction", ""),
        "compare": Level("... which compares the revisions of what was read", "serializable"),
    }

    def __init__(self, channel: EtcdChannel, prefix: str) -> None:
        """Remember where it is; `open` connects."""
        self._channel = channel
        self.prefix = prefix
        self._is_open = False

    def __str__(self) -> str:
        """Name the cluster for people."""
        return str(self._channel)

    async def open(self) -> None:
        """Connect, and ask for a key."""
        await self._channel.open(CALL_SECONDS_MAX)
        self._is_open = True
        await self.get("")

    async def session(self, level: str) -> EtcdSession:
        """Open a session."""
        return EtcdSession(self, level)

    async def remove(self) -> None:
        """Remove all keys of the prefix."""
        if not self._is_open:
            return
        try:
            everything = api.delete(self.name("")) + api.chunk(2, self.name("\x7f"))
            await self._channel.call("KV/DeleteRange", everything, CALL_SECONDS_MAX)
        finally:
            await self._channel.close()

    def name(self, key: str) -> bytes:
        """Return the key as the cluster has it."""
        return f"{self.prefix}/{key}".encode()

    async def get(self, key: str, end: str = "") -> list[api.KeyValue]:
        """Read a key, or all up to another."""
        request = api.get(self.name(key), self.name(end) if end else b"")
        answer = await self._channel.call("KV/Range", request, CALL_SECONDS_MAX)
        return api.found(answer).keys

    async def put(self, compare: Sequence[bytes], values: dict[str, str]) -> None:
        """Put values in one transaction, if all comparisons hold; raise `Aborted` if not."""
        puts = [api.chunk(2, api.put(self.name(k), v.encode(), 0)) for k, v in values.items()]
        request = api.transaction(compare, puts)
        answer = await self._channel.call("KV/Txn", request, CALL_SECONDS_MAX)
        if not api.done(answer).succeeded:
            raise Aborted("something that was read has changed")


class EtcdSession:
    """One client; lists are texts that are read and put."""

    def __init__(self, target: EtcdTarget, level: str) -> None:
        """Run transactions at a level."""
        self._target = target
        self._level = level
        self._buffer = Buffer()
        self._revisions: dict[str, int] = {}  # of what was read first

    async def begin(self) -> None:
        """Begin: nothing is sent."""
        self._buffer = Buffer()
        self._revisions = {}

    async def read(self, key: str) -> str | None:
        """Get one key."""
        found = await self._target.get(key)
        self._revisions.setdefault(key, found[0].changed if found else 0)
        return self._buffer.value(key, found[0].value.decode() if found else None)

    async def write(self, key: str, value: str) -> None:
        """Put one key, now or in the end."""
        if self._level == "plain":
            await self._target.put([], {key: value})
        else:
            self._buffer.values[key] = value

    async def append(self, key: str, element: int) -> None:
        """Get a list and put a longer one, now or in the end."""
        await self.write(key, f"{await self.read(key) or ''}{element},")

    async def read_list(self, key: str) -> list[int]:
        """Get one key as a list."""
        text = await self.read(key) or ""
        return [int(element) for element in text.split(",") if element]

    async def scan(self, prefix: str, names: Sequence[str]) -> dict[str, str]:
        """Get all keys of a prefix at once."""
        found = await self._target.get(prefix, prefix + "\x7f")
        by_name = {key.key: key for key in found}
        present = {name: by_name.get(self._target.name(name)) for name in names}
        for name, row in present.items():
            self._revisions.setdefault(name, row.changed if row else 0)
        return {name: row.value.decode() for name, row in present.items() if row}

    async def commit(self) -> None:
        """Put what was kept; what was read must not have changed."""
        if self._level == "plain":
            return
        compare = [
            api.unchanged(self._target.name(key), revision)
            for key, revision in self._revisions.items()
            if self._level == "compare"
        ]
        await self._target.put(compare, self._buffer.values)

    async def abort(self) -> None:
        """Forget what was kept; what a plain put has done stays."""

    async def close(self) -> None:
        """There is nothing to be closed."""
