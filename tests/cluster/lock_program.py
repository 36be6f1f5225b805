"""A program for tests: it does with a lock what it is told, and says what happened.

hold NAME         hold until a line comes; say `held TOKEN`, then `valid`, `released` or `lost`
turns NAME FILE   again and again, until a line comes: append the token to FILE under the lock
"""

from __future__ import annotations

import asyncio
import os
import sys
import time

import coterie


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


async def line() -> None:
    await asyncio.to_thread(sys.stdin.readline)


async def hold(coordinator: coterie.Coordinator, name: str) -> None:
    try:
        async with coordinator.lock(name) as held:
            say("held", held.token)
            await line()
            say("valid" if held.valid else "invalid")
    except coterie.LockLost:
        say("lost")
        return
    say("released")


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
                    say("going")
            await asyncio.sleep(0)
    say("entries", entries, f"{longest:.3f}")


async def main(url: str, verb: str, *arguments: str) -> None:
    async with coterie.connect(url) as coordinator:
        if verb == "hold":
            await hold(coordinator, *arguments)
        else:
            await turns(coordinator, *arguments)


asyncio.run(main(*sys.argv[1:]))
