"""Who is measured, by the names for `-p`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from benchmarks.transactions.peers.ours import SCHEMES

if TYPE_CHECKING:
    from benchmarks.transactions.peers.base import Peer

# In the order of the tables: in memory first, then on disk.
PEERS = {
    "dict": ("memory", "LockedDict"),
    **dict.fromkeys(SCHEMES, ("ours", "Ours")),
    "zodb": ("zodb", "Zodb"),
    "redis": ("redis_watch", "RedisWatch"),
    "two-phase-locking-disk": ("ours", "OursOnDisk"),
    "zodb-disk": ("zodb", "ZodbOnDisk"),
    "sqlite-disk": ("sqlite", "Sqlite"),
    "lmdb-disk": ("lmdb", "Lmdb"),
    "postgresql-disk": ("postgresql", "Raw"),
    "store-on-postgresql-disk": ("postgresql", "OursOnPostgresql"),
}


def make(key: str) -> Peer:
    """Make a peer; its libraries are imported when it is opened."""
    module, name = PEERS[key]
    kind = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    peer: Peer = kind(key.removesuffix("-disk"))
    return peer
