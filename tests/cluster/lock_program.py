"""A program for tests: it does with a lock what it is told, and says what happened.

hold NAME         hold until a line comes; say `held TOKEN`, then `released` or `lost`
turns NAME FILE   again and again, until a line comes: append the token to FILE under the lock
"""

from __future__ import annotations

import asyncio
import os
import sys
import time

import coterie


async def line() -> None:
    await asyncio.to_thread(sys.stdin.readline)


async def hold(coordinator: coterie.Coordinator, name: str) -> None:
    try:
        async with coordinator.lock(name) as held:
            print("held", held.token, flush=True)
            await line()
            print("valid" if held.valid else "invalid", flush=True)
    except coterie.LockLost:
        print("lost", flush=True)
        return
    print("released", flush=True)


async def turns(coordinator: coterie.Coordinator, name: str, path: str) -> None:
    told = asyncio.ensure_future(line())
    entries, longest, before = 0, 0.0, time.monotonic()
    with open(path, "ab", buffering=0) as file:  # noqa: ASYNC230, PTH123 - a line at a time
        while not told.done():
            async with coordinator.lock(name) as held:
                os.write(file.fileno(), f"{held.token}\n".encode())
                now = time.monotonic()
                longest, before = max(longest, now - before), now
                entries += 1
                if entries == 1:
                    print("going", flush=True)
            await asyncio.sleep(0)
    print("entries", entries, f"{longest:.3f}", flush=True)


async def main(url: str, verb: str, *arguments: str) -> None:
    async with coterie.connect(url) as coordinator:
        await {"hold": hold, "turns": turns}[verb](coordinator, *arguments)


asyncio.run(main(*sys.argv[1:]))
