"""Who asks for what, and when.

A workload is a value: all that changes during a run lives in the world, or in what the workload has
asked the world to do next. So one workload serves any number of runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeAlias

from coterie.errors import UsageError
from coterie.process import Entered
from coterie.simulate.network import Constant, check_processes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from coterie.process import Event, ProcessId
    from coterie.simulate.network import Latency

    Action: TypeAlias = Callable[[], None]


class World(Protocol):
    """What a workload may see and do."""

    @property
    def size(self) -> int:
        """The number of processes."""

    @property
    def random(self) -> Random:
        """The workload's own stream of random numbers."""

    def ask(self, process: ProcessId) -> None:
        """Let its user acquire: now, or as soon as it can."""

    def leave(self, process: ProcessId) -> None:
        """Let its user release."""

    def is_inside(self, process: ProcessId) -> bool:
        """Tell whether its user is in the critical section."""

    def entries(self, process: ProcessId) -> int:
        """Count how often its user has entered."""

    def after(self, delay: float, action: Action, of: ProcessId | None = None) -> None:
        """Act later; what the user `of` a process wants to do waits and dies with its process."""

    def when_silent(self, action: Action) -> None:
        """Act once no message is under way and no user is about to act; timers may be armed."""

    def when_quiet(self, action: Action) -> None:
        """Act once it is silent and nobody is inside or waiting."""


@dataclass(frozen=True, kw_only=True)
class Workload:
    """Base of all workloads; by itself it asks nothing, for processes that work by themselves."""

    hold: float | Latency = 0.0  # how long a user stays inside
    requesters: Sequence[ProcessId] | None = None  # None = every process

    def start(self, world: World) -> None:
        """Begin, all processes having started."""

    def told(self, world: World, process: ProcessId, event: Event) -> None:
        """Hear what a process tells its user; one who entered leaves in due time."""
        if isinstance(event, Entered):
            world.after(self._stay(world, process), partial(world.leave, process), of=process)

    def left(self, world: World, process: ProcessId) -> None:
        """Hear that a user has left, or has come back from a crash inside without memory."""

    def askers(self, world: World) -> Sequence[ProcessId]:
        """Name those who ask."""
        if self.requesters is None:
            return range(1, world.size + 1)
        if not self.requesters:
            raise UsageError("a workload needs at least one requester")
        check_processes("the workload", self.requesters, world.size)
        return self.requesters

    def _stay(self, world: World, process: ProcessId) -> float:
        hold = Constant(self.hold) if isinstance(self.hold, int | float) else self.hold
        return hold.sampler(world.random)(process, process)


@dataclass(frozen=True)
class OneAtATime(Workload):
    """The next one asks when the last has left and all is quiet: the cost without contention.

    The second requester goes first, so that with two or more nobody follows itself and a token that
    the first one starts with has to travel. With `repeat` 2 each enters twice in a row, which gives
    the cost of entering again.
    """

    count: int = field(kw_only=False)
    requesters: Sequence[ProcessId] | None = field(default=None, kw_only=False)
    repeat: int = 1

    def __post_init__(self) -> None:
        """Refuse a workload without entries."""
        _at_least(1, self.count, "entries")
        _at_least(1, self.repeat, "repeat")

    def start(self, world: World) -> None:
        """Let the first one ask."""
        self._turn(world, 0)

    def _turn(self, world: World, turn: int) -> None:
        if turn == self.count:
            return
        askers = self.askers(world)
        world.ask(askers[(turn // self.repeat + 1) % len(askers)])
        world.when_quiet(partial(self._turn, world, turn + 1))


def _at_least(least: float, value: float, name: str) -> None:
    if not value >= least:
        raise UsageError(f"{name} must be at least {least:g}, not {value}")
