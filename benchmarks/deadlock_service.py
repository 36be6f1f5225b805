"""What deadlock detection costs in the lock service, on a cluster of three nodes over sockets.

    python benchmarks/deadlock_service.py [-o json]

First programs that wait for each other in a ring, from the moment when the last one begins to wait:
how long until one of them gives way, how many searches and frames that took, and the bound of ten
frames a lock and search (two passes of five). Then a lock that many wait for and whose holder runs:
frames a search. Last, what it costs to take note of a wait; locks that are had at once are not.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
import statistics
import sys
import time
from typing import TYPE_CHECKING, Any

import coterie
from coterie import locks
from coterie.cluster.membership.config import convert
from coterie.cluster.node import Node
from coterie.cluster.url import make_engine

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from coterie.cluster.client.engine import ClusterEngine

KINDS = ("FindOwners", "Owners", "AskOwner", "OwnerReport")
FRAMES_PER_LOCK = 10
ROUNDS = 15
NOTED = 20_000


class Cluster:
    """Three nodes, and programs that take locks from them."""

    def __init__(
        self,
        nodes: list[Node],
        engines: list[ClusterEngine],
        programs: list[locks.Coordinator],
    ) -> None:
        self.nodes = nodes
        self.engines = engines
        self.programs = programs

    def frames(self) -> int:
        """Count the frames of searches, each where it was sent."""
        senders: list[Any] = [node.voting for node in self.nodes]
        senders += [engine.group.supply for engine in self.engines]
        return sum(sender.sent[kind] for sender in senders for kind in KINDS)

    def searches(self) -> int:
        return sum(engine.waits.searches for engine in self.engines)


@contextlib.asynccontextmanager
async def cluster(programs: int) -> AsyncIterator[Cluster]:
    with contextlib.ExitStack() as ports:
        sockets = [ports.enter_context(socket.socket()) for _ in range(3)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    named = zip("abc", addresses, strict=True)
    config = convert({"nodes": {name: {"address": address} for name, address in named}})
    async with contextlib.AsyncExitStack() as stack:
        nodes = [Node(config, name, new_cluster=True) for name in "abc"]
        for node in nodes:
            await node.start()
            stack.push_async_callback(node.stop)
        url = "coterie://" + ",".join(addresses)
        engines = [make_engine(url) for _ in range(programs)]
        opened = [
            await stack.enter_async_context(locks.Coordinator(engine, url)) for engine in engines
        ]
        yield Cluster(nodes, engines, opened)


async def ring(size: int) -> dict[str, Any]:
    """Close a ring of programs, again and again."""
    times, searches, frames = [], [], []
    async with cluster(size) as made:
        for _ in range(ROUNDS):
            before = made.searches(), made.frames()
            times.append(await close_ring(made))
            searches.append(made.searches() - before[0])
            frames.append(made.frames() - before[1])
    return {
        "programs": size,
        "milliseconds": 1000 * statistics.median(times),
        "milliseconds_max": 1000 * max(times),
        "searches": statistics.mean(searches),
        "frames": statistics.mean(frames),
        "bound": FRAMES_PER_LOCK * size * statistics.mean(searches),
    }


async def close_ring(made: Cluster) -> float:
    """Give the seconds from the last wait to the victim."""
    size = len(made.programs)
    ready = asyncio.Barrier(size)
    began: list[float] = []
    ended: list[float] = []

    async def member(number: int) -> None:
        program = made.programs[number]
        async with program.lock(f"l{number}"):
            await ready.wait()
            began.append(time.perf_counter())
            try:
                async with program.lock(f"l{(number + 1) % size}"):
                    pass
            except coterie.DeadlockDetected:
                ended.append(time.perf_counter())

    await asyncio.gather(*map(member, range(size)))
    assert len(ended) == 1, "exactly one gives way"
    return ended[0] - max(began)


async def wait(program: locks.Coordinator, own: str) -> None:
    """Hold a lock, for who holds nothing need not search."""
    async with program.lock(own), program.lock("hot"):
        pass


async def hot(waiters: int) -> dict[str, Any]:
    """Let tasks of two programs wait for one lock, until all have waited for a second."""
    async with cluster(3) as made, made.programs[0].lock("hot"):
        crowd = [
            asyncio.ensure_future(wait(made.programs[1 + number % 2], f"own-{number}"))
            for number in range(waiters)
        ]
        # The engines have no event for it.
        while sum(len(e.waits.blocked()) for e in made.engines) < waiters:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await asyncio.sleep(1.0)
        searches, frames = made.searches(), made.frames()
        for task in crowd:
            task.cancel()
        await asyncio.wait(crowd)
    return {"waiters": waiters, "searches": searches, "frames_per_search": frames / searches}


async def noting() -> float:
    """Give the microseconds that the beginning and the end of a wait cost."""
    async with cluster(1) as made:
        async with made.programs[0].lock("a"):
            pass
        waits, task = made.engines[0].waits, asyncio.current_task()
        claim = made.engines[0].place("b", owner=task, shared=False, lease=None, wait=True)
        began = time.perf_counter()
        for _ in range(NOTED):
            waits.begin(task, claim)
            waits.end(task, claim)
        seconds = time.perf_counter() - began
        await claim.granted
        claim.release()
    return 1e6 * seconds / NOTED


async def main() -> dict[str, Any]:
    rings, crowds = [], []
    for size in (2, 3, 5, 10):
        print(f"a ring of {size} programs", file=sys.stderr)
        rings.append(await ring(size))
    for waiters in (10, 100, 1000):
        print(f"{waiters} tasks wait for one lock", file=sys.stderr)
        crowds.append(await hot(waiters))
    print("the bookkeeping of a wait", file=sys.stderr)
    return {"rings": rings, "crowds": crowds, "microseconds_a_wait": await noting()}


def show(results: dict[str, Any]) -> None:
    print(f"programs in a ring, {ROUNDS} rounds, medians of ms, means of counts")
    print(f"{'programs':>8}{'ms':>8}{'max':>8}{'searches':>10}{'frames':>8}{'bound':>8}")
    for row in results["rings"]:
        print(
            f"{row['programs']:>8}{row['milliseconds']:>8.0f}{row['milliseconds_max']:>8.0f}"
            f"{row['searches']:>10.1f}{row['frames']:>8.1f}{row['bound']:>8.0f}"
        )
    print("\ntasks of two programs that wait for one lock, for one second")
    print(f"{'waiters':>8}{'searches':>10}{'frames a search':>18}")
    for row in results["crowds"]:
        print(f"{row['waiters']:>8}{row['searches']:>10}{row['frames_per_search']:>18.1f}")
    print(f"\ntaking note of a wait: {results['microseconds_a_wait']:.1f} microseconds")


if __name__ == "__main__":
    logging.getLogger("coterie").setLevel(logging.CRITICAL)
    measured = asyncio.run(main())
    if sys.argv[1:] == ["-o", "json"]:
        print(json.dumps(measured, indent=2))
    else:
        show(measured)
