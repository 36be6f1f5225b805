"""Redis and Valkey under audit: plain commands, MULTI without WATCH, and with it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, ClassVar

from redis import exceptions

from coterie.engines.queue.url import TLS_PARAMETERS, parse_server_url
from coterie.engines.redis.server import CALL_SECONDS_MAX, RedisServer
from coterie.errors import UsageError
from coterie.lab.audit.buffer import Buffer
from coterie.lab.audit.target import Aborted, Level

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

REMOVED_AT_ONCE = 500  # keys


def make_target(url: str, prefix: str) -> RedisTarget:
    """Return the server that a URL names; raise `UsageError` if it names several."""
    parsed = parse_server_url(url, port=6379, parameters=TLS_PARAMETERS)
    if len(parsed.addresses) > 1:
        raise UsageError(
            f"{parsed.scheme}://{parsed.shown}: one server is audited at a time, and this names"
            f" {len(parsed.addresses)}: name the one that programs write to"
        )
    return RedisTarget(RedisServer(parsed), prefix)


class RedisTarget:
    """One server."""

    rounds_at_a_time = None
    levels: ClassVar[dict[str, Level]] = {
        "plain": Level("each command by itself", ""),
        "multi": Level("writes in MULTI ... EXEC", ""),
        "watch": Level("WATCH before each read, writes in MULTI ... EXEC", "serializable"),
    }

    def __init__(self, server: RedisServer, prefix: str) -> None:
        """Remember where it is; `open` connects."""
        self._server = server
        self.prefix = prefix
        self._client = server.client(alone=False)
        self._written: dict[str, None] = {}  # keys, to be removed

    def __str__(self) -> str:
        """Name the server for people."""
        return str(self._server)

    async def open(self) -> None:
        """Ask whether it is there."""
        await self.call(self._client.ping())

    async def session(self, level: str) -> RedisSession:
        """Open a session."""
        return RedisSession(self, self._client, level)

    async def remove(self) -> None:
        """Remove all keys that were written."""
        keys = list(self._written)
        try:
            for start in range(0, len(keys), REMOVED_AT_ONCE):
                await self.call(self._client.delete(*keys[start : start + REMOVED_AT_ONCE]))
        finally:
            await self._client.aclose()

    def name(self, key: str, *, written: bool = False) -> str:
        """Return the key as the server has it."""
        name = f"{self.prefix}:{key}"
        if written:
            self._written[name] = None
        return name

    async def call(self, request: Awaitable[Any]) -> Any:
        """Wait for an answer; raise `Aborted` if others were in the way, else what an error means."""
        try:
            async with asyncio.timeout(CALL_SECONDS_MAX):
                return await request
        except exceptions.WatchError as error:
            raise Aborted(str(error)) from None
        except (OSError, exceptions.RedisError) as error:
            raise self._server.error(error) from None


class RedisSession:
    """One client; a transaction has a connection for itself while it lasts."""

    def __init__(self, target: RedisTarget, client: Any, level: str) -> None:
        """Run transactions at a level."""
        self._target = target
        self._client = client
        self._level = level
        self._pipeline: Any = None  # of the transaction under way
        self._buffer = Buffer()

    async def begin(self) -> None:
        """Begin: nothing is sent."""
        self._pipeline = self._client.pipeline(transaction=True)
        self._buffer = Buffer()

    async def read(self, key: str) -> str | None:
        """Get one key."""
        source = await self._watched(key)
        found = await self._target.call(source.get(self._target.name(key)))
        return self._buffer.value(key, None if found is None else found.decode())

    async def write(self, key: str, value: str) -> None:
        """Set one key, now or in the end."""
        name = self._target.name(key, written=True)
        if self._level == "plain":
            await self._target.call(self._client.set(name, value))
        else:
            self._buffer.values[key] = value

    async def append(self, key: str, element: int) -> None:
        """Push to one list, now or in the end."""
        name = self._target.name(key, written=True)
        if self._level == "plain":
            await self._target.call(self._client.rpush(name, element))
        else:
            self._buffer.elements.setdefault(key, []).append(element)

    async def read_list(self, key: str) -> list[int]:
        """Read one list."""
        source = await self._watched(key)
        found = await self._target.call(source.lrange(self._target.name(key), 0, -1))
        return self._buffer.items(key, [int(element) for element in found])

    async def scan(self, prefix: str, names: Sequence[str]) -> dict[str, str]:
        """Get all keys that may have a value, at once."""
        source = await self._watched(*names)
        found = await self._target.call(source.mget([self._target.name(name) for name in names]))
        return {name: seen.decode() for name, seen in zip(names, found, strict=True) if seen}

    async def commit(self) -> None:
        """Send what was kept; what was watched must not have changed."""
        pipeline, self._pipeline = self._pipeline, None
        try:
            if self._level == "plain":
                return
            if pipeline.watching:
                pipeline.multi()
                pipeline.ping()  # also one that only reads has to be checked
            for key, value in self._buffer.values.items():
                pipeline.set(self._target.name(key), value)
            for key, elements in self._buffer.elements.items():
                pipeline.rpush(self._target.name(key), *elements)
            await self._target.call(pipeline.execute())
        finally:
            await pipeline.reset()

    async def abort(self) -> None:
        """Forget what was kept; what a plain command has done stays."""
        await self.close()

    async def close(self) -> None:
        """Give the connection back."""
        pipeline, self._pipeline = self._pipeline, None
        if pipeline is not None:
            await pipeline.reset()

    async def _watched(self, *keys: str) -> Any:
        """Watch keys, if that is the level; return what to read by."""
        if self._level != "watch":
            return self._client
        await self._target.call(self._pipeline.watch(*map(self._target.name, keys)))
        return self._pipeline
