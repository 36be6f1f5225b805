"""`Redlock` of pottery: SET NX PX on three servers that know nothing of each other, and a majority decides."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pottery
import redis

if TYPE_CHECKING:
    from coterie.lab.lock_audit.adapter import LockPlace

SERVER = "valkey3"
LEASE = 2.0
LIBRARY = "pottery"
ANSWER_SECONDS = 0.5  # for one server; small beside the lease, as the algorithm has it


class ThreeServerLock:
    """A lock, over connections of its own."""

    def __init__(self, ports: tuple[int, ...], name: str) -> None:
        """Prepare."""
        self._masters = [
            redis.Redis("127.0.0.1", port, socket_timeout=ANSWER_SECONDS) for port in ports
        ]
        self._lock = pottery.Redlock(key=name, masters=set(self._masters), auto_release_time=LEASE)

    def acquire(self) -> bool:
        """Wait for the lock."""
        return bool(self._lock.acquire())

    def ask(self) -> bool:
        """Ask the servers whether the lock is in force."""
        return bool(self._lock.locked())

    def release(self) -> None:
        """Delete the keys; ReleaseUnlockedLock if they are not ours."""
        self._lock.release()

    def close(self) -> None:
        """Disconnect."""
        for master in self._masters:
            master.close()


def lock(place: LockPlace, name: str) -> ThreeServerLock:
    """Connect to the servers."""
    logging.getLogger("pottery").setLevel(logging.CRITICAL)  # it logs each server that is away
    return ThreeServerLock(place.ports, name)
