"""Programs that read and write the values of locks, with the lock and without, under all faults and changes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, ClassVar

from coterie.errors import CoterieError, LockLost, Unavailable, UsageError
from coterie.lab.stack.scene import faults
from coterie.lab.stack.scene.monitors import ValueMonitor
from coterie.lab.stack.workloads.changes import Changes
from coterie.lab.stack.workloads.locks import LeasedLocks
from coterie.lab.stack.workloads.operators import AfterLoss, Forces
from coterie.locks import connect

if TYPE_CHECKING:
    from random import Random

    from coterie.lab.stack.scene.monitors import ValueHistory
    from coterie.lab.stack.scene.scene import Scene
    from coterie.lab.stack.world.machine import Process
    from coterie.locks import Acquirable, Coordinator, Held, Value

LARGE_BYTES = 3_000  # more than comes along with a vote


class ValueUses:
    """What programs do with values, and what judges it."""

    def __init__(self, workload: LeasedLocks) -> None:
        """Begin with nothing written."""
        self._workload = workload
        self._scene = workload.scene
        self._monitor = ValueMonitor(workload.world)

    async def hold(self, process: Process, held: Held, random: Random, seconds: float) -> None:
        """Read and write for a while."""
        for number in range(1, random.choice((1, 1, 2, 4)) + 1):
            if random.random() < 0.5:
                await self._read(process, held)
            if random.random() < 0.6:
                await self._write(process, held, number, random)
            await self._workload.hold(seconds * random.random())

    async def _read(self, process: Process, held: Held) -> None:
        before = self._monitor.begin_read(held.name)
        found = await held.read()
        if process.is_alive:
            self._judge(held.name, before, found, held.token)
            self._scene.counts["values read"] += 1

    async def _write(self, process: Process, held: Held, number: int, random: Random) -> None:
        data = None
        if random.random() < 0.9:
            data = f"{held.token}/{number}".encode()
            data += b"." * (LARGE_BYTES if random.random() < 0.2 else 0)
        rank = self._monitor.begin_write(held.name, held.token, number, data)
        await (held.delete() if data is None else held.write(data))
        if process.is_alive:
            self._monitor.end_write(held.name, rank)
            self._scene.counts["values written"] += 1

    async def look(self, process: Process, coordinator: Coordinator, name: str) -> None:
        """Read without the lock."""
        before = self._monitor.begin_read(name)
        found = await coordinator.read(name)
        if process.is_alive:
            self._judge(name, before, found, None)
            self._scene.counts["values seen"] += 1

    def _judge(
        self, name: str, before: ValueHistory, found: Value | None, token: int | None
    ) -> None:
        """Judge what was read.

        After a force it may be older than what was acknowledged, if it says so; that there was a later value, one that
        is gone cannot say.
        """
        data = None if found is None else found.data
        if self._scene.counts["quorums lost"] and (found is None or found.doubtful):
            self._scene.counts["values read in doubt"] += 1
            self._monitor.restart(name, data)
        else:
            self._monitor.end_read(name, before, data, token)


class UsesValues(LeasedLocks):
    """Programs that take locks for their values, each with a task that reads without the lock."""

    uses: ClassVar[tuple[str, ...]] = ("exclusive", "exclusive", "exclusive", "try", "timeout")

    def __init__(self, scene: Scene) -> None:
        """Prepare for one run."""
        super().__init__(scene)
        self._values = ValueUses(self)

    async def program(self, process: Process) -> None:
        """Use locks with their values, and look at them."""
        async with connect(self.url()) as coordinator, asyncio.TaskGroup() as group:
            group.create_task(self._use(process, coordinator, 0))
            group.create_task(_look_on(self, self._values, process, coordinator))

    async def _take(
        self, process: Process, wanted: Acquirable[Any], use: str, random: Random
    ) -> None:
        await _take(self, self._values, process, wanted, random)


class Values(UsesValues):
    """Values on a cluster that is not changed."""

    kinds: ClassVar[tuple[str, ...]] = (*faults.LEASED, *faults.DISKS)


class ChangedValues(UsesValues, Changes):
    """Values while voters, weights and leases are changed."""


class ForcedValues(UsesValues, AfterLoss):
    """Values of which the newest versions are lost with a quorum of disks, and administrators go on with what is left."""

    sizes = Forces.sizes
    kinds = Forces.kinds
    faults_most = Forces.faults_most


async def _take(
    workload: LeasedLocks,
    values: ValueUses,
    process: Process,
    wanted: Acquirable[Any],
    random: Random,
) -> None:
    seconds = workload.plan.lease * random.expovariate(0.7 if random.random() < 0.2 else 20)
    async with wanted as held, workload.held(process, held):
        try:
            await values.hold(process, held, random, seconds)
        except (Unavailable, UsageError) as error:
            # The lock goes on; a new cluster has no number yet, or none with values.
            workload.scene.counts[f"{type(error).__name__} of a value"] += 1


async def _look_on(
    workload: LeasedLocks, values: ValueUses, process: Process, coordinator: Coordinator
) -> None:
    random, lease = workload.scene.random(process, 1_000), workload.plan.lease
    while workload.world.now < workload.stop_at:
        await asyncio.sleep(random.expovariate(1) * lease * 0.2)
        began = workload.world.now
        try:
            await values.look(process, coordinator, random.choice(workload.names))
        except LockLost:
            workload.scene.counts["LockLost of a look"] += 1
        except CoterieError as error:
            workload.scene.counts[f"{type(error).__name__} of a look"] += 1
            workload.world.recorder.log(process.true_now(), process.name, f"look: {error!r}")
            if began > workload.calm_from() and process.is_alive:
                workload.world.violate("values seen", f"{process.name}: {error}")
