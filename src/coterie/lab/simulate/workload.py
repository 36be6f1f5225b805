"""Who asks for what, and when.

A workload is a value: all that changes during a run lives in the world, or in what the workload has
asked the world to do next. So one workload serves any number of runs.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from coterie.catalogue import unknown
from coterie.errors import UsageError
from coterie.lab.simulate.network import Constant, check_probability, check_processes
from coterie.process import Entered

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from coterie.lab.simulate.network import Latency
    from coterie.process import Event, ProcessId

    Action: TypeAlias = Callable[[], None]
    Requesters: TypeAlias = Sequence[ProcessId] | None  # None = every process


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

    def entries(self, process: ProcessId) -> int:
        """Count how often its user has entered."""

    def after(self, delay: float, action: Action, of: ProcessId | None = None) -> None:
        """Act later; what the user `of` a process wants to do waits and dies with its process."""

    def when_inside(self, process: ProcessId, action: Action) -> None:
        """Act once its user has entered."""

    def when_silent(self, action: Action) -> None:
        """Act once no message is under way and no user is about to act; timers may be armed."""

    def when_quiet(self, action: Action) -> None:
        """Act once it is silent and no user is inside or waiting."""


@dataclass(frozen=True)
class Workload:
    """Base of all workloads; by itself it asks nothing, for processes that work by themselves."""

    _: KW_ONLY
    hold: float | Latency = 0.0  # how long a user stays inside

    def start(self, world: World) -> None:
        """Begin, all processes having started."""

    def told(self, world: World, process: ProcessId, event: Event) -> None:
        """Hear what a process tells its user; one that entered leaves in due time."""
        if isinstance(event, Entered):
            stay = _draw(self.hold, world, process) if self.hold else 0.0
            world.after(stay, partial(world.leave, process), process)

    def left(self, world: World, process: ProcessId) -> None:
        """Hear that a user has left, or has come back from a crash inside without memory."""


@dataclass(frozen=True)
class OneAtATime(Workload):
    """The next one asks when the last has left and all is quiet: the cost without contention.

    The second requester goes first, so that with two or more none follows itself and a token that
    the first one starts with has to travel. With `repeat` 2 each enters twice in a row, which gives
    the cost of entering again. In the order "random" the next is any other but the last.
    """

    entries: int
    requesters: Requesters = None
    repeat: int = field(default=1, kw_only=True)
    order: Literal["in turn", "random"] = field(default="in turn", kw_only=True)

    def __post_init__(self) -> None:
        """Refuse a workload without entries."""
        _at_least(1, self.entries, "entries")
        _at_least(1, self.repeat, "repeat")

    def start(self, world: World) -> None:
        """Let the first one ask."""
        self._turn(world, _askers(self.requesters, world), 0, 0)

    def _turn(self, world: World, askers: Sequence[ProcessId], turn: int, last: int) -> None:
        if turn == self.entries:
            return
        place = last if turn % self.repeat else self._next(world, last, len(askers))
        world.ask(askers[place])
        world.when_quiet(partial(self._turn, world, askers, turn + 1, place))

    def _next(self, world: World, last: int, count: int) -> int:
        if self.order == "in turn" or count == 1:
            return (last + 1) % count
        place = world.random.randrange(count - 1)
        return place if place < last else place + 1


@dataclass(frozen=True)
class HandOver(Workload):
    """One leaves while exactly one other waits: the synchronisation delay and nothing else.

    For each pair the first enters alone, the second asks, all falls silent, the first leaves and
    the second enters; then both are out again and all is quiet.
    """

    pairs: Sequence[tuple[ProcessId, ProcessId]]

    def start(self, world: World) -> None:
        """Begin with the first pair."""
        for pair in self.pairs:
            check_processes("a hand-over", pair, world.size)
            if pair[0] == pair[1]:
                raise UsageError(f"process {pair[0]} cannot hand over to itself")
        self._enter(world, 0)

    def told(self, world: World, process: ProcessId, event: Event) -> None:
        """Stay inside until the steps below say otherwise."""

    def _enter(self, world: World, index: int) -> None:
        if index < len(self.pairs):
            leaver, _ = self.pairs[index]
            world.when_inside(leaver, partial(self._settle, world, index))
            world.ask(leaver)

    def _settle(self, world: World, index: int) -> None:
        world.when_silent(partial(self._contend, world, index))

    def _contend(self, world: World, index: int) -> None:
        leaver, waiter = self.pairs[index]
        world.when_inside(waiter, partial(self._finish, world, index))
        world.ask(waiter)
        world.when_silent(partial(world.leave, leaver))

    def _finish(self, world: World, index: int) -> None:
        _, waiter = self.pairs[index]
        super().told(world, waiter, Entered())
        world.when_quiet(partial(self._enter, world, index + 1))


@dataclass(frozen=True)
class Closed(Workload):
    """Everyone always wants in: after leaving and thinking, each asks again."""

    entries_per_process: int
    requesters: Requesters = None
    think: float | Latency = field(default=0.0, kw_only=True)

    def __post_init__(self) -> None:
        """Refuse a workload without entries."""
        _at_least(1, self.entries_per_process, "entries per process")

    def start(self, world: World) -> None:
        """Let everyone ask."""
        for process in _askers(self.requesters, world):
            world.ask(process)

    def left(self, world: World, process: ProcessId) -> None:
        """Let it ask again until it has had its share."""
        if world.entries(process) >= self.entries_per_process:
            return
        thinking = _draw(self.think, world, process) if self.think else 0.0
        if thinking:
            world.after(thinking, partial(world.ask, process))
        else:
            world.ask(process)


@dataclass(frozen=True)
class Burst(Workload):
    """All ask at the same moment; when all is quiet again, once more."""

    rounds: int = 1
    requesters: Requesters = None

    def __post_init__(self) -> None:
        """Refuse a workload without entries."""
        _at_least(1, self.rounds, "rounds")

    def start(self, world: World) -> None:
        """Begin the first round."""
        self._round(world, self.rounds)

    def _round(self, world: World, rounds: int) -> None:
        for process in _askers(self.requesters, world):
            world.ask(process)
        if rounds > 1:
            world.when_quiet(partial(self._round, world, rounds - 1))


@dataclass(frozen=True)
class Poisson(Workload):
    """Requests at random moments, `rate` per unit of time in all, for `duration`.

    One whose user is still waiting or inside follows as soon as that user has left.
    """

    rate: float
    duration: float
    requesters: Requesters = None

    def __post_init__(self) -> None:
        """Refuse a workload without entries."""
        if not (0 < self.rate < math.inf and 0 < self.duration < math.inf):
            raise UsageError(f"rate and duration must be positive and finite, got {self}")

    def start(self, world: World) -> None:
        """Wait for the first arrival."""
        self._await_arrival(world, _askers(self.requesters, world), 0.0)

    def _await_arrival(self, world: World, askers: Sequence[ProcessId], now: float) -> None:
        gap = world.random.expovariate(self.rate)
        if now + gap <= self.duration:
            world.after(gap, partial(self._arrive, world, askers, now + gap))

    def _arrive(self, world: World, askers: Sequence[ProcessId], now: float) -> None:
        world.ask(self._choose(world, askers))
        self._await_arrival(world, askers, now)

    def _choose(self, world: World, askers: Sequence[ProcessId]) -> ProcessId:
        return world.random.choice(askers)


@dataclass(frozen=True)
class HotSpot(Poisson):
    """A Poisson workload where the first `hot` requesters make the given share of the requests."""

    hot: int = field(default=1, kw_only=True)
    share: float = field(default=0.9, kw_only=True)

    def __post_init__(self) -> None:
        """Refuse a share that is none."""
        super().__post_init__()
        _at_least(1, self.hot, "the number of hot processes")
        check_probability("the share of the hot processes", self.share)

    def _choose(self, world: World, askers: Sequence[ProcessId]) -> ProcessId:
        hot, cold = askers[: self.hot], askers[self.hot :]
        return world.random.choice(hot if not cold or world.random.random() < self.share else cold)


WORKLOADS = {
    "closed": "every process always wants in",
    "one-at-a-time": "in turn, the next when all is quiet",
    "one-at-random": "any other but the last, when all is quiet",
    "burst": "all at once, again when all is quiet",
    "poisson": "at random moments",
    "hot-spot": "at random moments, most from one process",
}


def make_workload(
    kind: str, requesters: Sequence[ProcessId], *, entries: int, rate: float, hold: float | Latency
) -> Workload:
    """Return a workload by its name, in which each of these processes enters this many times.

    `rate` is that of the requests which arrive at random moments, per unit of time.
    """
    total = entries * len(requesters)
    kinds: dict[str, Callable[[], Workload]] = {
        "closed": lambda: Closed(entries, requesters, hold=hold),
        "one-at-a-time": lambda: OneAtATime(total, requesters, hold=hold),
        "one-at-random": lambda: OneAtATime(total, requesters, order="random", hold=hold),
        "burst": lambda: Burst(entries, requesters, hold=hold),
        "poisson": lambda: Poisson(rate, total / rate, requesters, hold=hold),
        "hot-spot": lambda: HotSpot(rate, total / rate, requesters, hold=hold),
    }
    if kind not in kinds:
        raise UsageError(unknown("workload", kind, kinds))
    if not rate > 0:
        raise UsageError(f"the rate must be positive, got {rate:g}")
    return kinds[kind]()


def _askers(requesters: Requesters, world: World) -> Sequence[ProcessId]:
    if requesters is None:
        return range(1, world.size + 1)
    if not requesters:
        raise UsageError("a workload needs at least one requester")
    check_processes("the workload", requesters, world.size)
    return requesters


def _draw(duration: float | Latency, world: World, process: ProcessId) -> float:
    if isinstance(duration, (float, int)):
        return duration if duration >= 0 else Constant(duration).value  # which refuses it
    return duration.sampler(world.random)(process, process)


def _at_least(least: int, value: int, name: str) -> None:
    if value < least:
        raise UsageError(f"{name} must be at least {least}, got {value}")
