"""How fair an engine is among processes: python -m benchmarks.engine_fairness ENGINE [--seconds S] [--processes N].

Each process takes one lock again and again for the same time. The fairness is the turns of the process
that had the fewest over those of the one that had the most. All begin when all are connected.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import tempfile
import time
from pathlib import Path

import coterie
from tests.engines.conformance.suppliers import SUPPLIERS

LOCK = "x"


async def use(url: str, seconds: float) -> None:
    """Say that we are connected, wait for a line, take turns, and say how many these were."""
    turns = 0
    async with coterie.connect(url) as coordinator:
        async with coordinator.lock("own"):
            pass
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            async with coordinator.lock(LOCK):
                turns += 1
    print(turns, flush=True)


async def compete(url: str, seconds: float, processes: int) -> list[int]:
    """Return the turns of each process."""
    command = [sys.executable, "-m", "benchmarks.engine_fairness", "--use", url, str(seconds)]
    pipe = asyncio.subprocess.PIPE
    started = [
        await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
        for _ in range(processes)
    ]
    for each in started:
        assert each.stdout is not None
        await each.stdout.readline()
    outputs = await asyncio.gather(*(process.communicate(b"\n") for process in started))
    return [int(output) for output, _ in outputs]


def main(name: str, seconds: float, processes: int) -> None:
    """Measure one engine."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        supplier = stack.enter_context(SUPPLIERS[name](folder / "server"))
        turns = asyncio.run(compete(supplier.url(), seconds, processes))
    each = " ".join(map(str, turns))
    fairness = min(turns) / max(1, *turns)
    print(f"{name}: fairness {fairness:.2f}, {sum(turns) / seconds:.0f} turns a second: {each}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--use"]:
        asyncio.run(use(sys.argv[2], float(sys.argv[3])))
    else:
        parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
        parser.add_argument("engine", choices=list(SUPPLIERS))
        parser.add_argument("--seconds", type=float, default=5.0)
        parser.add_argument("--processes", type=int, default=8)
        given = parser.parse_args()
        main(given.engine, given.seconds, given.processes)
