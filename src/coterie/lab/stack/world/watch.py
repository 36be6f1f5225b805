"""What a simulated process sees of the ends of others of its machine: `coterie.system.witness`, as its kernel has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from coterie.lab.stack.world.machine import Process


class SimulatedWatch:
    """Tells of each watched life when its process has ended."""

    def __init__(self, process: Process, tell: Callable[[str], None]) -> None:
        """Watch nothing yet."""
        self._process = process
        self._tell = tell
        self._watched: set[str] = set()

    def set(self, lives: Sequence[str]) -> None:
        """Watch these from now on, and no others."""
        self._watched &= {*lives}
        for life in lives:
            self.add(life)

    def add(self, life: str) -> None:
        """Watch this one, too; one that is over is told of in a turn of its own."""
        if life in self._watched or not self._process.system.is_near(life):
            return
        self._watched.add(life)
        pid = int(life.rpartition(" ")[2].partition(":")[0])
        other = next(each for each in self._process.machine.processes if each.pid == pid)
        if other.is_alive:
            other.at_end.append(lambda: self._report(life))
        else:
            self._report(life)

    def remove(self, life: str) -> None:
        """Watch this one no more."""
        self._watched.discard(life)

    def close(self) -> None:
        """Watch nothing any more."""
        self._watched.clear()

    def _report(self, life: str) -> None:
        if self._process.is_alive:
            self._process.loop.hand_in(self._hear, life)

    def _hear(self, life: str) -> None:
        if life in self._watched:
            self._watched.remove(life)
            self._tell(life)
