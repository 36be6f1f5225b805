"""`Lock` of redis-py: SET NX PX on one server, and a script that deletes the key if it is still ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import redis

if TYPE_CHECKING:
    from coterie.lab.lock_audit.adapter import LockPlace

SERVER = "valkey"
LEASE = 2.0
LIBRARY = "redis"


class RedisLock:
    """A lock, over a connection of its own."""

    def __init__(self, client: redis.Redis, name: str) -> None:
        """Prepare; the timeout is the life of the lock."""
        self._client = client
        self._lock = client.lock(name, timeout=LEASE)

    def acquire(self) -> bool:
        """Wait for the lock."""
        return bool(self._lock.acquire())

    def ask(self) -> bool:
        """Ask the server whether the key is ours."""
        return bool(self._lock.owned())

    def release(self) -> None:
        """Delete the key if it is ours; else it raises LockNotOwnedError."""
        self._lock.release()

    def close(self) -> None:
        """Disconnect."""
        self._client.close()


def lock(place: LockPlace, name: str) -> RedisLock:
    """Connect to the server; a call that gets no answer fails."""
    return RedisLock(redis.Redis("127.0.0.1", place.port, socket_timeout=5), name)
