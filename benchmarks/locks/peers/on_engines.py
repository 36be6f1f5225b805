"""coterie on the servers of its peers: the same servers, with our locks instead of theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import coterie
from benchmarks.locks.machine import HOST
from benchmarks.locks.peers.base import Need
from benchmarks.locks.peers.etcd import Etcd
from benchmarks.locks.peers.ours import OurClient
from benchmarks.locks.peers.postgres import Postgres
from benchmarks.locks.peers.redis_lock import Redis
from benchmarks.locks.peers.zookeeper import ZooKeeper

if TYPE_CHECKING:
    from pathlib import Path

    from coterie.locks import Coordinator

OPENING_SECONDS_MAX = 60.0


class Programs:
    """The programs of one worker: with one coordinator for all, or one for each client."""

    def __init__(self) -> None:
        self._shared: Coordinator | None = None

    async def client(self, url: str, *, shared: bool) -> OurClient:
        if not shared or self._shared is None:
            self._shared = coterie.connect(url)
            await self._shared.open()
        return OurClient(self._shared)


class OnEtcd(Etcd):
    label = "coterie on etcd, three nodes"

    def __init__(self) -> None:
        super().__init__()
        self._programs = Programs()

    async def connect(self, settings: dict[str, Any], *, shared: bool) -> OurClient:
        url = "etcd://" + ",".join(f"{HOST}:{port}" for port in settings["ports"])
        return await self._programs.client(url, shared=shared)


class OnRedis(Redis):
    label = "coterie on Redis"

    def __init__(self) -> None:
        super().__init__()
        self._programs = Programs()

    def start(self, folder: Path) -> None:
        super().start(folder)
        # A server that has just started grants nothing before leases of a former run are over.
        with coterie.sync.connect(f"redis://{HOST}:{self.port}") as c:
            c.lock("open").acquire(timeout=OPENING_SECONDS_MAX)

    async def connect(self, settings: dict[str, Any], *, shared: bool) -> OurClient:
        return await self._programs.client(f"redis://{HOST}:{settings['port']}", shared=shared)


class OnPostgres(Postgres):
    label = "coterie on PostgreSQL"
    needs = (
        *Postgres.needs,
        Need("coterie[postgresql]", module="coterie.engines.postgresql"),
    )

    def __init__(self) -> None:
        super().__init__()
        self._programs = Programs()

    async def connect(self, settings: dict[str, Any], *, shared: bool) -> OurClient:
        url = f"postgresql://{settings['user']}@{HOST}:{settings['port']}/postgres"
        return await self._programs.client(url, shared=shared)


class OnZooKeeper(ZooKeeper):
    label = "coterie on ZooKeeper, three nodes"
    needs = (
        *ZooKeeper.needs,
        Need("coterie[zookeeper]", module="coterie.engines.zookeeper"),
    )
    is_blocking = False

    def __init__(self) -> None:
        super().__init__()
        self._programs = Programs()

    async def connect(self, settings: dict[str, Any], *, shared: bool) -> OurClient:
        url = "zookeeper://" + ",".join(f"{HOST}:{port}" for port in settings["ports"])
        return await self._programs.client(url, shared=shared)
