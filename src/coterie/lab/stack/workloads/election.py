"""Nodes that elect a leader: they come, go and are late, and in the end all follow the same one."""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from typing import TYPE_CHECKING, Any, ClassVar

from coterie.cluster.join import join
from coterie.errors import Unavailable
from coterie.lab.stack.scene.faults import ALL
from coterie.lab.stack.workloads.workload import Workload
from coterie.lab.stack.world import ViolationError
from coterie.locks import ElectionCoordinator

if TYPE_CHECKING:
    from coterie.lab.stack.scene.scene import Scene
    from coterie.lab.stack.world.machine import Process

ENDS = (  # of processes and machines, and delays that no node takes for an end
    "kill",
    "kill-for-good",
    "power-for-good",
    "kill-in-sync",
    "terminate",
    "power",
    "power-in-sync",
    "reboot",
    "hang",
    "reset",
    "slow-disk",
    "full-disk",
    "step-wall",
)
CALM_LEASES, CALM_SECONDS = 6, 6  # after the last fault, until all follow the same node


class ElectionMonitor:
    """What each process is told of its leaders, by every task that follows them."""

    def __init__(self) -> None:
        """Begin with nothing told."""
        self.told: dict[tuple[Process, int], list[str]] = defaultdict(list)  # to which task
        self.answers: dict[Process, str] = {}  # at the end

    def judge(self, live: list[Process]) -> None:
        """Raise unless all live nodes follow the highest of them, and were told of every change."""
        highest = max(live, key=lambda process: process.name)
        for process in live:
            answer, every = self.answers.get(process), self.told[process, 0]
            if answer != highest.name:
                raise ViolationError(
                    "leader", f"{process.name} follows {answer}, and {highest.name} is the highest"
                )
            if every[-1:] != [answer]:
                raise ViolationError(
                    "changes", f"{process.name} follows {answer}, and was told of {every}"
                )
        for (process, number), told in self.told.items():
            every = self.told[process, 0]
            if any(one == other for one, other in itertools.pairwise(told)):
                raise ViolationError("changes", f"{process.name} was told twice: {told}")
            if process in live and not _is_part(told, every):
                raise ViolationError(
                    "changes", f"task {number} of {process.name} was told of {told}, not {every}"
                )


def _is_part(told: list[str], every: list[str]) -> bool:
    """Return whether a task that may be behind has been told of every change since it began."""
    starts = range(len(every) - len(told) + 1)
    return any(every[start : start + len(told)] == told for start in starts)


class Leaders(Workload):
    """The nodes of an election, which follow the highest that lives."""

    kinds: ClassVar[tuple[str, ...]] = ENDS
    longest_leases = 3.0
    faults_most = 12

    def __init__(self, scene: Scene) -> None:
        """Prepare for one run."""
        super().__init__(scene)
        self.programs = []
        self._elections = ElectionMonitor()

    def _config(self) -> dict[str, Any]:
        name, _, variant = self.plan.details.partition("/")
        return super()._config() | {"algorithm": name, "variant": variant}

    def start(self) -> None:
        """Put the nodes on stage; all of them are programs as well."""
        super().start()
        self.stop_at = self.plan.quiet_from + CALM_LEASES * self.plan.lease + CALM_SECONDS
        for name in self.nodes:
            self.scene.roles[name].is_node = False

    def has_disks(self) -> bool:
        """Let every second seed have none: then starts are numbered by the time of day."""
        return self.plan.seed % 2 == 0

    async def program(self, process: Process) -> None:
        """Be a node: all of them are."""
        await self.node(process)

    async def node(self, process: Process) -> None:
        """Take part; follow the leaders in several tasks, and ask for the last one when all is calm."""
        over = self.scene.end_of(process)
        async with join(self.parsed, node=process.name) as coordinator:
            assert isinstance(coordinator, ElectionCoordinator)
            tasks = [
                asyncio.ensure_future(self._follow(process, coordinator, number))
                for number in range(3)
            ]
            tasks.append(asyncio.ensure_future(self._ask(process, coordinator)))
            asked = asyncio.ensure_future(over.wait())
            await asyncio.wait([asked, *tasks], return_when=asyncio.FIRST_COMPLETED)
            for task in [task for task in tasks if task.done()]:
                task.result()  # it has failed: these end in no other way
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        if not self.scene.is_closing:
            raise Unavailable("it was ended in good order")

    async def _follow(
        self, process: Process, coordinator: ElectionCoordinator, number: int
    ) -> None:
        """Hear of all leaders, from some time on."""
        random = self.scene.random(process, number)
        await asyncio.sleep(number * random.random() * self.plan.duration)
        async for leader in coordinator.leaders():
            self._elections.told[process, number].append(leader)
            self.world.recorder.log(process.true_now(), process.name, f"follows {leader}")
            if number:  # a reader that is slow misses nothing either
                await asyncio.sleep(number * random.random() * self.plan.lease)

    async def _ask(self, process: Process, coordinator: ElectionCoordinator) -> None:
        """Ask for the leader again and again, and at the end."""
        random = self.scene.random(process, "ask")
        while self.world.now < self.stop_at:
            await coordinator.leader()
            self.scene.counts["leaders asked for"] += 1
            await asyncio.sleep(random.random() * self.plan.lease)
        self._elections.answers[process] = await coordinator.leader()
        self.scene.roles[process.name].is_done = True
        await asyncio.get_running_loop().create_future()

    def finish(self) -> None:
        """Judge what all that live say."""
        live = [self.scene.process(name) for name in self.nodes]
        self._elections.judge([process for process in live if process is not None])


class ApartLeaders(Leaders):
    """The same with faults of all kinds: nodes take each other for lost, and find each other again."""

    kinds: ClassVar[tuple[str, ...]] = (*ALL, "kill", "kill-for-good")
