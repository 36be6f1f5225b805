"""Who is on stage in one run: nodes and programs by name, started, ended and started again."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, TypeAlias

from coterie.errors import CoterieError
from coterie.lab.stack.scene.monitors import LockMonitor

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from coterie.lab.stack.scene.plan import RunPlan
    from coterie.lab.stack.world import World
    from coterie.lab.stack.world.machine import Machine, Process

RESTART_SECONDS = 0.5  # after a process has ended by an error, as a supervisor would

Main: TypeAlias = "Callable[[Process], Coroutine[Any, Any, None]]"


@dataclass
class Role:
    """A process by name, whatever its life."""

    name: str
    main: Main
    is_node: bool
    machine: str
    process: Process | None = None
    is_done: bool = False  # it has ended by itself, with nothing left to do
    is_away: bool = False  # it was ended, and will be started again


class Scene:
    """All processes of a run, with what watches over them."""

    def __init__(self, world: World, plan: RunPlan) -> None:
        """Begin with an empty stage."""
        self.world = world
        self.plan = plan
        self.roles: dict[str, Role] = {}
        self.lives: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()  # what happened how often
        self.locks = LockMonitor(world, plan.lease)
        self.is_closing = False
        self.voting: dict[str, str] = {}  # the disks of the newest configuration, by node
        self.earlier_disks: dict[str, Machine] = {}  # of an earlier installation of the same nodes
        self.joined: set[str] = (
            set()
        )  # nodes that are started to join a cluster, and not by its file
        self.hosts: dict[
            str, list[str]
        ] = {}  # the addresses of machines that are renumbered: theirs is the first
        self.strangers: list[str] = []  # nodes of another installation, on machines of their own
        self._ends: dict[Process, asyncio.Event] = {}

    def cast(self, name: str, main: Main, *, is_node: bool, beside: str = "") -> None:
        """Add a role, with a machine of its own, or on the machine of another one."""
        if not beside:
            random = Random(f"{self.world.seed}/machine/{name}")
            rate = 1 + random.uniform(-1, 1) * self.plan.drift
            self.world.machine(name, rate=rate, wall=random.uniform(-1, 1) * self.plan.wall_error)
        self.roles[name] = Role(name, main, is_node, beside or name)

    def start(self, name: str) -> None:
        """Start a process, unless it runs, or its machine is off, or all is over."""
        role = self.roles[name]
        role.is_away = False
        running = role.process is not None and role.process.is_alive
        is_over = role.is_done or self.is_closing  # what was only away would not hear of the end
        if running or is_over or not self.world.machines[role.machine].is_up:
            return
        self.lives[name] += 1
        life = self.lives[name]
        role.process = self.world.start(role.machine, name, life, role.main, self._note_end)

    def start_later(self, name: str, seconds: float) -> None:
        """Start a process after a while."""
        self.roles[name].is_away = True
        self.world.at(self.world.now + seconds, self.start, name)

    def process(self, name: str) -> Process | None:
        """Return the process of that name, if it runs."""
        process = self.roles[name].process
        return process if process is not None and process.is_alive else None

    def random(self, process: Process, part: object = "") -> Random:
        """Make a generator for what a process wants to do, whatever the world does to it."""
        return Random(f"{self.world.seed}/workload/{process.name}/{process.life}/{part}")

    # Orderly ends

    def end_of(self, process: Process) -> asyncio.Event:
        """Return the event by which a process hears that it has to end; it runs now."""
        event = self._ends[process] = asyncio.Event()
        return event

    def terminate(self, name: str) -> None:
        """Ask a process to end."""
        process = self.process(name)
        if process is not None and process in self._ends:
            process.loop.hand_in(self._ends[process].set)

    def _note_end(self, process: Process) -> None:
        role, error = self.roles[process.name], process.error
        if error is not None and not isinstance(error, CoterieError | OSError):
            self.world.errors.append(f"{process.name} ended by {error!r}")
        if error is None and not (role.is_node and not self.is_closing):
            role.is_done = True
        elif not self.is_closing:
            if error is not None:
                self.counts[f"ended by {type(error).__name__}"] += 1
            self.start_later(process.name, RESTART_SECONDS)

    # The end of a run

    def programs_left(self) -> list[str]:
        """List the programs that have something left to do."""
        return [role.name for role in self.roles.values() if not role.is_node and not role.is_done]

    def close_nodes(self) -> None:
        """Ask all nodes to end."""
        self.is_closing = True
        for name in self.roles:
            self.terminate(name)

    def nodes_left(self) -> list[str]:
        """List the nodes that run."""
        return [role.name for role in self.roles.values() if self.process(role.name) is not None]
