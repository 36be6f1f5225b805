"""A store over three sites beside one PostgreSQL server: what a commit costs when both sync it.

    python -m benchmarks.transactions.sites [--seconds 3] [--repetitions 3]

Three processes with one task each transfer between 1,000 accounts, drawn evenly. By ours each process
is a site, and two transfers of three take place at two sites. By PostgreSQL each process has one
connection, and its transactions are SERIALIZABLE. CPU is that of all processes and of the server. All
programs run on uvloop if it is installed. The two take turns, since the machine may be busy with other
things. Without a server, or without asyncpg, only ours is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import multiprocessing
import random
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks import command
from benchmarks.locks.machine import HOST, cpu_seconds, free_ports
from benchmarks.locks.peers.postgres import Postgres
from benchmarks.transactions.workload import ACCOUNTS, DEPOSIT
from coterie.cluster.membership.config import convert
from coterie.cluster.store import join_store
from coterie.system.aio import new_event_loop

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from multiprocessing.connection import Connection

    from coterie.cluster.store import ClusterStore
    from coterie.transactions import Transaction

OURS, POSTGRES = "coterie, three sites", "PostgreSQL SERIALIZABLE, one server"
NAMES = "abc"
KEYS = [f"account/{number:04}" for number in range(ACCOUNTS)]
WARM_UP_SECONDS = 0.5


class Cost(NamedTuple):
    """What a commit costs, in microseconds."""

    wall: float  # as its client sees it
    cpu: float


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.transactions.sites",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement")
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args()
    missing = command.unmet({POSTGRES: Postgres.needs})
    for store, packages in missing.items():
        print(f"{store} is left out: install {', '.join(packages)}")
    costs: dict[str, list[Cost]] = {}
    for _ in range(options.repetitions):
        for store in (OURS, POSTGRES):
            if store not in missing:
                costs.setdefault(store, []).append(measure(store, options.seconds))
    for store, found in costs.items():
        wall, cpu = (median(figures) for figures in zip(*found, strict=True))
        print(f"{store}: {cpu:,.0f} us of CPU and {wall:,.0f} us for each commit")
    return 0


def measure(store: str, seconds: float) -> Cost:
    """Measure one store, in processes of its own."""
    with tempfile.TemporaryDirectory(prefix="coterie-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # the server of PostgreSQL has another user
        if store == OURS:
            settings = {"document": document(), "folder": folder}
            return _measure(use_ours, settings, [], seconds)
        server = Postgres()
        server.start(folder)
        try:
            servers = [each.process.pid for each in server.servers]
            return _measure(use_postgres, server.settings(), servers, seconds)
        finally:
            for each in server.servers:
                each.stop()


def document() -> dict[str, Any]:
    """Describe a cluster of three sites on this machine."""
    ports = iter(free_ports(2 * len(NAMES)))
    nodes = {
        name: {"address": f"{HOST}:{next(ports)}", "store": f"{HOST}:{next(ports)}"}
        for name in NAMES
    }
    return {"cluster": "bench", "lease": 3.0, "data": "data", "nodes": nodes}


def _measure(
    use: Callable[..., None],
    settings: dict[str, Any],
    servers: list[int],
    seconds: float,
) -> Cost:
    fresh = multiprocessing.get_context("spawn")
    pipes, programs = [], []
    for name in NAMES:
        ours, theirs = fresh.Pipe()
        programs.append(fresh.Process(target=use, args=(settings, name, theirs)))
        programs[-1].start()
        pipes.append(ours)
    try:
        for pipe in pipes:
            pipe.recv()  # it is up
        for pipe in pipes:  # the first fills the bank
            pipe.send("fill")
            pipe.recv()
        for pipe in pipes:
            pipe.send("go")
        time.sleep(WARM_UP_SECONDS)
        pids = [*servers, *(program.pid for program in programs if program.pid is not None)]
        before = _count(pipes), cpu_seconds(pids), time.perf_counter()
        time.sleep(seconds)
        after = _count(pipes), cpu_seconds(pids), time.perf_counter()
        for pipe in pipes:
            pipe.send("end")
            pipe.recv()
    finally:
        for program in programs:
            program.kill()
            program.join()
    commits, cpu, wall = (late - early for early, late in zip(before, after, strict=True))
    return Cost(wall * len(NAMES) / commits * 1e6, cpu / commits * 1e6)


def _count(pipes: list[Connection]) -> int:
    for pipe in pipes:
        pipe.send("count")
    return sum(pipe.recv() for pipe in pipes)


def use_ours(settings: dict[str, Any], name: str, pipe: Connection) -> None:
    """Be a site, with one task."""

    async def main() -> None:
        async with join_store(convert(**settings), node=name) as store:
            await serve(pipe, name, lambda: _fill(store), lambda pair: _transfer(store, *pair))

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(main())


async def _fill(store: ClusterStore) -> None:
    async def work(t: Transaction) -> None:
        for key in KEYS:
            await t.put(key, DEPOSIT)

    await store.run(work)


async def _transfer(store: ClusterStore, giver: str, taker: str) -> None:
    async def work(t: Transaction) -> None:
        given = await t.get(giver, for_update=True)
        taken = await t.get(taker, for_update=True)
        await t.put(giver, given - 1)
        await t.put(taker, taken + 1)

    await store.run(work)


def use_postgres(settings: dict[str, Any], name: str, pipe: Connection) -> None:
    """Be a client of the server, with one task and one connection."""
    library = importlib.import_module("asyncpg")

    async def main() -> None:
        connection = await library.connect(host=HOST, database="postgres", ssl=False, **settings)

        async def fill() -> None:
            await connection.execute("CREATE TABLE bank (key text PRIMARY KEY, balance bigint)")
            rows = [(key, DEPOSIT) for key in KEYS]
            await connection.executemany("INSERT INTO bank VALUES ($1, $2)", rows)

        async def transfer(pair: list[str]) -> None:
            read = "SELECT balance FROM bank WHERE key = $1 FOR UPDATE"
            write = "UPDATE bank SET balance = $2 WHERE key = $1"
            while True:
                try:
                    async with connection.transaction(isolation="serializable"):
                        given, taken = [await connection.fetchval(read, key) for key in pair]
                        await connection.execute(write, pair[0], given - 1)
                        await connection.execute(write, pair[1], taken + 1)
                except (library.SerializationError, library.DeadlockDetectedError):
                    continue
                return

        await serve(pipe, name, fill, transfer)

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(main())


async def serve(
    pipe: Connection,
    name: str,
    fill: Callable[[], Awaitable[None]],
    transfer: Callable[[list[str]], Awaitable[None]],
) -> None:
    """Do what the pipe says: fill the bank, transfer until the end, and tell how often."""
    dice = random.Random(name)
    heard: asyncio.Queue[str] = asyncio.Queue()
    asyncio.get_running_loop().add_reader(pipe.fileno(), lambda: heard.put_nowait(pipe.recv()))
    pipe.send("up")
    await heard.get()
    if name == NAMES[0]:
        await fill()
    pipe.send("filled")
    await heard.get()
    commits = 0
    while True:
        await transfer(dice.sample(KEYS, 2))
        commits += 1
        while not heard.empty():
            if heard.get_nowait() == "end":
                pipe.send("over")
                await heard.get()  # in vain: the others may need this site, and it is killed
            pipe.send(commits)


if __name__ == "__main__":
    sys.exit(main())
