"""The recipe `Lock` of kazoo: an ephemeral, sequential node of ZooKeeper, which ends with the session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kazoo.client import KazooClient, KazooState

if TYPE_CHECKING:
    from coterie.lab.lock_audit.adapter import LockPlace

SERVER = "zookeeper"
LEASE = 2.0  # the session's timeout
LIBRARY = "kazoo"


class KazooLock:
    """A lock, over a session of its own; its documentation asks for a listener, which doubts the lock."""

    def __init__(self, port: int, name: str) -> None:
        """Connect."""
        self._client = KazooClient(f"127.0.0.1:{port}", timeout=LEASE)
        self._client.add_listener(self._notice)
        self._client.start(timeout=10)
        self._lock = self._client.Lock(f"/audited/{name}")
        self._in_doubt = False

    def _notice(self, state: str) -> None:
        if state != KazooState.CONNECTED:
            self._in_doubt = True

    def acquire(self) -> bool:
        """Wait for the lock."""
        self._in_doubt = False
        return bool(self._lock.acquire())

    def held(self) -> bool:
        """Say whether the connection has been there since the lock was asked for."""
        return not self._in_doubt

    def release(self) -> bool:
        """Remove the node."""
        return bool(self._lock.release())

    def close(self) -> None:
        """End the session."""
        self._client.stop()
        self._client.close()


def lock(place: LockPlace, name: str) -> KazooLock:
    """Connect to the server."""
    return KazooLock(place.port, name)
