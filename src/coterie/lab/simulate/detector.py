"""Which process watches which: the failure detector of the simulated world.

It is perfect: every watched process that crashes is reported, a fixed time later, and no other. One
that returns without memory before that time is reported at once: its return shows that it was down. No
report of an earlier life concerns those that have begun to watch a later one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from coterie.process import ProcessId


class Detector:
    """The watches of all processes."""

    def __init__(self) -> None:
        """Start without watches."""
        self._watched: dict[ProcessId, dict[ProcessId, int]] = {}  # since which life of the peer

    def change(
        self,
        watcher: ProcessId,
        watches: Iterable[tuple[ProcessId, bool]],
        lives: Mapping[ProcessId, int],
    ) -> None:
        """Begin or end some watches; `lives` says how often each process has returned so far."""
        watched = self._watched.setdefault(watcher, {})
        for peer, wanted in watches:
            if wanted:
                watched.setdefault(peer, lives.get(peer, 0))
            else:
                watched.pop(peer, None)

    def watchers(self, peer: ProcessId) -> list[ProcessId]:
        """Return the processes that watch this one."""
        return [watcher for watcher, watched in sorted(self._watched.items()) if peer in watched]

    def take(self, watcher: ProcessId, peer: ProcessId, life: int) -> bool:
        """End a watch because that life is over; False if it was ended before, or began after."""
        watched = self._watched.get(watcher, {})
        if peer not in watched or watched[peer] > life:
            return False
        del watched[peer]
        return True

    def forget(self, watcher: ProcessId) -> None:
        """End all watches of a process that has lost its memory."""
        self._watched.pop(watcher, None)
