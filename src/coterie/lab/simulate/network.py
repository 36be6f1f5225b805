"""What happens to a message between sender and receiver: how long it takes, and whether it arrives.

A latency model draws a delay for a link; `Links` adds order, loss, duplication and cuts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import repeat
from typing import TYPE_CHECKING, Any, TypeAlias

from coterie.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from coterie.process import ProcessId

    Sampler: TypeAlias = Callable[[ProcessId, ProcessId], float]
    Timetable: TypeAlias = Callable[[ProcessId, Sequence[ProcessId], float], list[float]]
    # Sender, receivers, message, now; and for each receiver time, sender, receiver, message.
    Mailer: TypeAlias = Callable[
        [ProcessId, Sequence[ProcessId], Any, float], list[tuple[float, ProcessId, ProcessId, Any]]
    ]


@dataclass(frozen=True)
class Constant:
    """Always the same delay, so that one hop is the unit of time."""

    value: float = 1.0

    def __post_init__(self) -> None:
        """Refuse a delay that goes back in time."""
        _require(self.value >= 0, "a constant delay must be at least 0", self.value)

    def sampler(self, random: Random) -> Sampler:
        """Return the function that draws a delay for (sender, receiver)."""
        return lambda sender, receiver: self.value

    def timetable(self, random: Random) -> Timetable:
        """Return the function that says when a message to many arrives, without a call for each."""
        value = self.value
        return lambda sender, receivers, now: [now + value] * len(receivers)


@dataclass(frozen=True)
class Uniform:
    """Any delay between two bounds, all equally likely."""

    low: float
    high: float

    def __post_init__(self) -> None:
        """Refuse bounds that are crossed or go back in time."""
        bounds = f"{self.low:g},{self.high:g}"
        _require(0 <= self.low <= self.high, "uniform:LOW,HIGH needs 0 <= LOW <= HIGH", bounds)

    def sampler(self, random: Random) -> Sampler:
        """Return the function that draws a delay for (sender, receiver)."""
        low, width, draw = self.low, self.high - self.low, random.random
        return lambda sender, receiver: low + width * draw()

    def timetable(self, random: Random) -> Timetable:
        """Return the function that draws when a message to many arrives, without a call for each."""
        low, width, draw = self.low, self.high - self.low, random.random
        return lambda sender, receivers, now: [now + (low + width * draw()) for _ in receivers]

    def mailer(self, random: Random) -> Mailer:
        """Return the function that puts a time on a message to many, in the fewest steps."""
        low, width, draw = self.low, self.high - self.low, random.random

        def mail(
            sender: ProcessId, receivers: Sequence[ProcessId], message: Any, now: float
        ) -> list[tuple[float, ProcessId, ProcessId, Any]]:
            letters = []
            for to in receivers:  # faster than a comprehension, which has a frame of its own
                letters.append((now + (low + width * draw()), sender, to, message))  # noqa: PERF401
            return letters

        return mail


@dataclass(frozen=True)
class Exponential:
    """A delay without memory: mostly short, sometimes long."""

    mean: float

    def __post_init__(self) -> None:
        """Refuse a mean that is no delay."""
        _require(self.mean > 0, "an exponential mean must be greater than 0", self.mean)

    def sampler(self, random: Random) -> Sampler:
        """Return the function that draws a delay for (sender, receiver)."""
        mean, draw, log = self.mean, random.random, math.log
        return lambda sender, receiver: -mean * log(1.0 - draw())


@dataclass(frozen=True)
class LogNormal:
    """The delay of real networks: a typical value and a heavy tail; `sigma` is that of its log."""

    median: float
    sigma: float

    def __post_init__(self) -> None:
        """Refuse what is no log-normal distribution."""
        shape = f"{self.median:g},{self.sigma:g}"
        demand = "lognormal:MEDIAN,SIGMA needs MEDIAN > 0 and SIGMA >= 0"
        _require(self.median > 0 and self.sigma >= 0, demand, shape)

    def sampler(self, random: Random) -> Sampler:
        """Return the function that draws a delay for (sender, receiver)."""
        mu, sigma, draw = math.log(self.median), self.sigma, random.lognormvariate
        return lambda sender, receiver: draw(mu, sigma)


@dataclass(frozen=True)
class Matrix:
    """A delay per pair of regions; processes are dealt to the regions in turn.

    With three regions, processes 1, 4, 7, ... live in the first. `rows[a][b]` is the delay from
    region a to region b, so the diagonal holds the delays within a region. With a jitter of 0.1 each
    message takes between 0.9 and 1.1 times as long, all equally likely.
    """

    rows: Sequence[Sequence[float]]
    jitter: float = 0.0
    source: str = field(default="", compare=False)  # the file that it was read from

    def __post_init__(self) -> None:
        """Refuse what is no square of delays."""
        square = len(self.rows) > 0 and all(len(row) == len(self.rows) for row in self.rows)
        _require(square, "a matrix must have as many delays in each row as it has rows", self.rows)
        positive = all(delay >= 0 for row in self.rows for delay in row)
        _require(positive, "the delays of a matrix must be at least 0", self.rows)
        _require(0 <= self.jitter <= 1, "jitter must be a share between 0 and 1", self.jitter)

    def sampler(self, random: Random) -> Sampler:
        """Return the function that draws a delay for (sender, receiver)."""
        rows, regions = self.rows, len(self.rows)
        if not self.jitter:
            return lambda sender, receiver: rows[(sender - 1) % regions][(receiver - 1) % regions]
        low, width, draw = 1 - self.jitter, 2 * self.jitter, random.random
        return lambda sender, receiver: (
            rows[(sender - 1) % regions][(receiver - 1) % regions] * (low + width * draw())
        )


Latency: TypeAlias = Constant | Uniform | Exponential | LogNormal | Matrix


def is_fixed(latency: Latency) -> bool:
    """Return whether every message of a link takes as long as the others."""
    return isinstance(latency, Constant) or (isinstance(latency, Matrix) and not latency.jitter)


def check_size(latency: Latency, size: int) -> None:
    """Refuse a file of delays whose rows cannot be dealt evenly to this many processes."""
    if isinstance(latency, Matrix) and latency.source and size % len(latency.rows):
        raise UsageError(
            f"{latency.source} has delays for {len(latency.rows)} places: the number of processes must"
            f" be that or a multiple of it, got {size}"
        )


def _require(holds: bool, demand: str, got: object) -> None:
    if not holds:
        raise UsageError(f"{demand}, got {got}")


def check_probability(name: str, value: float) -> None:
    """Refuse what is no probability."""
    if not 0 <= value <= 1:
        raise UsageError(f"{name} must be a probability between 0 and 1, got {value}")


@dataclass(frozen=True)
class Network:
    """The links between all processes, each like the others.

    `fifo` None gives what the processes declare they need. Where it holds, a message arrives no
    sooner than the one sent before it on the same link. With `multicast` what a process sends to
    several at once is one message, for all that is counted: the network copies it.
    """

    latency: Latency = field(default=Constant(1.0))
    fifo: bool | None = None
    loss: float = 0.0
    duplication: float = 0.0
    multicast: bool = False

    def __post_init__(self) -> None:
        """Refuse impossible probabilities."""
        check_probability("loss", self.loss)
        check_probability("duplication", self.duplication)


class Links:
    """The fate of each message, drawn when it is sent."""

    def __init__(self, network: Network, fifo: bool, latencies: Random, chances: Random) -> None:
        """Start with whole links; delays and mishaps come from separate streams of numbers."""
        self._losses = [network.loss] if network.loss else []  # each by itself
        self._duplication = network.duplication
        self.multicast = network.multicast
        self._delay = network.latency.sampler(latencies)
        # Where every delay of a link is the same, messages keep their order by themselves.
        self.ordered = fifo and not is_fixed(network.latency)
        self._last: dict[tuple[ProcessId, ProcessId], float] = {}  # latest arrival, links used only
        self.times = self._choose_timetable(network.latency, latencies)
        self.mail = self._choose_mailer(network.latency, latencies)
        self._chance = chances.random
        self._cuts: list[dict[ProcessId, int]] = []

    def arrivals(self, sender: ProcessId, receiver: ProcessId, now: float) -> list[float]:
        """Draw when the message sent now arrives: once, never, or twice."""
        if self._losses and any(self._chance() < loss for loss in self._losses):
            return []
        times = [self.arrival(sender, receiver, now)]
        if self._duplication and self._chance() < self._duplication:
            times.append(self.arrival(sender, receiver, now))
        return times

    def _choose_timetable(self, latency: Latency, latencies: Random) -> Timetable:
        """Return the function that draws when a message arrives at each of its receivers.

        It is for messages of which none is lost or doubled.
        """
        delay, arrival = self._delay, self.arrival
        if self.ordered:
            return lambda sender, receivers, now: [arrival(sender, to, now) for to in receivers]
        if isinstance(latency, Constant | Uniform):
            return latency.timetable(latencies)
        return lambda sender, receivers, now: [now + delay(sender, to) for to in receivers]

    def _choose_mailer(self, latency: Latency, latencies: Random) -> Mailer:
        """Return the function that does the same and makes the letters."""
        if isinstance(latency, Uniform) and not self.ordered:
            return latency.mailer(latencies)
        times = self.times
        return lambda sender, receivers, message, now: list(
            zip(
                times(sender, receivers, now),
                repeat(sender),
                receivers,
                repeat(message),
                strict=False,
            )
        )

    def arrival(self, sender: ProcessId, receiver: ProcessId, now: float) -> float:
        """Draw when a message arrives that is neither lost nor doubled."""
        time = now + self._delay(sender, receiver)
        if self.ordered:
            link = sender, receiver
            time = max(time, self._last.get(link, 0.0))
            self._last[link] = time
        return time

    def cut(self, sides: dict[ProcessId, int]) -> None:
        """Cut all links between processes on different sides."""
        self._cuts.append(sides)

    def heal(self, sides: dict[ProcessId, int]) -> None:
        """Undo one such cut."""
        self._cuts.remove(sides)

    def lose(self, rate: float) -> None:
        """Lose messages with this probability on top of all other losses."""
        self._losses.append(rate)

    def keep(self, rate: float) -> None:
        """Undo one such loss."""
        self._losses.remove(rate)

    @property
    def whole(self) -> bool:
        """Whether no link is cut."""
        return not self._cuts

    @property
    def reliable(self) -> bool:
        """Whether every message arrives, and once."""
        return not (self._cuts or self._losses or self._duplication)

    def is_cut(self, sender: ProcessId, receiver: ProcessId) -> bool:
        """Return whether the link is cut; a process on no side reaches all."""
        return bool(self._cuts) and any(
            sender in sides and receiver in sides and sides[sender] != sides[receiver]
            for sides in self._cuts
        )


def check_processes(what: str, processes: Sequence[ProcessId], size: int) -> None:
    """Refuse ids that no process has."""
    for process in processes:
        if not 1 <= process <= size:
            raise ConfigError(f"{what} names process {process}; there are 1 to {size}")
