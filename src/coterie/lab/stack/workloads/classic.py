"""The nodes of classic algorithms, each of which takes locks."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, ClassVar

from coterie.catalogue import find
from coterie.cluster.classic.node import Classic, Program
from coterie.cluster.join import join
from coterie.errors import Unavailable
from coterie.lab.stack.scene import faults
from coterie.lab.stack.workloads.workload import Workload

if TYPE_CHECKING:
    from coterie.lab.stack.scene.scene import Scene
    from coterie.lab.stack.world.machine import Process
    from coterie.locks import Coordinator


class ClassicLocks(Workload):
    """The nodes of a classic algorithm, each of which takes locks."""

    kinds: ClassVar[tuple[str, ...]] = faults.DELAYS
    longest_leases = 0.8
    faults_most = 30
    hold_leases: ClassVar[float] = 0.1  # on average

    def __init__(self, scene: Scene) -> None:
        """Prepare for one run."""
        super().__init__(scene)
        self.scene.locks.fenced = False
        self.programs = []

    def _config(self) -> dict[str, Any]:
        name, _, variant = self.plan.details.partition("/")
        config = super()._config() | {"algorithm": name}
        return config | {"variant": variant} if variant else config

    def start(self) -> None:
        """Put everything on stage; nodes that may take locks are programs as well."""
        super().start()
        for name in self._requesters():
            self.scene.roles[name].is_node = False

    def has_disks(self) -> bool:
        """Let every second seed have none: then a node cannot know that it was here before."""
        return self.plan.seed % 2 == 0

    def _requesters(self) -> list[str]:
        name, _, variant = self.plan.details.partition("/")
        entry = find(name)
        setup = entry.setup(self.plan.nodes, variant or None, {})
        return [self.nodes[number - 1] for number in entry.requesters(setup)]

    async def program(self, process: Process) -> None:
        """Be a node: all of them are."""
        await self.node(process)

    async def node(self, process: Process) -> None:
        """Take part; where the algorithm lets this node take locks, take them."""
        over = self.scene.end_of(process)
        if process.name not in self._requesters():
            program = Program(failure=lambda failure: over.set())
            node = Classic(self.parsed, process.name, program)
            await node.start()
            await over.wait()
            await node.stop()
            return
        async with join(self.parsed, node=process.name) as coordinator:
            try:
                await self._use(process, coordinator)
            except Unavailable as refusal:  # the others have told this life that it may not return
                self.scene.counts["refused"] += 1
                self.world.recorder.log(process.true_now(), process.name, str(refusal))
            self.scene.roles[process.name].is_done = True
            await over.wait()

    async def _use(self, process: Process, coordinator: Coordinator) -> None:
        random, lease = self.scene.random(process), self.plan.lease
        while self.world.now < self.stop_at:
            await asyncio.sleep(random.expovariate(1) * lease * 0.2)
            self.world.recorder.called(process.true_now(), process.number, "acquire")
            async with coordinator.lock(random.choice("aab")) as held, self.held(process, held):
                await self.hold(random.expovariate(1) * lease * self.hold_leases)


class CrashingClassics(ClassicLocks):
    """Classic algorithms that tolerate crashes: nodes are killed, and stay away."""

    kinds: ClassVar[tuple[str, ...]] = ("kill-for-good", "hang", "reset")


class ReturningClassics(ClassicLocks):
    """Classic algorithms whose nodes are killed and started again: that is refused, or tolerated.

    Some are cut off when they return, and hear of no refusal before they could act.
    """

    kinds: ClassVar[tuple[str, ...]] = ("kill", "isolate")
    must_end = False


class RejoiningClassics(ClassicLocks):
    """Classic algorithms with a rule for the return of a process: nodes are killed and come back."""

    sizes: ClassVar[tuple[int, ...]] = (5, 7)
    kinds: ClassVar[tuple[str, ...]] = ("kill",)
    faults_most = 12

    def has_disks(self) -> bool:
        """Let all nodes count their starts."""
        return True


class LongClassics(ClassicLocks):
    """Classic algorithms that tolerate crashes, with none: long holds alone must not matter."""

    kinds: ClassVar[tuple[str, ...]] = ()
    hold_leases = 2.0


class LateClassics(ClassicLocks):
    """Classic algorithms that tolerate crashes, with none: event loops that are late by a moment."""

    kinds: ClassVar[tuple[str, ...]] = ("hang",)
    faults_most = 60
