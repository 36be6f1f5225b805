"""coterie on the servers of its peers: the same servers, with our locks instead of theirs."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import coterie
from benchmarks.locks.machine import HOST
from benchmarks.locks.peers.base import Need, Peer
from benchmarks.locks.peers.etcd import Etcd
from benchmarks.locks.peers.mariadb import USER, Mariadb
from benchmarks.locks.peers.nats_kv import Nats
from benchmarks.locks.peers.ours import OurClient
from benchmarks.locks.peers.postgres import Postgres
from benchmarks.locks.peers.redis_lock import Redis
from benchmarks.locks.peers.zookeeper import ZooKeeper
from benchmarks.locks.programs import find_program

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.locks.machine import Server
    from coterie import Coordinator

OPENING_SECONDS_MAX = 60.0


class OnServer(Peer):
    """Our locks on the servers that a peer starts."""

    host: ClassVar[type[Peer]]

    def __init__(self) -> None:
        super().__init__()
        self._host = self.host()
        self._shared: Coordinator | None = None

    def start(self, folder: Path) -> None:
        self._host.start(folder)
        self.servers = self._host.servers
        # A server that has just started may grant nothing before leases of a former run are over.
        with coterie.sync.connect(self.url(self.settings())) as c:
            c.lock("open").acquire(timeout=OPENING_SECONDS_MAX)

    def stop(self) -> None:
        self._host.stop()

    def settings(self, *, surviving: bool = False) -> dict[str, Any]:
        return self._host.settings(surviving=surviving)

    def victim(self) -> Server:
        return self._host.victim()

    async def connect(self, settings: dict[str, Any], *, shared: bool) -> OurClient:
        if not shared or self._shared is None:
            self._shared = coterie.connect(self.url(settings))
            await self._shared.open()
        return OurClient(self._shared)

    @abstractmethod
    def url(self, settings: dict[str, Any]) -> str:
        """Name the servers as our engine wants it."""


class OnRedis(OnServer):
    label = "coterie on Redis"
    host = Redis
    servers_label, on_disk, needs = Redis.servers_label, Redis.on_disk, Redis.needs

    def url(self, settings: dict[str, Any]) -> str:
        return f"redis://{HOST}:{settings['port']}"


class OnEtcd(OnServer):
    label = "coterie on etcd, three nodes"
    host = Etcd
    servers_label, on_disk, needs = Etcd.servers_label, Etcd.on_disk, Etcd.needs
    has_failover = True

    def url(self, settings: dict[str, Any]) -> str:
        return "etcd://" + ",".join(f"{HOST}:{port}" for port in settings["ports"])


class OnZooKeeper(OnServer):
    label = "coterie on ZooKeeper, three nodes"
    host = ZooKeeper
    servers_label, on_disk = ZooKeeper.servers_label, ZooKeeper.on_disk
    needs = (*ZooKeeper.needs, Need("coterie[zookeeper]", module="coterie.engines.zookeeper"))
    has_failover = True
    settling_seconds = ZooKeeper.settling_seconds

    def url(self, settings: dict[str, Any]) -> str:
        return "zookeeper://" + ",".join(f"{HOST}:{port}" for port in settings["ports"])


class OnPostgres(OnServer):
    label = "coterie on PostgreSQL"
    host = Postgres
    servers_label, on_disk, needs = Postgres.servers_label, Postgres.on_disk, Postgres.needs

    def url(self, settings: dict[str, Any]) -> str:
        return f"postgresql://{settings['user']}@{HOST}:{settings['port']}/postgres"


class OnMariadb(OnServer):
    label = "coterie on MariaDB"
    host = Mariadb
    servers_label, on_disk, needs = Mariadb.servers_label, "the entry", Mariadb.needs

    def url(self, settings: dict[str, Any]) -> str:
        return f"mariadb://{USER}@{HOST}:{settings['port']}"


class OnNats(OnServer):
    label = "coterie on NATS"
    host = Nats
    servers_label, on_disk = Nats.servers_label, Nats.on_disk
    needs = (Need("nats-server", program=find_program("nats-server")),)

    def url(self, settings: dict[str, Any]) -> str:
        return f"nats://{HOST}:{settings['port']}"
