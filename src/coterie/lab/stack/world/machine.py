"""Simulated machines with their clocks, and the processes that run on them.

A machine reads three clocks: the time since its boot, which counts sleep; the monotonic clock, which
does not; and the time of day. Each is a function of the true time, with a rate and an error of its
own, so drift, sleep and reboot need no further mechanism.
"""

from __future__ import annotations

import asyncio
import contextlib
from random import Random
from typing import TYPE_CHECKING, Any

from coterie import system
from coterie.lab.stack.world.disk import Disk
from coterie.lab.stack.world.loop import Loop
from coterie.lab.stack.world.system import SimulatedSystem

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from pathlib import Path

    from coterie.lab.stack.world.network import Listener, Socket
    from coterie.lab.stack.world.world import World

READING_SECONDS = 0.5e-6  # that it takes to read a clock: without it a loop over a clock never ends
YEAR_2026 = 1_767_225_600.0
UPTIME_SECONDS = 1_000.0  # of a machine at the beginning


class Machine:
    """One computer: its clocks, its disk, its name in the network."""

    def __init__(self, world: World, name: str, folder: Path, rate: float, wall: float) -> None:
        """Switch it on, `rate` seconds of its clocks to one second of true time."""
        self.world = world
        self.name = name
        self.rate = rate
        self.disk = Disk(folder, Random(f"{world.seed}/disk/{name}"))
        self.own_disk = self.disk  # the one that belongs there
        self.is_up = True
        self.boots = 1
        self.processes: list[Process] = []
        self.listeners: dict[int, Listener] = {}
        self._booted = -UPTIME_SECONDS / rate
        self._slept = 0.0
        self._wall = YEAR_2026 + wall

    @property
    def boot_id(self) -> str:
        """The name of this run of the machine."""
        return f"{self.name}-boot-{self.boots}"

    def boottime(self, true: float) -> float:
        """Return the time since the boot, asleep or awake."""
        return self.rate * (true - self._booted)

    def monotonic(self, true: float) -> float:
        """Return the time since the boot, without that asleep."""
        return self.rate * (true - self._booted - self._slept)

    def wall(self, true: float) -> float:
        """Return the time of day."""
        return self._wall + self.rate * true

    def true_at(self, monotonic: float) -> float:
        """Return the true time at which the monotonic clock shows this, if it does not sleep."""
        return monotonic / self.rate + self._booted + self._slept

    def step_wall(self, seconds: float) -> None:
        """Set the time of day forward or back."""
        self._wall += seconds

    def set_wall(self, error: float) -> None:
        """Set the time of day, wrong by so many seconds."""
        self._wall = YEAR_2026 + error

    def sleep(self, seconds: float) -> None:
        """Suspend all that runs here; the monotonic clock stands still meanwhile."""
        until = self.world.now + seconds
        self._slept += seconds
        for process in self.living():
            process.pause(until)

    def living(self) -> list[Process]:
        """List the processes that run."""
        return [process for process in self.processes if process.is_alive]

    def power_off(self) -> None:
        """End everything at once; what was not synced may be gone, and no peer hears of it."""
        for process in self.living():
            process.die(silently=True)
        self.is_up = False
        self.listeners.clear()
        self.world.network.forget_unsent(self)
        self.disk.lose_power()

    def swap_disks(self, other: Machine) -> None:
        """Give each of two machines the disk of the other; both are off."""
        assert not self.is_up, "it runs from its disk"
        assert not other.is_up, "it runs from its disk"
        here, there = self.disk.folder, other.disk.folder
        between = here.with_name(f"{here.name}-swapped")
        self.disk.move(between)
        other.disk.move(here)
        self.disk.move(there)
        self.disk, other.disk = other.disk, self.disk

    def power_on(self) -> None:
        """Boot."""
        self.is_up = True
        self.boots += 1
        self._booted = self.world.now
        self._slept = 0.0


class Process:
    """One simulated process: an event loop, a number, and randomness of its own."""

    def __init__(
        self, machine: Machine, name: str, life: int, on_end: Callable[[Process], None]
    ) -> None:
        """Prepare its `life`-th start; `on_end` hears when it ends by itself."""
        self._on_end = on_end
        self.world = machine.world
        self.machine = machine
        self.name = name
        self.life = life
        self.number = self.world.number_of(name)
        self.pid = self.world.next_pid()
        self.random = Random(f"{self.world.seed}/product/{name}/{life}")
        self.is_alive = True
        self.lag = 0.0  # true time that this turn has taken so far
        self.busy_until = 0.0
        self.late_until = 0.0  # until when it could not do what is due; for the monitors
        self.next_turn: float | None = None
        self.sockets: dict[int, Socket] = {}
        self.syncs_left: int | None = None  # before it dies in the middle of a turn
        self.sends_left: int | None = None  # the same, counted in writes to sockets
        self.dies_with_power = False
        self.died_in_turn = False  # so what it knew last may never have been on its disk
        self.at_end_of_turn: list[Callable[[], None]] = []
        self.at_end: list[Callable[[], None]] = []  # what the kernel does when it has ended
        self.loop = Loop(self)
        self.system = SimulatedSystem(self)
        self.error: BaseException | None = None
        machine.processes.append(self)

    def run(self, main: Coroutine[Any, Any, None]) -> None:
        """Run this to its end, which is the end of the process."""
        task = self.loop.create_task(main, name="main")
        task.add_done_callback(self._end)
        self.wake(self.world.now)

    def _end(self, task: asyncio.Task[None]) -> None:
        if not self.is_alive:
            return
        if not task.cancelled():
            self.error = task.exception()
        self.world.note_end(self)
        self._on_end(self)
        self.die()

    # Time

    def true_now(self) -> float:
        """Return the true time as far as this turn has got."""
        return self.world.now + self.lag

    def read(self) -> float:
        """Return the true time for a reading of a clock, which takes a moment itself."""
        self.lag += READING_SECONDS
        return self.world.now + self.lag

    def pause(self, until: float) -> None:
        """Take no turn until then: stopped, asleep, or with a loop that something blocks."""
        self.busy_until = max(self.busy_until, until)
        self.late_until = max(self.late_until, self.busy_until)
        self.next_turn = None
        self.wake(until)

    def wake(self, at: float) -> None:
        """Take a turn then, or before if one is due."""
        at = max(at, self.busy_until)
        if self.is_alive and (self.next_turn is None or at < self.next_turn):
            self.next_turn = at
            self.world.at(at, self._take_turn, at)

    def _take_turn(self, due: float) -> None:
        if not self.is_alive or self.next_turn != due:
            return
        self.next_turn = None
        self.lag = 0.0
        with as_current(self):
            self.loop.turn()
        ended = self.true_now()
        self.lag = 0.0
        for work in self.at_end_of_turn:
            work()
        self.at_end_of_turn.clear()
        if not self.is_alive:
            return
        self.busy_until = max(self.busy_until, ended + self.world.turn_cost())
        when = self.loop.next_due()
        if when is not None:
            self.wake(max(ended, self.machine.true_at(when)))

    # Ends

    def die(self, *, silently: bool = False) -> None:
        """End at this instant; the kernel closes its sockets, unless the machine is gone as well."""
        if not self.is_alive:
            return
        self.is_alive = False
        for port, listener in list(self.machine.listeners.items()):
            if listener.process is self:
                del self.machine.listeners[port]
        for socket in list(self.sockets.values()):
            if silently:
                socket.vanish()
            else:
                socket.close(self.true_now())
        for report in self.at_end:
            report()
        self.world.bury(self)

    def vanish(self) -> None:
        """Have no effect on anything any more, with the world."""
        self.is_alive = False
        for socket in list(self.sockets.values()):
            socket.vanish()

    def bury(self) -> None:
        """Close what is left of its tasks."""
        with as_current(self):
            self.loop.bury_tasks()
        self.loop.close()
        self.error = None  # its traceback keeps all that the process had, open files too

    def die_after_syncs(self, count: int, *, with_power: bool = False) -> None:
        """Die in the middle of a turn, when so many more files have been synced."""
        self.syncs_left = count
        self.dies_with_power = with_power

    def die_after_sends(self, count: int, *, with_power: bool = False) -> None:
        """Die in the middle of a turn, when so many more writes have left."""
        self.sends_left = count
        self.dies_with_power = with_power

    def note_send(self) -> None:
        """Take note that bytes have left."""
        if self.sends_left is not None and self.is_alive:
            self.sends_left -= 1
            if self.sends_left < 0:
                self.die_in_turn()

    def die_in_turn(self) -> None:
        """Die now, while a turn runs: the rest of the turn has no effect on anything outside."""
        self.died_in_turn = True
        if self.dies_with_power:
            self.machine.power_off()
        else:
            self.die()
        self.at_end_of_turn.append(self.machine.disk.freeze())


@contextlib.contextmanager
def as_current(process: Process) -> Iterator[None]:
    """Run a piece of code in the name of a process: on its system, with its event loop."""
    loop_before = asyncio._get_running_loop()  # noqa: SLF001 - as every event loop does
    before = system.move_to(process.system)
    asyncio._set_running_loop(process.loop)  # noqa: SLF001
    try:
        yield
    finally:
        system.move_to(before)
        asyncio._set_running_loop(loop_before)  # noqa: SLF001


@contextlib.contextmanager
def observed(process: Process, at: float) -> Iterator[None]:
    """Look at the state of a process as its own clock shows it at this true time."""
    lag, process.lag = process.lag, at - process.world.now
    try:
        with as_current(process):
            yield
    finally:
        process.lag = lag
