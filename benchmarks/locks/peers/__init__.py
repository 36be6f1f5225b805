"""Who is measured. Each module is loaded only where it is needed, for the sake of the workers."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.locks.peers.base import Peer

PEERS = {
    "coterie-3": "ours.Served",
    "coterie-3-uvloop": "ours.ServedOnUvloop",
    "coterie-embedded": "ours.Embedded",
    "table": "table.Table",
    "redis": "redis_lock.Redis",
    "redis-5ms": "redis_lock.RedisPolled",
    "redlock-3": "redlock.Redlock",
    "coterie-on-redis": "on_engines.OnRedis",
    "etcd-3": "etcd.Etcd",
    "coterie-on-etcd": "on_engines.OnEtcd",
    "zookeeper-3": "zookeeper.ZooKeeper",
    "coterie-on-zookeeper": "on_engines.OnZooKeeper",
    "postgres": "postgres.Postgres",
    "postgres-rows": "rows.PostgresRows",
    "coterie-on-postgresql": "on_engines.OnPostgres",
    "mariadb": "mariadb.Mariadb",
    "mariadb-rows": "rows.MariadbRows",
    "coterie-on-mariadb": "on_engines.OnMariadb",
    "nats": "nats_kv.Nats",
    "coterie-on-nats": "on_engines.OnNats",
}


def make(key: str) -> Peer:
    module, _, name = PEERS[key].partition(".")
    peer: Peer = getattr(importlib.import_module(f"{__name__}.{module}"), name)()
    return peer
