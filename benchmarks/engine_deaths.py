"""How soon a dead holder is found whose lock no one waits for: python -m benchmarks.engine_deaths ENGINE [--rounds N].

Three programs are connected and use no lock. Others hold one each, and are killed at different moments of their lease,
with no witness on their machine. The time runs from the kill until the entry is gone from the queue, in leases.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import coterie
from benchmarks.killed_holders import HOLD
from coterie.engines.queue.engine import QueueEngine
from coterie.locks.internals import engine_of
from tests.engines.conformance.suppliers import SUPPLIERS

OBSERVERS = 3
LOOK_SECONDS = 0.05
ENGINES = ("etcd", "mariadb", "nats", "postgresql", "s3", "valkey", "zookeeper")
SEEN = ("etcd", "zookeeper")  # where a program of this machine would see the end of another one


async def find(url: str, names: list[str], lease: float) -> list[float]:
    """Return for each lock in how many leases its dead holder was found."""
    async with contextlib.AsyncExitStack() as stack:
        several = [await stack.enter_async_context(coterie.connect(url)) for _ in range(OBSERVERS)]
        return await asyncio.gather(*(kill(several[0], url, name, lease) for name in names))


async def kill(observer: coterie.Coordinator, url: str, name: str, lease: float) -> float:
    """Kill a holder; return in how many leases its entry was gone."""
    pipe = asyncio.subprocess.PIPE
    holder = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLD, url, name, stdin=pipe, stdout=pipe
    )
    assert holder.stdout is not None
    await holder.stdout.readline()
    await asyncio.sleep(random.random() * lease)
    holder.kill()
    await holder.wait()
    killed = time.monotonic()
    engine = engine_of(observer)
    assert isinstance(engine, QueueEngine)
    session = engine.group.supply.session
    assert session is not None
    while (await session.lines([name])).get(name):  # noqa: ASYNC110 - of other programs there are no events
        await asyncio.sleep(LOOK_SECONDS)
    return (time.monotonic() - killed) / lease


def main(name: str, rounds: int) -> None:
    """Measure one engine."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        supplier = stack.enter_context(SUPPLIERS[name](folder / "server"))
        url = supplier.url() + ("&witness=off" if name in SEEN else "")
        locks = [f"lock-{number}" for number in range(rounds)]
        leases = asyncio.run(find(url, locks, supplier.lease))
    print(f"{name}: found after {median(leases):.2f} leases, at the latest {max(leases):.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("--rounds", type=int, default=20)
    given = parser.parse_args()
    main(given.engine, given.rounds)
