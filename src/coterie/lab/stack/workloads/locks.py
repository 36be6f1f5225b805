"""Programs that take the locks of a cluster, in all ways there are, some of them with no fault at all."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, ClassVar

from coterie.cluster.node import Node
from coterie.errors import AcquireTimeout, CoterieError, DeadlockDetected, LockLost, Unavailable
from coterie.lab.stack.scene import faults
from coterie.lab.stack.scene.monitors import OrderMonitor
from coterie.lab.stack.workloads.workload import END_SECONDS, Workload
from coterie.lab.stack.world import ViolationError
from coterie.locks import connect

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from coterie.lab.stack.scene.scene import Scene
    from coterie.lab.stack.world.machine import Process
    from coterie.locks import Acquirable, Coordinator

HEDGE_SHARE = 0.2  # of a lease
TAIL_SPREADS = 24  # of two latencies one in some 10^9 is above this, as exponential ones are


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
        failures: list[CoterieError] = []

        def fail(failure: CoterieError) -> None:
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
        return self.url_of(self.known_nodes())

    def known_nodes(self) -> list[str]:
        """Return the nodes by which programs find the cluster."""
        return self.nodes

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
        answered = 2 * self.plan.delay + TAIL_SPREADS * self.plan.spread
        if self.world.now > self.calm_from() and answered < 0.75 * self._lease_of(use):
            self.world.violate("calm", f"{process.name} at {self.world.now:.3f} s: {error}")

    def calm_from(self) -> float:
        """Return when all faults are long over."""
        return self.plan.quiet_from + 3 * self.plan.lease + 2

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
            "short": lambda: coordinator.lock(name, lease=self._lease_of(use)),
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
        """Take all locks, by a program that comes after all others."""
        self.scene.locks.forget_dead()
        self.scene.cast("last", self._last, is_node=False)
        self.scene.start("last")
        limit = self.world.now + END_SECONDS + 3 * self.longest_lease
        self.world.run(limit, lambda: not self.scene.programs_left())
        if self.scene.programs_left():
            raise ViolationError(
                "left held", "a lock cannot be taken after all programs have ended"
            )

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


class FirstComeFirstServed(LeasedLocks):
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


class OncePerLease(LeasedLocks):
    """Jobs that ask about once per lease for a lock that another program holds: they time out, and no more.

    A session of which nothing was heard for nearly a lease is no sign that its voter is gone: a heartbeat asks for
    an answer with the request, and the voter has `hedge` for it (4.5, 4.6). In `impatience` they ask again after the
    shortest of pauses, and wait for moments: no request is answered, and none may put off that heartbeat.
    """

    kinds: ClassVar[tuple[str, ...]] = ()
    names = ("a",)

    def __init__(self, scene: Scene) -> None:
        """Prepare for one run."""
        super().__init__(scene)
        is_hasty = scene.plan.workload == "impatience"
        self._idle_leases = (0.005, 0.04) if is_hasty else (0.7, 1.05)
        self._patience_leases = 0.03 if is_hasty else 0.3
        self._rounds = 6 if is_hasty else 30  # leases

    def start(self) -> None:
        """Put all on stage, for some leases."""
        super().start()
        self.stop_at += self._rounds * self.plan.lease

    async def program(self, process: Process) -> None:
        """Hold the lock for a long time, or ask for it once in a lease."""
        random, lease = self.scene.random(process), self.plan.lease
        async with connect(self.url()) as coordinator:
            while self.world.now < self.stop_at:
                if process.name == self.programs[0]:
                    async with coordinator.lock("a") as held, self.held(process, held):
                        await asyncio.sleep(self._rounds * lease)
                    continue
                await asyncio.sleep(random.uniform(*self._idle_leases) * lease)
                try:
                    wanted = coordinator.lock(
                        "a", timeout=random.random() * self._patience_leases * lease
                    )
                    async with wanted as held, self.held(process, held):
                        pass
                except AcquireTimeout:
                    self.scene.counts["AcquireTimeout"] += 1
                except Unavailable as error:
                    self._judge_error(process, "exclusive", error)

    def _judge_error(self, process: Process, use: str, error: Exception) -> None:
        """Accept that voters seem silent where an answer takes longer than a hedge now and then."""
        answered = 2 * self.plan.delay + TAIL_SPREADS * self.plan.spread
        if answered < HEDGE_SHARE * self.plan.lease:
            super()._judge_error(process, use, error)


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
