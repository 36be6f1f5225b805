"""NATS, one server, with what its users make locks of: a key of a bucket that is created, and deleted at the end.

One that finds the key watches it, and tries again when it was deleted. A lease would be the age limit of the bucket, which
all keys have in common; it is not used here, and neither is there an order of service.
"""

from __future__ import annotations

import asyncio
import importlib
from typing import TYPE_CHECKING, Any

from benchmarks.locks.machine import HOST, Server, free_ports, is_listening, wait_until
from benchmarks.locks.peers.base import Need, Peer
from benchmarks.locks.programs import find_program

if TYPE_CHECKING:
    from pathlib import Path

BUCKET = "locks"


class Nats(Peer):
    label = "NATS, a key of a bucket, nats-py"
    servers_label = "1"
    on_disk = "nothing"
    needs = (
        Need("nats-server", program=find_program("nats-server")),
        Need("nats-py", module="nats"),
    )
    port: int
    _shared: Any = None

    def start(self, folder: Path) -> None:
        (self.port,) = free_ports(1)
        command = [find_program("nats-server"), "--addr", HOST, "--port", str(self.port)]
        self.servers = [Server([*command, "--jetstream", "--store_dir", str(folder)], folder)]
        wait_until(lambda: is_listening(self.port), "NATS")

    def settings(self, *, surviving: bool = False) -> dict[str, Any]:
        return {"port": self.port}

    async def connect(self, settings: dict[str, Any], *, shared: bool) -> NatsClient:
        if not shared or self._shared is None:
            library = importlib.import_module("nats")
            made = await library.connect(f"nats://{HOST}:{settings['port']}")
            self._shared = await made.jetstream().create_key_value(bucket=BUCKET)
        return NatsClient(self._shared)


class NatsClient:
    def __init__(self, bucket: Any) -> None:
        self._bucket = bucket
        self._taken = importlib.import_module("nats.js.errors").KeyWrongLastSequenceError

    async def acquire(self, name: str, timeout: float | None) -> tuple[str, int]:  # noqa: ASYNC109 - as peers
        async with asyncio.timeout(timeout):
            while True:
                try:
                    return name, await self._bucket.create(name, b"")
                except self._taken:
                    await self._until_deleted(name)

    async def release(self, held: tuple[str, int]) -> None:
        name, revision = held
        await self._bucket.delete(name, last=revision)

    async def _until_deleted(self, name: str) -> None:
        watcher = await self._bucket.watch(name)
        try:
            async for entry in watcher:
                if entry is None or entry.operation is not None:
                    return
        finally:
            await watcher.stop()
