"""Every operation of a store on few keys, by programs at all of its sites."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, ClassVar

from coterie.cluster.store import ClusterStore
from coterie.cluster.store.executor import SiteExecutor
from coterie.errors import Conflict, OutcomeUnknown, Unavailable
from coterie.lab.serializability import check
from coterie.lab.stack.workloads.store import Bank
from coterie.lab.stack.world import ViolationError
from coterie.lab.trials.chronicle import Chronicle
from coterie.lab.trials.clients import Began, Wrote
from coterie.lab.trials.trial import Program, Request, declaration, program
from coterie.transactions.store.values import encode

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from random import Random

    from coterie.cluster.membership.config import Config
    from coterie.lab.stack.scene.scene import Scene
    from coterie.lab.stack.world.machine import Process
    from coterie.process import Event
    from coterie.transactions import Transaction

KEYS = ("k0", "k1", "k2", "k3", "k4")
END = "k5"  # behind all of them
TRIES = 4


class ChangedItsMindError(Exception):
    """The program of a transaction raises this, so the transaction is to leave no trace."""


class WatchedSite(SiteExecutor):
    """A site whose events a second listener gets, before its users."""

    def __init__(self, config: Config, node: str, watch: Callable[[Event], None]) -> None:
        """Prepare; the site starts when it is opened."""
        self._watch = watch
        super().__init__(config, node)

    def _hear(self, event: Event) -> None:
        self._watch(event)
        super()._hear(event)


class Mixture(Bank):
    """Reads, also for update, scans, writes and deletes in any mixture; no timeout ends a deadlock.

    Transactions that delete cannot be judged by the values that they read: an absent key does not tell
    who made it absent. So the history has the numbers of versions, as sites tell them.
    """

    users: ClassVar[int] = 3
    timeout_leases: ClassVar[float | None] = None

    def __init__(self, scene: Scene) -> None:
        """Prepare for one run."""
        super().__init__(scene)
        self.chronicle = Chronicle(KEYS)

    def _config(self) -> dict[str, Any]:
        scheme, _, variant = self.plan.details.partition("/")
        store = {"scheme": scheme, "variant": variant} if variant else {"scheme": scheme}
        return super()._config() | {"store": store}

    @contextlib.asynccontextmanager
    async def _joined(self, process: Process) -> AsyncIterator[ClusterStore]:
        def watch(event: Event) -> None:
            if process.is_alive:
                self.chronicle.add(event)

        executor = WatchedSite(self.parsed, process.name, watch)
        await executor.open()
        async with ClusterStore(executor, timeout=None, record=False) as store:
            yield store

    async def _use(self, process: Process, store: ClusterStore, number: int) -> None:
        random = self.scene.random(process, number)
        while self.world.now < self.stop_at:
            await asyncio.sleep(random.expovariate(1) * 0.15 * self.plan.lease)
            await self._run(process, store, draw_program(random), random)

    async def _run(
        self, process: Process, store: ClusterStore, script: Program, random: Random
    ) -> None:
        declared, counts = declaration(script), self.scene.counts

        async def work(transaction: Transaction) -> None:
            if process.is_alive:
                self.chronicle.add(Began(transaction.name, transaction.failures))
            await self._play(process, transaction, script, random)

        try:
            await store.run(work, tries=TRIES, reads=declared.reads, writes=declared.writes)
        except (Conflict, OutcomeUnknown, ChangedItsMindError) as error:
            counts[type(error).__name__] += 1
        except Unavailable:
            # The disk has failed. The program ends, and its next life reads what is there.
            await asyncio.sleep(random.random() * self.plan.lease)
            raise

    async def _play(
        self, process: Process, transaction: Transaction, script: Program, random: Random
    ) -> None:
        for place, request in enumerate(script):
            if request.op == "a":
                transaction.abort()
                return
            if process.is_alive and request.op in "wd":
                self.chronicle.add(write_of(transaction, request, place))
            await carry_out(transaction, request, place, random)
        if random.random() < 0.03:
            raise ChangedItsMindError

    def finish(self) -> None:
        """Judge the history."""
        history = self.chronicle.history()
        self.scene.counts["transactions"] += len(self.chronicle.committed)
        report = check(history)
        if report.serializable is False:
            text = "; ".join(str(anomaly) for anomaly in report.anomalies[:2])
            raise ViolationError("serializable", text)
        if report.serializable is None:
            self.scene.counts["undecided"] += 1


def write_of(transaction: Transaction, request: Request, place: int) -> Wrote:
    """Return what is noted of a write or a delete; each value is written once."""
    value = None if request.op == "d" else encode(request.key, f"{transaction.name}/{place}")
    return Wrote(transaction.name, request.key, value)


async def carry_out(transaction: Transaction, request: Request, place: int, random: Random) -> None:
    """Make a request of a program, by the API of a store."""
    key = request.key
    match request.op:
        case "r" | "u":
            await transaction.get(key, for_update=request.op == "u")
        case "s":
            await transaction.scan(key, request.end, limit=random.choice((None, None, 1, 2)))
        case "d":
            await transaction.delete(key)
        case _:
            await transaction.put(key, f"{transaction.name}/{place}")


def draw_program(random: Random) -> Program:
    """Draw one to four requests, and writes of most of what is read for update at the end."""
    parts: list[str] = []
    last: list[str] = []
    only_reads = random.random() < 0.2
    for key in random.sample(KEYS, random.randint(1, 3)):
        op = random.choice("rrs" if only_reads else "uuurswd")
        if op == "s":
            low, high = sorted(random.sample((*KEYS, END), 2))
            parts.append(f"s({low},{high})")
            continue
        parts.append(f"{op}({key})")
        if op == "u" and random.random() < 0.8:
            last.append(f"{random.choice('wwd')}({key})")
    if random.random() < 0.3:
        parts.append(f"r({random.choice(KEYS)})")
    if random.random() < 0.03:
        last.append("a")
    return program(" ".join(parts + last))
