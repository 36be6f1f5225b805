"""What a simulated process finds in the place of the real system: `coterie.system`, as its machine has it."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

from coterie.lab.stack.world.syncer import SimulatedSyncer
from coterie.lab.stack.world.watch import SimulatedWatch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from coterie.lab.stack.world.machine import Process


class SimulatedSystem:
    """The clocks, the randomness, the name and the disk of one simulated process."""

    def __init__(self, process: Process) -> None:
        """Begin; each process draws from a generator of its own."""
        self._process = process
        self._machine = process.machine
        self.random = process.random

    def now(self) -> float:
        """Read the clock that counts sleep."""
        return self._machine.boottime(self._process.read())

    def monotonic(self) -> float:
        """Read the clock that does not."""
        return self._machine.monotonic(self._process.read())

    def wall(self) -> float:
        """Read the time of day."""
        return self._machine.wall(self._process.read())

    def boot(self) -> str:
        """Name this run of the machine."""
        return self._machine.boot_id

    def pid(self) -> int:
        """Return the number of the process."""
        return self._process.pid

    def life(self, children: Sequence[int] | None = ()) -> str:
        """Name this process, which has no children, in a world in which others can see it end."""
        if not self._machine.world.has_witnesses:
            return ""
        return f"{self._machine.boot_id} 1 0 " + ("" if children is None else f"{self.pid()}:1")

    def is_near(self, life: str) -> bool:
        """Return whether a life is of this machine, and of this run of it."""
        return life.partition(" ")[0] == self._machine.boot_id

    def watch(self, tell: Callable[[str], None]) -> SimulatedWatch:
        """Return what tells of each watched life when it has ended."""
        return SimulatedWatch(self._process, tell)

    def host_name(self) -> str:
        """Return the name of the machine."""
        return self._machine.name

    def sync(self, descriptor: int) -> None:
        """Sync to the disk of the machine, which takes time, may fail, and may be interrupted."""
        self._machine.disk.sync(self._process, descriptor)

    def syncer(self) -> SimulatedSyncer:
        """Return what syncs files of the machine while the process goes on."""
        return SimulatedSyncer(self._process)

    def lock(self, file: IO[bytes]) -> None:
        """Lock a file of the machine, until it is closed or the process is dead."""
        self._machine.disk.lock(self._process, file)
