"""Transactions over the sites of a store, whose history is judged in the end."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any, ClassVar

from coterie.cluster.store import join_store
from coterie.errors import Conflict, OutcomeUnknown, Unavailable
from coterie.lab.stack.scene import faults
from coterie.lab.stack.scene.monitors import HistoryMonitor
from coterie.lab.stack.workloads.workload import Workload
from coterie.lab.stack.world import ViolationError

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from random import Random

    from coterie.cluster.store import ClusterStore
    from coterie.lab.stack.scene.scene import Scene
    from coterie.lab.stack.world.machine import Process
    from coterie.transactions import Transaction

ACCOUNTS, BALANCE = 6, 100


class Bank(Workload):
    """Transfers between accounts over all sites of a store; money is neither made nor lost."""

    longest_leases = 1.5
    timeout_leases: ClassVar[float | None] = 4  # of each request
    attempt_seconds_max: ClassVar[float] = math.inf  # until an attempt has ended, one way or other
    users: ClassVar[int] = 2  # of each site

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
        async with self._joined(process) as store:
            using = [
                asyncio.ensure_future(self._use(process, store, number))
                for number in range(self.users)
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

    def _joined(self, process: Process) -> AbstractAsyncContextManager[ClusterStore]:
        return join_store(self.parsed, node=process.name, timeout=4 * self.plan.lease)

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
