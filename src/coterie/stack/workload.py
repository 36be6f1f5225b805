"""What programs do in a run: each workload starts nodes and programs on a scene, and judges the end."""

from __future__ import annotations

import asyncio
import contextlib
import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from coterie.catalogue import algorithm
from coterie.cluster.classic.node import Classic, Program
from coterie.cluster.config import convert
from coterie.cluster.join import join
from coterie.cluster.store import join_store
from coterie.cluster.voter.node import Node
from coterie.errors import (
    AcquireTimeout,
    Conflict,
    DeadlockDetected,
    LockLost,
    OutcomeUnknown,
    Unavailable,
)
from coterie.locks.connection import connect
from coterie.stack import faults
from coterie.stack.monitors import HistoryMonitor, OrderMonitor
from coterie.stack.world import ViolationError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from random import Random

    from coterie.cluster.config import Config
    from coterie.cluster.store import ClusterStore
    from coterie.locks import Acquirable, Coordinator, Holding
    from coterie.stack.machine import Process
    from coterie.stack.plan import Plan
    from coterie.stack.scene import Scene
    from coterie.transactions import Transaction

PORT, STORE_PORT = 7420, 7421
END_LEASES, END_SECONDS = 15, 30  # to come to an end after the last fault and the last hold
TAIL_SPREADS = 24  # of two latencies one in some 10^9 is above this, as exponential ones are
ACCOUNTS, BALANCE = 6, 100


class Workload(ABC):
    """One way to use a cluster."""

    sizes: ClassVar[tuple[int, ...]] = (3, 3, 3, 1, 2, 4, 5)  # of clusters
    drifts: ClassVar[tuple[float, ...]] = (0.0, 0.004)  # of clocks
    wall_errors: ClassVar[tuple[float, ...]] = (0.0, 0.02, 30.0)  # seconds, of times of day
    kinds: ClassVar[tuple[str, ...]] = faults.ALL  # of faults that must not matter
    longest_leases: ClassVar[float] = 2.5  # that a fault lasts at most
    faults_most: ClassVar[int] = 10
    must_end: ClassVar[bool] = True  # all requests are granted in the end

    def __init__(self, scene: Scene) -> None:
        """Prepare for one run."""
        self.scene = scene
        self.world = scene.world
        self.plan: Plan = scene.plan
        self.nodes = node_names(scene.plan)
        self.programs = program_names(scene.plan)
        self.config = self._config()
        self.stop_at = 0.0
        self._holds_until = 0.0  # what has been taken so far, as those that took it mean to

    def _config(self) -> dict[str, Any]:
        return {"cluster": "stack", "lease": self.plan.lease, "nodes": {}}

    def start(self) -> None:
        """Put everything on stage."""
        self.stop_at = self.plan.quiet_from + self.plan.lease
        for name in self.nodes:
            self.scene.cast(name, self.node, is_node=True)
        for name in self.programs:
            self.scene.cast(name, self.program, is_node=False)
        for name in self.nodes:
            folder = self.world.machines[name].disk.folder
            node = {"address": f"{name}:{PORT}", "store": f"{name}:{STORE_PORT}"}
            self.config["nodes"][name] = node
            if self.has_disks():
                node["data"] = str(folder / "data")
        for name in [*self.nodes, *self.programs]:
            self.scene.start(name)

    def has_disks(self) -> bool:
        """Return whether nodes keep anything over a restart."""
        return True

    @property
    def parsed(self) -> Config:
        """The configuration that all nodes have."""
        return convert(self.config)

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
        return calm_from + END_SECONDS + END_LEASES * self.plan.lease

    async def hold(self, seconds: float) -> None:
        """Let time pass in which a program has what it has taken."""
        self._holds_until = max(self._holds_until, self.world.now + seconds)
        await asyncio.sleep(seconds)

    @contextlib.asynccontextmanager
    async def held(
        self, process: Process, held: Holding, *, shared: bool = False
    ) -> AsyncIterator[None]:
        """Have a hold judged, and take note of its end."""
        self.scene.locks.granted(process, held, shared=shared)
        try:
            yield
        finally:
            self.scene.locks.released(process, held)

    def finish(self) -> None:  # noqa: B027 - most have nothing to judge
        """Judge what is left when all programs have ended."""


def node_names(plan: Plan) -> list[str]:
    """Name the nodes of a plan."""
    return [f"n{number}" for number in range(1, plan.nodes + 1)]


def program_names(plan: Plan) -> list[str]:
    """Name the programs of a plan that are no nodes."""
    return [f"p{number}" for number in range(1, plan.programs + 1)]


class LeasedLocks(Workload):
    """Programs that fight for a few locks, in any of the ways there are to take them."""

    kinds: ClassVar[tuple[str, ...]] = faults.LEASED
    names: ClassVar[tuple[str, ...]] = ("a", "b")
    uses: ClassVar[tuple[str, ...]] = (
        "exclusive",
        "exclusive",
        "shared",
        "try",
        "timeout",
        "short",
        "all",
        "semaphore",
        "leader",
    )
    think_leases: ClassVar[float] = 0.08
    long_share: ClassVar[float] = 0.2  # of holds

    async def node(self, process: Process) -> None:
        """Vote, as `coterie serve` does."""
        over = self.scene.end_of(process)
        failures: list[Unavailable] = []

        def fail(failure: Unavailable) -> None:
            failures.append(failure)
            over.set()

        new = process.life == 1
        node = Node(self.parsed, process.name, new_cluster=new, on_failure=fail)
        await node.start()
        try:
            await over.wait()
            if failures:
                raise failures[0]
        finally:
            await node.stop()

    def url(self) -> str:
        """Return how programs name the cluster."""
        return "coterie://" + ",".join(f"{name}:{PORT}" for name in self.nodes)

    async def program(self, process: Process) -> None:
        """Take locks in one or several tasks, until it is time to stop."""
        random = self.scene.random(process)
        async with connect(self.url()) as coordinator, asyncio.TaskGroup() as group:
            for number in range(random.choice((1, 1, 1, 2, 3))):
                group.create_task(self._use(process, coordinator, number))

    async def _use(self, process: Process, coordinator: Coordinator, number: int) -> None:
        random, lease = self.scene.random(process, number), self.plan.lease
        while self.world.now < self.stop_at:
            await asyncio.sleep(random.expovariate(1) * lease * self.think_leases)
            use = random.choice(self.uses)
            wanted = self._wanted(coordinator, use, random)
            self.world.recorder.called(process.true_now(), process.number, "acquire")
            self.world.recorder.log(
                process.true_now(), process.name, f"wants {wanted.name} ({use})"
            )
            try:
                await self._take(process, wanted, use, random)
            except (AcquireTimeout, DeadlockDetected, LockLost, Unavailable) as error:
                self.scene.counts[type(error).__name__] += 1
                if process.is_alive and isinstance(error, LockLost | Unavailable):
                    self._judge_error(process, use, error)
                self.world.recorder.log(process.true_now(), process.name, f"{error!r}")

    def _judge_error(self, process: Process, use: str, error: Exception) -> None:
        """Accept no loss and no lack of a quorum when all faults are long over.

        A lease is renewed if one beat of the first quarter is answered before its end. Where the network
        takes longer than that now and then, leases that short are lost, and that is no fault.
        """
        calm_from = self.plan.quiet_from + 3 * self.plan.lease + 2
        answered = 2 * self.plan.delay + TAIL_SPREADS * self.plan.spread
        if self.world.now > calm_from and answered < 0.75 * self._lease_of(use):
            self.world.violate("calm", f"{process.name} at {self.world.now:.3f} s: {error}")

    def _lease_of(self, use: str) -> float:
        return max(0.1, self.plan.lease / 2) if use == "short" else self.plan.lease

    def start(self) -> None:
        """Put everything on stage; programs go on for a while when all is well again."""
        super().start()
        self.stop_at = self.plan.quiet_from + 4.5 * self.plan.lease + 2

    def _wanted(self, coordinator: Coordinator, use: str, random: Random) -> Acquirable[Any]:
        name, lease = random.choice(self.names), self.plan.lease
        both = random.sample(self.names, len(self.names))
        patience = random.random() * lease
        makers: dict[str, Callable[[], Acquirable[Any]]] = {
            "exclusive": lambda: coordinator.lock(name),
            "shared": lambda: coordinator.lock(name, shared=True),
            "try": lambda: coordinator.lock(name, timeout=0),
            "timeout": lambda: coordinator.lock(name, timeout=patience),
            "short": lambda: coordinator.lock(name, ttl=self._lease_of(use)),
            "all": lambda: coordinator.lock_all(*both),
            "semaphore": lambda: coordinator.semaphore("s", 2),
            "leader": lambda: coordinator.elect("leader"),
        }
        return makers[use]()

    async def _take(
        self, process: Process, wanted: Acquirable[Any], use: str, random: Random
    ) -> None:
        lease = self.plan.lease
        holds = lease * random.expovariate(0.7 if random.random() < self.long_share else 20)
        async with wanted as held, self.held(process, held, shared=use == "shared"):
            await self.hold(holds)

    def finish(self) -> None:
        """See that all locks are to be had, by a program that comes after all others."""
        self.scene.locks.forget_dead()
        self.scene.cast("last", self._last, is_node=False)
        self.scene.start("last")
        limit = self.world.now + END_SECONDS + 3 * self.plan.lease
        self.world.run(limit, lambda: not self.scene.programs_left())
        if self.scene.programs_left():
            raise ViolationError("left held", "a lock is not to be had after all have ended")

    async def _last(self, process: Process) -> None:
        locks = [*self.names, "leader", "s/permit-1", "s/permit-2"]
        async with connect(self.url()) as coordinator:
            for name in locks:
                async with coordinator.lock(name) as held, self.held(process, held):
                    pass


class ExclusiveLocks(LeasedLocks):
    """One lock, taken alone."""

    names = ("a",)
    uses = ("exclusive", "exclusive", "exclusive", "try", "timeout")


class Restarts(ExclusiveLocks):
    """Nodes that end and begin in every way, under long holds: one or few, so that each matters."""

    sizes: ClassVar[tuple[int, ...]] = (1, 1, 1, 2, 3)
    kinds: ClassVar[tuple[str, ...]] = faults.RESTARTS
    faults_most = 16
    longest_leases = 0.8
    long_share = 0.5
    wall_errors: ClassVar[tuple[float, ...]] = (30.0,)  # nothing rests on them


class Shutdowns(Restarts):
    """Machines that are booted after an orderly end: few times, so that they have run for long."""

    kinds: ClassVar[tuple[str, ...]] = ("shutdown", "shutdown", "reboot")
    faults_most = 3


class NewDisks(Restarts):
    """A node that comes back with an empty disk."""

    sizes: ClassVar[tuple[int, ...]] = (3,)
    kinds: ClassVar[tuple[str, ...]] = ("new-disk",)
    longest_leases = 2.0


class Pauses(ExclusiveLocks):
    """Programs that stop, sleep or are cut off under long holds, as leases run out."""

    kinds: ClassVar[tuple[str, ...]] = faults.OF_HOLDERS
    faults_most = 16
    long_share = 0.5


class Resets(ExclusiveLocks):
    """Connections that break and stall again and again, between processes that all go on."""

    kinds: ClassVar[tuple[str, ...]] = ("reset", "reset", "reset", "block", "stall", "stall-dials")
    faults_most = 40
    longest_leases = 1.5


class Diskless(ExclusiveLocks):
    """Nodes without data directories: numbers rest on the time of day, which has to be right then."""

    drifts: ClassVar[tuple[float, ...]] = (0.0,)  # or times of day would drift, too
    wall_errors: ClassVar[tuple[float, ...]] = (0.0, 0.05)  # of each; less than what leases bear
    kinds: ClassVar[tuple[str, ...]] = tuple(
        kind for kind in faults.ALL if kind not in ("step-wall", "slow-disk", "full-disk")
    )

    def has_disks(self) -> bool:
        """Keep nothing over a restart."""
        return False


class SharedLocks(LeasedLocks):
    """One lock, mostly shared."""

    names = ("a",)
    uses = ("shared", "shared", "exclusive")


class Semaphores(LeasedLocks):
    """A semaphore of two permits."""

    uses = ("semaphore",)


class Elections(LeasedLocks):
    """Programs that stand for election."""

    uses = ("leader",)


class SeveralLocks(LeasedLocks):
    """Two or three locks at a time, in any order: deadlocks are found and broken."""

    names = ("a", "b", "c")
    uses = ("all", "all", "exclusive")


class Line(LeasedLocks):
    """Idle programs that ask for one lock, one after the other: first come, first served.

    In `shared-line` half of them share, and overtake none that asked before to be alone.
    """

    kinds: ClassVar[tuple[str, ...]] = ()
    names = ("a",)
    apart = 0.05

    def __init__(self, scene: Scene) -> None:
        """Prepare for one run."""
        super().__init__(scene)
        self._order = OrderMonitor(scene.world, self.apart)
        self._shared_share = 0.5 if scene.plan.workload == "shared-line" else 0.0  # of requests

    async def program(self, process: Process) -> None:
        """Ask once, in turn; the first one holds until all have asked."""
        number = self.programs.index(process.name)
        shared = self.scene.random(process).random() < self._shared_share
        async with connect(self.url()) as coordinator:
            await asyncio.sleep(2 + 0.2 * number - self.world.now)
            self._order.asked(process.name, self.world.now, shared=shared)
            wanted = coordinator.lock("a", shared=shared)
            async with wanted as held, self.held(process, held, shared=shared):
                self._order.served(process.name)
                await asyncio.sleep(0.2 * len(self.programs) if number == 0 else 0.01)


class Circles(LeasedLocks):
    """Programs that take two locks in opposite orders: every deadlock is found, however far away."""

    kinds: ClassVar[tuple[str, ...]] = ()

    async def program(self, process: Process) -> None:
        """Take one lock, then the other, again and again."""
        mine, other = self.names if self.programs.index(process.name) % 2 else self.names[::-1]
        async with connect(self.url()) as coordinator:
            while self.world.now < self.stop_at:
                with contextlib.suppress(DeadlockDetected):
                    await self._take_both(process, coordinator, mine, other)
                await asyncio.sleep(0.1 * self.plan.lease)

    async def _take_both(
        self, process: Process, coordinator: Coordinator, mine: str, other: str
    ) -> None:
        async with coordinator.lock(mine) as first, self.held(process, first):
            await asyncio.sleep(0.1 * self.plan.lease)
            async with coordinator.lock(other) as second, self.held(process, second):
                pass


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
        entry = algorithm(name)
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


class LongClassics(ClassicLocks):
    """Classic algorithms that tolerate crashes, with none: long holds alone must not matter."""

    kinds: ClassVar[tuple[str, ...]] = ()
    hold_leases = 2.0


class LateClassics(ClassicLocks):
    """Classic algorithms that tolerate crashes, with none: event loops that are late by a moment."""

    kinds: ClassVar[tuple[str, ...]] = ("hang",)
    faults_most = 60


class Bank(Workload):
    """Transfers between accounts over all sites of a store; money is neither made nor lost."""

    longest_leases = 1.5
    timeout_leases: ClassVar[float | None] = 4  # of each request
    attempt_seconds_max: ClassVar[float] = math.inf  # until an attempt has ended, one way or other

    def __init__(self, scene: Scene) -> None:
        """Prepare for one run."""
        super().__init__(scene)
        self.histories = HistoryMonitor()
        self.programs = []
        self._filled = False
        self._numbers = 0
        self._totals: list[int] = []

    def _config(self) -> dict[str, Any]:
        return super()._config() | {"store": {"scheme": self.plan.details}}

    def start(self) -> None:
        """Put the sites on stage; all of them use the store."""
        super().start()
        for name in self.nodes:
            self.scene.roles[name].is_node = False

    async def program(self, process: Process) -> None:
        """Be a site: all of them are."""
        await self.node(process)

    async def node(self, process: Process) -> None:
        """Keep a share of the keys, and transfer money until it is time to stop."""
        over = self.scene.end_of(process)
        async with join_store(self.parsed, node=process.name, timeout=4 * self.plan.lease) as store:
            using = [
                asyncio.ensure_future(self._use(process, store, number)) for number in range(2)
            ]
            asked = asyncio.ensure_future(over.wait())
            await _until(asked, using)
            if not asked.done():
                self.scene.roles[process.name].is_done = True
                await asked
            for task in using:
                task.cancel()
            await asyncio.wait(using)
        if not self.scene.is_closing:
            raise Unavailable("it was ended in good order")

    async def _use(self, process: Process, store: ClusterStore, number: int) -> None:
        random, lease = self.scene.random(process, number), self.plan.lease
        if process.name == "n1" and number == 0:
            while not self._filled:
                await self._try(process, self._fill, store)
        while self.world.now < self.stop_at:
            await asyncio.sleep(random.expovariate(1) * 0.3 * lease)
            if self._filled:
                work = self._transfer if random.random() < 0.8 else self._add_up
                await self._try(process, work, store, random)
            elif self.world.now > self.plan.quiet_from:
                await self._try(process, self._look, store)  # hears if the disk has failed

    async def _try(self, process: Process, work: Any, store: ClusterStore, *more: Any) -> None:
        self._numbers += 1
        name = f"T{self._numbers}"
        note = self.histories.add
        note(process, name, "begin")
        began = self.world.now
        try:
            async with store.transaction() as transaction:
                done = await work(process, name, transaction, *more)
        except Conflict as conflict:
            note(process, name, "abort")
            self.scene.counts["Conflict"] += 1
            self.world.recorder.log(process.true_now(), process.name, f"{name}: {conflict}")
        except (OutcomeUnknown, Unavailable) as error:
            self.scene.counts[type(error).__name__] += 1
            if isinstance(error, Unavailable):
                note(process, name, "abort")
                # The disk has failed. The program ends soon, and its next life reads what is there:
                # without this site some transactions of others never come to an end.
                await asyncio.sleep(self.scene.random(process, "ends").random() * self.plan.lease)
                raise
        else:
            note(process, name, "commit")
            self.world.recorder.log(process.true_now(), process.name, f"{name} commits {done}")
            if process.is_alive:
                self._take_note(done)
        took = self.world.now - began
        if took > self.attempt_seconds_max:
            self.world.violate("waiting", f"{name} took {took:.1f} s to end")

    def _take_note(self, done: int | None) -> None:
        if done is None:
            self._filled = True
        elif done >= 0:
            self._totals.append(done)

    async def _fill(self, process: Process, name: str, transaction: Transaction) -> None:
        for number in range(ACCOUNTS):
            await self._put(process, name, transaction, f"k{number}", BALANCE)

    async def _look(self, process: Process, name: str, transaction: Transaction) -> int:
        await self._get(process, name, transaction, "k0")
        return -1

    async def _transfer(
        self, process: Process, name: str, transaction: Transaction, random: Random
    ) -> int:
        source, target = (f"k{number}" for number in random.sample(range(ACCOUNTS), 2))
        taken = await self._get(process, name, transaction, source)
        given = await self._get(process, name, transaction, target)
        await self._put(process, name, transaction, source, taken - 1)
        await self._put(process, name, transaction, target, given + 1)
        return -1

    async def _add_up(
        self, process: Process, name: str, transaction: Transaction, random: Random
    ) -> int:
        total = 0
        for number in range(ACCOUNTS):
            total += await self._get(process, name, transaction, f"k{number}")
        return total

    async def _get(self, process: Process, name: str, transaction: Transaction, key: str) -> int:
        value = await transaction.get(key)
        self.histories.add(process, name, "read", key, value)
        return 0 if value is None else int(value[0])

    async def _put(
        self, process: Process, name: str, transaction: Transaction, key: str, amount: int
    ) -> None:
        value = [amount, name]  # no two writes are of the same value
        await transaction.put(key, value)
        self.histories.add(process, name, "write", key, value)

    def finish(self) -> None:
        """Judge the history."""
        self.scene.counts["transactions"] += self.histories.transactions
        for total in self._totals:
            if total != ACCOUNTS * BALANCE:
                raise ViolationError("money", f"{total} where {ACCOUNTS * BALANCE} were paid in")
        if self.histories.judge() is None:
            self.scene.counts["undecided"] += 1


class FarBank(Bank):
    """The same where sites are far from each other, and no timeout ends a deadlock."""

    kinds: ClassVar[tuple[str, ...]] = ()
    timeout_leases = None
    attempt_seconds_max = 10.0


class LivesOfSites(Bank):
    """The same with sites that are killed while what they sent is still on its way."""

    kinds: ClassVar[tuple[str, ...]] = ("former-life", "short-life")


class DisksOfSites(Bank):
    """The same with disks that fail, and sites that die while they write or just after they spoke."""

    kinds: ClassVar[tuple[str, ...]] = faults.DISKS
    faults_most = 16


async def _until(asked: asyncio.Task[Any], using: list[asyncio.Task[None]]) -> None:
    """Wait until asked to end, or until all use is over; raise what went wrong with that."""
    left = list(using)
    while left and not asked.done():
        await asyncio.wait([asked, *left], return_when=asyncio.FIRST_COMPLETED)
        for task in [task for task in left if task.done()]:
            left.remove(task)
            task.result()


WORKLOADS: dict[str, type[Workload]] = {
    "locks": LeasedLocks,
    "exclusive": ExclusiveLocks,
    "shared": SharedLocks,
    "semaphore": Semaphores,
    "election": Elections,
    "lock-all": SeveralLocks,
    "restarts": Restarts,
    "shutdowns": Shutdowns,
    "new-disks": NewDisks,
    "diskless": Diskless,
    "pauses": Pauses,
    "resets": Resets,
    "line": Line,
    "shared-line": Line,  # with some that share
    "circles": Circles,
    "far-circles": Circles,  # with nodes far away
    "classic": ClassicLocks,
    "classic-crashes": CrashingClassics,
    "classic-returns": ReturningClassics,
    "classic-long": LongClassics,
    "classic-late": LateClassics,
    "store": Bank,
    "store-lives": LivesOfSites,
    "store-disks": DisksOfSites,
    "far-store": FarBank,
}
