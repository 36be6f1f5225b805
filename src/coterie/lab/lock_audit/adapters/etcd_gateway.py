"""`Lock` of etcd3gw: a key of etcd with a lease, by the gateway that speaks JSON."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import etcd3gw

if TYPE_CHECKING:
    from coterie.lab.lock_audit.adapter import LockPlace

SERVER = "etcd"
LEASE = 2.0
LIBRARY = "etcd3gw"
RETRY_SECONDS = 0.1  # the library tries once, and leaves it to programs how they wait


class GatewayLock:
    """A lock, over connections of its own."""

    def __init__(self, port: int, name: str) -> None:
        """Prepare; a call that gets no answer fails."""
        client = etcd3gw.client(host="127.0.0.1", port=port, timeout=5)
        self._lock = client.lock(name, ttl=int(LEASE))

    def acquire(self) -> bool:
        """Try until it is ours."""
        while not self._lock.acquire():
            time.sleep(RETRY_SECONDS)
        return True

    def ask(self) -> bool:
        """Ask the server whether the key is ours."""
        return bool(self._lock.is_acquired())

    def release(self) -> bool:
        """Delete the key if it is ours; False if it is not."""
        return bool(self._lock.release())


def lock(place: LockPlace, name: str) -> GatewayLock:
    """Prepare a lock."""
    return GatewayLock(place.port, name)
