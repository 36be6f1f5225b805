"""One measurement: eight clients transfer for a while, then the books are checked."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import quantiles
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from benchmarks.locks.machine import busy_seconds, cpu_seconds
from benchmarks.transactions.peers import make
from benchmarks.transactions.peers.base import TaskPeer, ThreadPeer
from benchmarks.transactions.workload import ACCOUNTS, CLIENTS, DEPOSIT, PAUSES, transfers

if TYPE_CHECKING:
    from benchmarks.transactions.peers.base import BlockingClient, Client, Peer
    from benchmarks.transactions.workload import Transfer

DRAWN = 5_000  # transfers of a client; then it begins again


class Pace(NamedTuple):
    """How long a measurement takes."""

    warm_up_seconds: float
    seconds: float


class Case(NamedTuple):
    """What is measured, and how."""

    peer: str
    theta: float
    pause: str
    repetition: int


class Result(msgspec.Struct):
    """What came of it. Times are in seconds."""

    peer: str
    theta: float
    pause: str
    repetition: int
    commits: float  # per second
    aborted: float  # attempts, as a part of all
    median: float  # from the first attempt to the commit
    p99: float
    cpu: float  # per 1,000 commits, clients and servers together
    fairness: float  # commits of the least served client over those of the most served
    right: bool  # every balance is what the transfers add up to
    foreign_cores: float  # that others on this machine kept busy


class Ledger:
    """What one client did."""

    def __init__(self) -> None:
        self.changes: dict[int, int] = {}  # by account, since the beginning
        self.commits = 0
        self.attempts = 0
        self.seconds: list[float] = []  # of each transfer in the window

    def note(self, transfer: Transfer, attempts: int, seconds: float) -> None:
        giver, taker, amount = transfer
        self.changes[giver] = self.changes.get(giver, 0) - amount
        self.changes[taker] = self.changes.get(taker, 0) + amount
        self.commits += 1
        self.attempts += attempts
        self.seconds.append(seconds)


class Moment(NamedTuple):
    """Where things stand when the window begins or ends."""

    time: float
    cpu: float
    busy: float
    commits: list[int]
    attempts: int

    @classmethod
    def now(cls, peer: Peer, ledgers: list[Ledger]) -> Moment:
        servers = cpu_seconds([] if peer.server is None else [peer.server])
        return cls(
            time.perf_counter(),
            time.process_time() + servers,
            busy_seconds(),
            [ledger.commits for ledger in ledgers],
            sum(ledger.attempts for ledger in ledgers),
        )


def measure(case: Case, pace: Pace) -> Result:
    """Measure one peer in this process."""
    return asyncio.run(_measure(case, pace))


async def _measure(case: Case, pace: Pace) -> Result:
    peer = make(case.peer)
    ledgers = [Ledger() for _ in range(CLIENTS)]
    seeds = range(CLIENTS * case.repetition, CLIENTS * (case.repetition + 1))
    orders = [transfers(case.theta, DRAWN, seed) for seed in seeds]
    over = threading.Event()
    with tempfile.TemporaryDirectory(prefix="coterie-bench-") as folder:
        await peer.open(Path(folder))
        try:
            clients = [
                asyncio.create_task(_client(peer, PAUSES[case.pause], order, ledger, over))
                for order, ledger in zip(orders, ledgers, strict=True)
            ]
            await asyncio.sleep(pace.warm_up_seconds)
            for ledger in ledgers:
                ledger.seconds.clear()
            before = Moment.now(peer, ledgers)
            await asyncio.sleep(pace.seconds)
            after = Moment.now(peer, ledgers)
            over.set()
            await asyncio.gather(*clients)
            right = await peer.balances() == _due(ledgers)
        finally:
            over.set()
            await peer.close()
    return _result(case, before, after, ledgers, right=right)


async def _client(
    peer: Peer, pause: float, order: list[Transfer], ledger: Ledger, over: threading.Event
) -> None:
    if isinstance(peer, TaskPeer):
        await _transfer_all(await peer.connect(), pause, order, ledger, over)
    elif isinstance(peer, ThreadPeer):
        with ThreadPoolExecutor(1) as own:
            work = partial(_transfer_all_blocking, peer, pause, order, ledger, over)
            await asyncio.get_running_loop().run_in_executor(own, work)


async def _transfer_all(
    client: Client, pause: float, order: list[Transfer], ledger: Ledger, over: threading.Event
) -> None:
    clock = time.perf_counter
    for transfer in itertools.cycle(order):
        if over.is_set():
            return
        began = clock()
        attempts = await client.transfer(transfer, pause)
        ledger.note(transfer, attempts, clock() - began)
        await asyncio.sleep(0)


def _transfer_all_blocking(
    peer: ThreadPeer, pause: float, order: list[Transfer], ledger: Ledger, over: threading.Event
) -> None:
    clock = time.perf_counter
    client: BlockingClient = peer.connect()
    try:
        for transfer in itertools.cycle(order):
            if over.is_set():
                return
            began = clock()
            attempts = client.transfer(transfer, pause)
            ledger.note(transfer, attempts, clock() - began)
    finally:
        client.close()


def _due(ledgers: list[Ledger]) -> list[int]:
    due = [DEPOSIT] * ACCOUNTS
    for ledger in ledgers:
        for account, change in ledger.changes.items():
            due[account] += change
    return due


def _result(
    case: Case, before: Moment, after: Moment, ledgers: list[Ledger], *, right: bool
) -> Result:
    served = [late - early for early, late in zip(before.commits, after.commits, strict=True)]
    commits, elapsed = sum(served), after.time - before.time
    # Also those that ended after the window, or starvation would not show.
    seconds = quantiles((each for ledger in ledgers for each in ledger.seconds), n=100)
    cpu = after.cpu - before.cpu
    return Result(
        **case._asdict(),
        commits=commits / elapsed,
        aborted=1 - commits / (after.attempts - before.attempts),
        median=seconds[49],
        p99=seconds[98],
        cpu=cpu / commits * 1000,
        fairness=min(served) / max(served),
        right=right,
        foreign_cores=max(0.0, (after.busy - before.busy - cpu) / elapsed),
    )
