"""How long a killed holder keeps the next one waiting, with and without a witness of its end.

    python -m benchmarks.killed_holders [--rounds 50] [--lease 10] [--url URL]

A program takes a lock, another waits for it, and the first is killed with SIGKILL; the time runs from
the kill until the second has the lock. Every other round the holder is connected with `witness=off`:
then nothing but its lease tells of its end. Rounds without a witness take a lease each, so several of them
wait side by side, each with a lock of its own. All of it runs on this machine: without --url three nodes
of a cluster are started for it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import coterie
from coterie.cluster.membership.config import convert
from coterie.testing.nodes import NodeProcess, local_document, url_of, write_document

if TYPE_CHECKING:
    from collections.abc import Iterator

HOLD = """
import sys, coterie
with coterie.sync.connect(sys.argv[1]) as c, c.lock(sys.argv[2]):
    print("holds", flush=True)
    sys.stdin.read()
"""
TOGETHER = 10  # rounds without a witness
STARTS = 100  # calls until nodes that were started have to answer


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--lease", type=float, default=10.0)
    parser.add_argument("--url")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        url = options.url or stack.enter_context(nodes(options.lease))
        taken = asyncio.run(measure(url, options.rounds))
    print(
        f"{'killed holder, ms until the next is in':<40} {'rounds':>6} {'median':>8} {'worst':>8}"
    )
    for name, seconds in taken.items():
        times = [each * 1e3 for each in seconds]
        print(f"{name:<40} {len(times):>6} {median(times):>8.0f} {max(times):>8.0f}")
    return 0


@contextlib.contextmanager
def nodes(lease: float) -> Iterator[str]:
    """Run three nodes of a cluster on this machine."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        document = local_document("abc", cluster="bench", lease=lease, data="data")
        file = write_document(document, folder)
        started = [
            NodeProcess(node, folder / f"{node}.log", "--config", str(file), "--new-cluster")
            for node in "abc"
        ]
        try:
            yield url_of(convert(document, folder))
        finally:
            for node in started:
                node.kill()


async def measure(url: str, rounds: int) -> dict[str, list[float]]:
    taken: dict[str, list[float]] = {"with a witness": [], "without": []}
    async with await connected(url) as coordinator:
        for first in range(0, rounds, TOGETHER):
            some = range(first, min(rounds, first + TOGETHER))
            for number in some:
                taken["with a witness"].append(await kill(coordinator, url, f"seen {number}"))
            unseen = f"{url}{'&' if '?' in url else '?'}witness=off"
            waits = [kill(coordinator, unseen, f"unseen {number}") for number in some]
            taken["without"] += await asyncio.gather(*waits)
    return taken


async def connected(url: str) -> coterie.Coordinator:
    """Connect as soon as so many of the nodes that were just started answer that a lock can be had."""
    for _ in range(STARTS):
        with contextlib.suppress(coterie.Unavailable):
            async with coterie.connect(url) as coordinator, coordinator.lock("started"):
                break
        await asyncio.sleep(0.1)
    return coterie.connect(url)


async def kill(coordinator: coterie.Coordinator, url: str, name: str) -> float:
    """Kill a holder of the lock; return how long the next one had to wait for it."""
    pipe = asyncio.subprocess.PIPE
    holder = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLD, url, name, stdin=pipe, stdout=pipe
    )
    assert holder.stdout is not None
    await holder.stdout.readline()
    entering = asyncio.ensure_future(coordinator.lock(name).acquire())
    while not await coordinator.waiters(name):
        pass
    killed = time.monotonic()
    os.kill(holder.pid, signal.SIGKILL)
    held = await entering
    seconds = time.monotonic() - killed
    assert held is not None
    await held.release()
    await holder.wait()
    return seconds


if __name__ == "__main__":
    sys.exit(main())
