"""What all workloads have in common: nodes and programs on a scene, started and seen to their end."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlencode

from coterie.cluster.membership.config import convert
from coterie.lab.stack.scene import faults
from coterie.lab.stack.world import ViolationError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from coterie.cluster.membership.config import Config
    from coterie.lab.stack.scene.monitors import LockMonitor
    from coterie.lab.stack.scene.plan import RunPlan
    from coterie.lab.stack.scene.scene import Scene
    from coterie.lab.stack.world.machine import Process
    from coterie.locks import Holding

PORT, STORE_PORT = 7420, 7421
END_LEASES, END_SECONDS = 15, 30  # to come to an end after the last fault and the last hold


class Workload(ABC):
    """One way to use a cluster."""

    sizes: ClassVar[tuple[int, ...]] = (3, 3, 3, 1, 2, 4, 5)  # of clusters
    drifts: ClassVar[tuple[float, ...]] = (0.0, 0.004)  # of clocks
    wall_errors: ClassVar[tuple[float, ...]] = (0.0, 0.02, 30.0)  # seconds, of times of day
    kinds: ClassVar[tuple[str, ...]] = faults.ALL  # of faults that must not matter
    longest_leases: ClassVar[float] = 2.5  # that a fault lasts at most
    faults_most: ClassVar[int] = 10
    faults_least: ClassVar[int] = 0
    excuses: ClassVar[tuple[str, ...]] = ()  # why nodes may refuse connections here
    must_end: ClassVar[bool] = True  # all requests are granted in the end
    spares: ClassVar[tuple[str, ...]] = ()  # nodes that are not in the file
    administrators: ClassVar[tuple[str, ...]] = ()  # programs that change the cluster
    prologue_seconds: ClassVar[float] = 0.0  # before anything goes wrong

    def __init__(self, scene: Scene) -> None:
        """Prepare for one run."""
        self.scene = scene
        self.world = scene.world
        self.plan: RunPlan = scene.plan
        self.nodes = node_names(scene.plan)
        self.programs = program_names(scene.plan)
        self.config = self._config()
        self._certificates = self.world.certificates() if self.plan.tls else {}
        if self.plan.tls:
            self.config["tls"] = self._certificates
        self.stop_at = 0.0
        self.longest_lease = self.plan.lease  # that an end may have to wait for
        self._holds_until = 0.0  # what has been taken so far, as those that took it mean to

    def _config(self) -> dict[str, Any]:
        return {"cluster": "stack", "lease": self.plan.lease, "nodes": {}}

    def start(self) -> None:
        """Put everything on stage."""
        self.stop_at = self.plan.quiet_from + self.plan.lease
        for name in self.nodes:
            self.scene.cast(name, self.node, is_node=True)
        for name in self.programs:
            self.scene.cast(name, self.program, is_node=False, beside=self.beside(name))
        for name in self.nodes:
            folder = self.world.machines[name].disk.folder
            node = {"address": f"{name}:{PORT}", "store": f"{name}:{STORE_PORT}"}
            self.config["nodes"][name] = node
            if self.has_disks():
                node["data"] = str(folder / "data")
        self.prepare()
        for name in [*self.nodes, *self.programs]:
            self.scene.start(name)

    def prepare(self) -> None:  # noqa: B027 - for most nothing was there before
        """Let happen what happened before, when all machines of the file are there and nothing runs."""

    def beside(self, program: str) -> str:
        """Return the node on whose machine a program runs; none: it has one of its own."""
        del program
        return ""

    def locks_of(self, process: Process) -> LockMonitor:
        """Return what judges the holds of a process."""
        del process
        return self.scene.locks

    def has_disks(self) -> bool:
        """Return whether nodes keep anything over a restart."""
        return True

    @property
    def parsed(self) -> Config:
        """The configuration that all nodes have."""
        return convert(self.config)

    def url_of(self, names: Sequence[str]) -> str:
        """Return how a program names the cluster by these nodes of it."""
        places = ",".join(f"{name}:{PORT}" for name in names)
        query = urlencode(self._certificates)
        return f"coterie://{places}" + (f"?{query}" if query else "")

    @abstractmethod
    async def node(self, process: Process) -> None:
        """Be a node until asked to end."""

    @abstractmethod
    async def program(self, process: Process) -> None:
        """Use the cluster for a while."""

    def run(self) -> None:
        """Let everything happen, and see that it comes to an end."""
        while self.scene.programs_left() and self.world.now < self._limit():
            self.world.run(self._limit(), lambda: not self.scene.programs_left())
        left = self.scene.programs_left()
        if left and not self.must_end:
            return
        if left:
            raise ViolationError("waiting", f"{', '.join(left)} did not come to an end")
        self.finish()
        self.scene.close_nodes()
        self.world.run(self.world.now + END_SECONDS, lambda: not self.scene.nodes_left())
        left = self.scene.nodes_left()
        if left:
            raise ViolationError("ending", f"{', '.join(left)} did not end when asked to")

    def _limit(self) -> float:
        """Return when all programs have to have come to an end.

        The lengths of holds are drawn, and have no bound: to wait for one that goes on is no fault.
        """
        calm_from = max(self.stop_at, self._holds_until)
        return calm_from + END_SECONDS + END_LEASES * self.longest_lease

    async def hold(self, seconds: float) -> None:
        """Let time pass in which a program has what it has taken."""
        self._holds_until = max(self._holds_until, self.world.now + seconds)
        await asyncio.sleep(seconds)

    @contextlib.asynccontextmanager
    async def held(
        self, process: Process, held: Holding, *, shared: bool = False
    ) -> AsyncIterator[None]:
        """Have a hold judged, and take note of its end."""
        locks = self.locks_of(process)
        locks.granted(process, held, shared=shared)
        try:
            yield
        finally:
            locks.released(process, held)

    def finish(self) -> None:  # noqa: B027 - most have nothing to judge
        """Judge what is left when all programs have ended."""


def node_names(plan: RunPlan) -> list[str]:
    """Name the nodes of a plan."""
    return [f"n{number}" for number in range(1, plan.nodes + 1)]


def program_names(plan: RunPlan) -> list[str]:
    """Name the programs of a plan that are no nodes."""
    return [f"p{number}" for number in range(1, plan.programs + 1)]
