"""Which process watches which: the failure detector of the simulated world.

It is perfect: every watched process that crashes is reported, a fixed time later, and no other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coterie.process import ProcessId


class Detector:
    """The watches of all processes."""

    def __init__(self) -> None:
        """Start without watches."""
        self._watched: dict[ProcessId, set[ProcessId]] = {}

    def change(self, watcher: ProcessId, watches: Iterable[tuple[ProcessId, bool]]) -> None:
        """Begin or end some watches."""
        watched = self._watched.setdefault(watcher, set())
        for peer, wanted in watches:
            if wanted:
                watched.add(peer)
            else:
                watched.discard(peer)

    def watchers(self, peer: ProcessId) -> list[ProcessId]:
        """Return the processes that watch this one."""
        return [watcher for watcher, watched in sorted(self._watched.items()) if peer in watched]

    def take(self, watcher: ProcessId, peer: ProcessId) -> bool:
        """End a watch because it is reported; False if it was ended before."""
        watched = self._watched.get(watcher, set())
        if peer not in watched:
            return False
        watched.remove(peer)
        return True

    def forget(self, watcher: ProcessId) -> None:
        """End all watches of a process that has lost its memory."""
        self._watched.pop(watcher, None)
