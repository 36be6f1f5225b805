"""Locks per second and CPU per lock: our three voters against one Redis and a bare lock table.

The table is a FIFO of names in one asyncio process, without replication, disk or lease: the least
that a lock over a socket can cost in pure Python. Redis is redis-py's lock against one server, with
its default polling and with a faster one; it takes part if `redis-server` and the package `redis`
are there. All servers are processes of their own on loopback; the clients are tasks of this one,
each with its own connection.

    python benchmarks/locks.py [SECONDS [REPETITIONS]]

Workloads: *fresh* one client, a new name each time; *again* one client, one name; *hand-off* eight
clients, one name, held for one turn of the event loop; *many* 64 clients, 1,024 names, on one
connection. The peers are interleaved, and the median of each figure is shown. A hand-off is an entry
by another client than the one before; fairness is the least served client over the most served.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import importlib.util
import itertools
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import coterie

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

HOST = "127.0.0.1"
TICKS = os.sysconf("SC_CLK_TCK")
WARM_UP_SECONDS = 0.3


class Client(Protocol):
    """Somebody who takes locks; the lock itself is a context manager."""

    def lock(self, name: str) -> contextlib.AbstractAsyncContextManager[Any]: ...


class Workload(NamedTuple):
    name: str
    clients: int
    names: int | None  # None: a fresh one each time
    shared: bool = False  # all clients on one connection


WORKLOADS = [
    Workload("fresh", 1, None),
    Workload("again", 1, 1),
    Workload("hand-off", 8, 1),
    Workload("many", 64, 1024, shared=True),
]


class Result(NamedTuple):
    operations: float  # per second
    handoffs: float  # per second
    fairness: float
    cpu: float  # seconds per 1,000 operations, all processes together


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((HOST, 0))
        return [int(each.getsockname()[1]) for each in sockets]


@contextlib.contextmanager
def servers(*commands: list[str]) -> Iterator[list[int]]:
    """Run these commands; gives their process ids."""
    started = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for command in commands]
    try:
        yield [process.pid for process in started]
    finally:
        for process in started:
            process.terminate()
            process.wait()


async def listening(ports: list[int]) -> None:
    for port in ports:
        while True:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection(HOST, port)
                writer.close()
                break
            await asyncio.sleep(0.05)


# The peers: each gives the process ids of its servers and a maker of clients


class Peer(NamedTuple):
    pids: list[int]
    connect: Callable[[], contextlib.AbstractAsyncContextManager[Client]]


@contextlib.asynccontextmanager
async def our_voters() -> AsyncIterator[Peer]:
    ports = free_ports(3)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "coterie.toml")
        nodes = "".join(
            f'[nodes.{name}]\naddress = "{HOST}:{port}"\n'
            for name, port in zip("abc", ports, strict=True)
        )
        path.write_text(f'data = "data"\n{nodes}')  # noqa: ASYNC240 - before anything is measured
        program = [sys.executable, "-c", "from coterie.cli import main; main()", "serve", "-q"]
        options = ["--new-cluster", "--config", str(path), "--node"]
        with servers(*([*program, *options, name] for name in "abc")) as pids:
            await listening(ports)
            url = "coterie://" + ",".join(f"{HOST}:{port}" for port in ports)
            yield Peer(pids, lambda: coterie.connect(url))


class TableServer(asyncio.Protocol):
    """The bare lock table."""

    queues: ClassVar[dict[bytes, collections.deque[asyncio.Transport]]] = {}

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.rest = b""

    def data_received(self, data: bytes) -> None:
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            queue = self.queues.setdefault(line[1:], collections.deque())
            if line[:1] == b"A":
                queue.append(self.transport)
                if len(queue) == 1:
                    self.transport.write(line + b"\n")
                continue
            queue.popleft()
            self.transport.write(line + b"\n")
            if queue:
                queue[0].write(b"A" + line[1:] + b"\n")
            else:
                del self.queues[line[1:]]


class TableClient(asyncio.Protocol):
    def __init__(self) -> None:
        self.calls: collections.defaultdict[bytes, collections.deque[asyncio.Future[None]]]
        self.calls = collections.defaultdict(collections.deque)
        self.rest = b""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            self.calls[line].popleft().set_result(None)

    async def call(self, line: bytes) -> None:
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.calls[line].append(answer)
        self.transport.write(line + b"\n")
        await answer

    @contextlib.asynccontextmanager
    async def lock(self, name: str) -> AsyncIterator[None]:
        await self.call(b"A" + name.encode())
        yield
        await self.call(b"R" + name.encode())


@contextlib.asynccontextmanager
async def bare_table() -> AsyncIterator[Peer]:
    (port,) = free_ports(1)

    @contextlib.asynccontextmanager
    async def connect() -> AsyncIterator[Client]:
        loop = asyncio.get_running_loop()
        transport, client = await loop.create_connection(TableClient, HOST, port)
        yield client
        transport.close()

    with servers([sys.executable, __file__, "--table", str(port)]) as pids:
        await listening([port])
        yield Peer(pids, connect)


@contextlib.asynccontextmanager
async def redis_lock(poll: float) -> AsyncIterator[Peer]:
    import redis.asyncio as library  # type: ignore[import-not-found]  # noqa: PLC0415 - optional

    (port,) = free_ports(1)

    class RedisClient:
        def __init__(self, connection: Any) -> None:
            self.connection = connection

        def lock(self, name: str) -> Any:
            return self.connection.lock(name, timeout=30, sleep=poll, thread_local=False)

    @contextlib.asynccontextmanager
    async def connect() -> AsyncIterator[Client]:
        async with library.Redis(host=HOST, port=port) as connection:
            await connection.ping()
            yield RedisClient(connection)

    with servers(["redis-server", "--bind", HOST, "--port", str(port), "--save", ""]) as pids:
        await listening([port])
        yield Peer(pids, connect)


# Measuring


def cpu_seconds(pids: list[int]) -> float:
    total = time.process_time()
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += (int(fields[11]) + int(fields[12])) / TICKS
    return total


async def measure(peer: Peer, workload: Workload, seconds: float) -> Result:
    entries: list[tuple[int, float]] = []  # client and time
    start = time.monotonic() + WARM_UP_SECONDS
    end = start + seconds
    dice = random.Random(1)
    run = f"{workload.name}-{random.randrange(1 << 30)}"
    inside: set[str] = set()

    async def work(client: Client, number: int) -> None:
        for count in itertools.count():
            if time.monotonic() >= end:
                return
            chosen = count if workload.names is None else dice.randrange(workload.names)
            name = f"{run}/{chosen}"
            async with client.lock(name):
                assert name not in inside, "two are inside"
                inside.add(name)
                if workload.clients > 1:
                    await asyncio.sleep(0)
                inside.remove(name)
            entries.append((number, time.monotonic()))

    async with contextlib.AsyncExitStack() as stack:
        connections = 1 if workload.shared else workload.clients
        clients = [await stack.enter_async_context(peer.connect()) for _ in range(connections)]
        tasks = [
            asyncio.ensure_future(work(clients[number % connections], number))
            for number in range(workload.clients)
        ]
        await asyncio.sleep(start - time.monotonic())
        before = cpu_seconds(peer.pids)
        await asyncio.gather(*tasks)
        cpu = cpu_seconds(peer.pids) - before
    counted = [number for number, when in entries if when >= start]
    served = [counted.count(number) for number in range(workload.clients)]
    handoffs = sum(one != other for one, other in itertools.pairwise(counted))
    return Result(
        len(counted) / seconds,
        handoffs / seconds,
        min(served) / max(1, *served),
        1000 * cpu / max(1, len(counted)),
    )


async def compare(seconds: float, repetitions: int) -> None:
    peers: dict[str, Callable[[], contextlib.AbstractAsyncContextManager[Peer]]] = {
        "coterie, 3 voters": our_voters,
        "bare table, 1 process": bare_table,
    }
    if shutil.which("redis-server") and importlib.util.find_spec("redis"):
        peers["redis-py, 1 server"] = lambda: redis_lock(0.1)
        peers["redis-py, 5 ms polls"] = lambda: redis_lock(0.005)
    results: dict[tuple[str, str], list[Result]] = collections.defaultdict(list)
    for _ in range(repetitions):
        for name, start in peers.items():
            async with start() as peer:
                for workload in WORKLOADS:
                    result = await measure(peer, workload, seconds)
                    results[workload.name, name].append(result)
    print(
        f"{'workload':9} {'peer':22} {'locks/s':>9} {'hand-offs/s':>12} {'fairness':>9} {'CPU':>7}"
    )
    for (workload_name, name), measured in sorted(results.items(), key=lambda item: item[0][0]):
        middle = Result(*(median(column) for column in zip(*measured, strict=True)))
        contended = f"{middle.handoffs:12.0f} {middle.fairness:9.2f}"
        if workload_name != "hand-off":
            contended = " " * len(contended)
        print(f"{workload_name:9} {name:22} {middle.operations:9.0f} {contended} {middle.cpu:7.2f}")
    print("CPU: seconds per 1,000 locks, servers and clients together")


async def serve_table(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(TableServer, HOST, port)
    await server.serve_forever()


def main() -> None:
    if sys.argv[1:2] == ["--table"]:
        asyncio.run(serve_table(int(sys.argv[2])))
        return
    seconds, repetitions = [*map(float, sys.argv[1:]), *(3.0, 3.0)[len(sys.argv) - 1 :]]
    asyncio.run(compare(seconds, int(repetitions)))


if __name__ == "__main__":
    main()
