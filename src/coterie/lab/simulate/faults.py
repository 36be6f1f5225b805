"""What goes wrong, and when: as values, as text, or drawn at random.

One fault per line of text, times in virtual time:

    crash 3 @ 10                        stops; what it knew and what arrives meanwhile is lost ...
    crash 3 @ 10 after 2                sends two more messages, then stops when it would send more
    restart 3 @ 20                      ... and it begins again, without memory
    restart 3 @ 20 with memory          ... or goes on with all it knew, its timers included
    pause 3 @ 5 for 10                  takes no step; what arrives waits
    partition 1,2 | 3,4,5 @ 5 for 10    messages across are lost; without `for` it never heals
    drift 3 1.01                        its clock runs 1 % fast (and `drift 3 1.01 -5`: 5 behind)
    lose 0.1 @ 5 for 10                 one message in ten is lost
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Protocol, TypeAlias

from coterie.catalogue import unknown
from coterie.errors import ConfigError, UsageError
from coterie.lab.simulate.network import check_probability, check_processes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from coterie.process import ProcessId


class Stage(Protocol):
    """What a fault may do to the world."""

    def at(self, time: float, action: Callable[[], None]) -> None:
        """Act at that time."""

    def crash(self, process: ProcessId) -> None:
        """Stop a process."""

    def doom(self, process: ProcessId, messages: int) -> None:
        """Let a process send this many more messages, and die when it would send the next."""

    def restart(self, process: ProcessId, memory: bool) -> None:
        """Start a crashed process again."""

    def pause(self, process: ProcessId) -> None:
        """Let a process take no steps."""

    def resume(self, process: ProcessId) -> None:
        """Let a paused process go on."""

    def cut(self, sides: dict[ProcessId, int]) -> None:
        """Cut the links between different sides."""

    def heal(self, sides: dict[ProcessId, int]) -> None:
        """Undo that."""

    def set_clock(self, process: ProcessId, rate: float, offset: float) -> None:
        """Let its clock show rate * time + offset."""

    def lose(self, rate: float) -> None:
        """Lose messages with this probability on top of what the network loses."""

    def keep(self, rate: float) -> None:
        """Undo that."""


@dataclass(frozen=True)
class Crash:
    """A process stops at `time`, or later in the middle of what it then sends.

    With `after`, this many messages still leave, and it stops instead of sending the next: it dies
    half-way through a broadcast.
    """

    process: ProcessId
    time: float
    after: int | None = None

    def __post_init__(self) -> None:
        """Refuse what no clock can show."""
        _check_times(self, self.time)

    def stage(self, world: Stage) -> None:
        """Enter it into the schedule of a run."""
        crash = partial(world.crash, self.process)
        if self.after is not None:
            crash = partial(world.doom, self.process, self.after)
        world.at(self.time, crash)

    def __str__(self) -> str:
        """Write as `parse_fault` reads it."""
        after = "" if self.after is None else f" after {self.after}"
        return f"crash {self.process} @ {self.time!r}{after}"


@dataclass(frozen=True)
class Restart:
    """A crashed process starts again at `time`: without memory, or with all it knew."""

    process: ProcessId
    time: float
    memory: bool = False

    def __post_init__(self) -> None:
        """Refuse what no clock can show."""
        _check_times(self, self.time)

    def stage(self, world: Stage) -> None:
        """Enter it into the schedule of a run."""
        world.at(self.time, partial(world.restart, self.process, self.memory))

    def __str__(self) -> str:
        """Write as `parse_fault` reads it."""
        memory = " with memory" if self.memory else ""
        return f"restart {self.process} @ {self.time!r}{memory}"


@dataclass(frozen=True)
class Pause:
    """A process takes no steps from `time` on, for that long."""

    process: ProcessId
    time: float
    duration: float

    def __post_init__(self) -> None:
        """Refuse what no clock can show."""
        _check_times(self, self.time, self.duration)

    def stage(self, world: Stage) -> None:
        """Enter it into the schedule of a run."""
        world.at(self.time, partial(world.pause, self.process))
        world.at(self.time + self.duration, partial(world.resume, self.process))

    def __str__(self) -> str:
        """Write as `parse_fault` reads it."""
        return f"pause {self.process} @ {self.time!r} for {self.duration!r}"


@dataclass(frozen=True)
class Partition:
    """Groups of processes that do not reach one another; one that is in none reaches all.

    A message is lost if its link is cut when it is sent, or when it would arrive.
    """

    groups: tuple[tuple[ProcessId, ...], ...]
    time: float
    duration: float | None = None  # None = forever

    def __post_init__(self) -> None:
        """Refuse what no clock can show."""
        _check_times(self, self.time, self.duration)

    def stage(self, world: Stage) -> None:
        """Enter it into the schedule of a run."""
        sides = {process: side for side, group in enumerate(self.groups) for process in group}
        world.at(self.time, partial(world.cut, sides))
        if self.duration is not None:
            world.at(self.time + self.duration, partial(world.heal, sides))

    def __str__(self) -> str:
        """Write as `parse_fault` reads it."""
        groups = " | ".join(",".join(map(str, group)) for group in self.groups)
        return f"partition {groups} @ {self.time!r}{_span(self.duration)}"


@dataclass(frozen=True)
class Drift:
    """A clock that runs at its own rate and starts at its own offset."""

    process: ProcessId
    rate: float
    offset: float = 0.0

    def __post_init__(self) -> None:
        """Refuse a clock that stands still or goes back."""
        if not 0 < self.rate < math.inf:
            raise UsageError(f"fault {str(self)!r}: the rate must be greater than 0")

    def stage(self, world: Stage) -> None:
        """Set the clock before anything happens."""
        world.set_clock(self.process, self.rate, self.offset)

    def __str__(self) -> str:
        """Write as `parse_fault` reads it."""
        return f"drift {self.process} {self.rate!r} {self.offset!r}"


@dataclass(frozen=True)
class Lose:
    """All links lose messages for a while."""

    rate: float
    time: float
    duration: float | None = None  # None = forever

    def __post_init__(self) -> None:
        """Refuse what no clock can show."""
        _check_times(self, self.time, self.duration)
        check_probability("lose", self.rate)

    def stage(self, world: Stage) -> None:
        """Enter it into the schedule of a run."""
        world.at(self.time, partial(world.lose, self.rate))
        if self.duration is not None:
            world.at(self.time + self.duration, partial(world.keep, self.rate))

    def __str__(self) -> str:
        """Write as `parse_fault` reads it."""
        return f"lose {self.rate!r} @ {self.time!r}{_span(self.duration)}"


Fault: TypeAlias = Crash | Restart | Pause | Partition | Drift | Lose


def _check_times(fault: Fault, *times: float | None) -> None:
    for time in times:
        if time is not None and not 0 <= time < math.inf:
            raise UsageError(f"fault {str(fault)!r}: times and durations are at least 0")


def _span(duration: float | None) -> str:
    return "" if duration is None else f" for {duration!r}"


def processes_of(fault: Fault) -> tuple[ProcessId, ...]:
    """Name the processes that a fault names."""
    match fault:
        case Crash() | Restart() | Pause() | Drift():
            return (fault.process,)
        case Partition():
            return tuple(process for group in fault.groups for process in group)
        case Lose():
            return ()


def check_faults(faults: Iterable[Fault], size: int) -> None:
    """Refuse faults that do not fit `size` processes, or one another."""
    for fault in faults:
        check_processes(f"fault {str(fault)!r}", processes_of(fault), size)
        if isinstance(fault, Partition):
            _check_partition(fault)


def _check_partition(fault: Partition) -> None:
    named = processes_of(fault)
    for process in named:
        if named.count(process) > 1:
            raise ConfigError(f"fault {str(fault)!r} names process {process} twice")


_WHOLE = r"\d{1,9}"  # `int` refuses very long ones
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?"
_AT = rf"\s*@\s*(?P<time>{_NUMBER})"
_FOR = rf"\s+for\s+(?P<duration>{_NUMBER})"
_FORMS = {  # kind: what people write, what we match
    "crash": (
        "crash P @ TIME [after MESSAGES]",
        rf"(?P<process>{_WHOLE}){_AT}(?:\s+after\s+(?P<after>{_WHOLE}))?",
    ),
    "restart": (
        "restart P @ TIME [with memory]",
        rf"(?P<process>{_WHOLE}){_AT}(?P<memory>\s+with\s+memory)?",
    ),
    "pause": ("pause P @ TIME for DURATION", rf"(?P<process>{_WHOLE}){_AT}{_FOR}"),
    "partition": (
        "partition P,P | P,P @ TIME [for DURATION]",
        rf"(?P<groups>[\d,\s]+(?:\|[\d,\s]+)+){_AT}(?:{_FOR})?",
    ),
    "drift": (
        "drift P RATE [OFFSET]",
        rf"(?P<process>{_WHOLE})\s+(?P<rate>{_NUMBER})(?:\s+(?P<offset>{_NUMBER}))?",
    ),
    "lose": (
        "lose PROBABILITY @ TIME [for DURATION]",
        rf"(?P<rate>{_NUMBER}){_AT}(?:{_FOR})?",
    ),
}


def parse_fault(text: str) -> Fault:
    """Read one fault; what was expected instead is in the error."""
    kind, *rest = text.split(maxsplit=1) or [""]
    if kind not in _FORMS:
        raise UsageError(unknown("fault", kind, _FORMS))
    form, pattern = _FORMS[kind]
    found = re.fullmatch(pattern, "".join(rest).strip())
    if not found:
        raise UsageError(f"bad fault {text!r}: expected {form}")
    parts = found.groupdict()
    time = float(parts.get("time", 0.0))
    duration = float(parts["duration"]) if parts.get("duration") else None
    match kind:
        case "crash":
            after = int(parts["after"]) if parts["after"] else None
            return Crash(int(parts["process"]), time, after)
        case "restart":
            return Restart(int(parts["process"]), time, memory=parts["memory"] is not None)
        case "pause":
            return Pause(int(parts["process"]), time, duration or 0.0)
        case "partition":
            return Partition(_groups(text, parts["groups"]), time, duration)
        case "drift":
            return Drift(int(parts["process"]), float(parts["rate"]), float(parts["offset"] or 0.0))
        case _:
            return Lose(float(parts["rate"]), time, duration)


def _groups(text: str, groups: str) -> tuple[tuple[ProcessId, ...], ...]:
    try:
        return tuple(
            tuple(int(process) for process in group.split(",")) for group in groups.split("|")
        )
    except ValueError:
        raise UsageError(f"bad fault {text!r}: expected {_FORMS['partition'][0]}") from None


def random_faults(
    seed: int,
    size: int,
    *,
    duration: float,
    crashes: int = 0,
    pauses: int = 0,
    partitions: int = 0,
    drift: float = 0.0,
) -> list[Fault]:
    """Draw that many faults within `duration`; the same seed gives the same faults.

    Each crash is followed by a restart, with memory or without; pauses and partitions end within
    the duration. With `drift` every clock runs at a rate between 1 - drift and 1 + drift.
    """
    random = Random(f"{seed}/faults")
    faults: list[Fault] = []
    for _ in range(crashes):
        process = random.randint(1, size)
        start, end = _window(random, duration)
        faults += [Crash(process, start), Restart(process, end, random.random() < 0.5)]
    for _ in range(pauses):
        process = random.randint(1, size)
        start, end = _window(random, duration)
        faults.append(Pause(process, start, end - start))
    for _ in range(partitions if size > 1 else 0):
        order = random.sample(range(1, size + 1), size)
        side = random.randint(1, size - 1)
        start, end = _window(random, duration)
        groups = tuple(sorted(order[:side])), tuple(sorted(order[side:]))
        faults.append(Partition(groups, start, end - start))
    if drift:
        faults += [
            Drift(process, 1 + random.uniform(-drift, drift)) for process in range(1, size + 1)
        ]
    return faults


def _window(random: Random, duration: float) -> tuple[float, float]:
    start, end = sorted((random.uniform(0, duration), random.uniform(0, duration)))
    return start, end
