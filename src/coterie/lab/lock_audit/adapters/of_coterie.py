"""Locks of coterie, by its public interface: on this machine, or on the server of an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import coterie.sync

if TYPE_CHECKING:
    from coterie.lab.lock_audit.adapter import LockPlace

LEASE = 2.0
LIBRARY = "coterie"


class OurLock:
    """A lock, over a connection of its own."""

    def __init__(self, url: str, name: str) -> None:
        """Connect."""
        self._coordinator = coterie.sync.connect(url).__enter__()
        self._lock = self._coordinator.lock(name)
        self._held: coterie.sync.Held | None = None

    def acquire(self) -> bool:
        """Wait for the lock."""
        self._held = self._lock.acquire()
        return self._held is not None

    @property
    def token(self) -> int:
        """The fence of this hold."""
        assert self._held is not None
        return self._held.token

    def held(self) -> bool:
        """Say whether the hold is in force."""
        assert self._held is not None
        return self._held.valid

    def release(self) -> None:
        """Give it back; it raises LockLost if it was lost."""
        assert self._held is not None
        self._held.ensure()
        self._held.release()

    def close(self) -> None:
        """Disconnect."""
        self._coordinator.__exit__(None, None, None)


def lock(place: LockPlace, name: str) -> OurLock:
    """Connect to the servers, or to the folder where there are none."""
    return OurLock(url_of(place), name)


def url_of(place: LockPlace) -> str:
    """Name the servers; a cluster has its lease in its settings."""
    if not place.url:
        return f"file:{place.folder}"
    if place.url.startswith("coterie://"):
        return "coterie://" + ",".join(f"127.0.0.1:{port}" for port in place.ports)
    return f"{place.url}?lease={LEASE:g}"
