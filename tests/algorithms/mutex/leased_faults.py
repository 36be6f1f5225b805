"""What goes wrong in the hostile world of the leased lock, by profile: calm to wild."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.algorithms.mutex.leased_world import World

FAULTS_END = 120.0
LEASE = 10.0


@dataclass
class Node:
    """A process: a part of the protocol with its clock, its timers and its disk."""

    me: int
    rate: float
    offset: float
    part: Any = None
    incarnation: int = 0
    name: str = ""
    alive: bool = False
    paused: bool = False
    disk: bytes = b""
    timers: dict[str, int] = field(default_factory=dict)
    inbox: list[Callable[[], None]] = field(default_factory=list)
    rings: list[Callable[[], None]] = field(default_factory=list)

    def clock(self, time: float) -> float:
        return self.rate * time + self.offset


@dataclass
class Link:
    """The connection of a participant with a voter, in both directions."""

    epoch: int = 0  # connections so far
    up: bool = True
    cut: list[bool] = field(default_factory=lambda: [False, False])  # upward, downward: forever
    stalled: list[bool] = field(default_factory=lambda: [False, False])
    last: list[float] = field(default_factory=lambda: [0.0, 0.0])  # latest arrival

    def carries(self, direction: int) -> bool:
        return self.up and not self.cut[direction] and not self.stalled[direction]


def write_script(world: World) -> None:
    """Draw all faults of a run."""
    Script(world).write()


class Script:
    """What goes wrong in a run, drawn before it begins."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.random = world.random

    def write(self) -> None:
        profile = self.world.plan.profile
        if profile in ("mixed", "crash", "wild"):
            self._crashes(self.random.randint(1, 3 if profile == "mixed" else 6))
        if profile in ("mixed", "net", "wild"):
            self._breaks(self.random.randint(1, 12))
            self._partitions(self.random.randint(0, 3))
        if profile in ("mixed", "pause", "wild"):
            self._pauses(self.random.randint(1, 5))
        if profile == "oneway":
            self._half_cut()
        if profile == "mesh":
            self._mesh()
        if profile == "storm" and self.random.random() < 0.5:
            self._crashes(self.random.randint(1, 3))
        if profile == "force":
            self._partitions(self.random.randint(1, 4))
        if profile == "lease":
            self._crashes(self.random.randint(1, 5))
            self._partitions(self.random.randint(1, 3))
            self._pauses(self.random.randint(0, 2))

    def _window(self, longest: float) -> tuple[float, float]:
        start = self.random.uniform(0, FAULTS_END - 1)
        return start, min(FAULTS_END, start + self.random.uniform(0.1, longest))

    def _any_node(self) -> Node:
        nodes = [*self.world.voters.values(), *self.world.participants.values()]
        return self.random.choice(nodes)

    def _crashes(self, count: int) -> None:
        world = self.world
        for _ in range(count):
            node = self._any_node()
            start, end = self._window(2.5 * LEASE)
            world.at(start, partial(world.crash, node))
            world.at(end, partial(world.restart, node))

    def _pauses(self, count: int) -> None:
        world = self.world
        for _ in range(count):
            node = self._any_node()
            start, end = self._window(3 * LEASE)
            world.at(start, partial(world.pause, node))
            world.at(end, partial(world.resume, node))

    def _breaks(self, count: int) -> None:
        world = self.world
        for _ in range(count):
            pair = self.random.choice(list(world.links))
            start, end = self._window(self.random.choice((1.0, 3 * LEASE)))
            world.at(start, partial(world.sever, pair))
            world.at(end, partial(world.reconnect, pair))

    def _partitions(self, count: int) -> None:
        """Stall some links, in one direction or in both."""
        world = self.world
        for _ in range(count):
            start, end = self._window(3 * LEASE)
            directions = self.random.choice(([0], [1], [0, 1]))
            for link in world.links.values():
                if self.random.random() < 0.5:
                    world.at(start, partial(_stall, link, directions, True))
                    world.at(end, partial(_stall, link, directions, False))

    def _half_cut(self) -> None:
        """Let one participant never hear some voters, or never be heard by them."""
        unlucky = self.random.choice(list(self.world.participants))
        direction = self.random.choice((0, 1))
        start = self.random.uniform(0, FAULTS_END)
        for (participant, _), link in self.world.links.items():
            if participant == unlucky and self.random.random() < 0.7:
                self.world.at(start, partial(_cut, link, [direction]))

    def _mesh(self) -> None:
        """Let some pairs never meet, and some voters stay down."""
        start = self.random.uniform(0, FAULTS_END)
        for link in self.world.links.values():
            if self.random.random() < 0.25:
                self.world.at(start, partial(_cut, link, [0, 1]))
        for voter in self.world.voters.values():
            if self.random.random() < 0.2:
                self.world.at(start, partial(self.world.crash, voter))


def _stall(link: Link, ways: list[int], stalled: bool) -> None:
    for way in ways:
        link.stalled[way] = stalled


def _cut(link: Link, ways: list[int]) -> None:
    for way in ways:
        link.cut[way] = True
