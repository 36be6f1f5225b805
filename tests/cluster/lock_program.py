"""A program for tests: it does with a lock what it is told, and says what happened.

hold NAME         hold until a line comes; say `held TOKEN`, then `valid`, `released`, `lost`
                  or `no-quorum`
cross NAME OTHER  hold NAME; when a line comes take OTHER, too; say `held`, then `had` or `deadlock`
turns NAME FILE [SECONDS]
                  again and again, until a line comes: append the token to FILE under the lock, and
                  pause so long
persist NAME FILE the same, and try again whenever the lock is lost or no quorum is there
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys

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
    except coterie.NoQuorum:
        say("no-quorum")
        return
    say("released")


async def cross(coordinator: coterie.Coordinator, name: str, other: str) -> None:
    async with coordinator.lock(name) as held:
        say("held", held.token)
        await line()
        say("wants", other)
        try:
            async with coordinator.lock(other):
                say("had", other)
        except coterie.DeadlockDetected as error:
            say("deadlock", error)


async def turns(
    coordinator: coterie.Coordinator,
    name: str,
    path: str,
    pause: str = "0",
    *,
    borne: tuple[type[Exception], ...] = (),
) -> None:
    told = asyncio.ensure_future(line())
    entries = 0
    with open(path, "ab", buffering=0) as file:  # noqa: ASYNC230, PTH123 - a line at a time
        while not told.done():
            with contextlib.suppress(*borne):
                async with coordinator.lock(name) as held:
                    os.write(file.fileno(), f"{held.token}\n".encode())
                    entries += 1
                    if entries == 1:
                        say("going")
            await asyncio.sleep(float(pause))
    say("entries", entries)


async def main(url: str, verb: str, *arguments: str) -> None:
    async with coterie.connect(url) as coordinator:
        if verb == "hold":
            await hold(coordinator, *arguments)
        elif verb == "cross":
            await cross(coordinator, *arguments)
        elif verb == "turns":
            await turns(coordinator, *arguments)
        else:
            await turns(coordinator, *arguments, borne=(coterie.LockLost, coterie.NoQuorum))


asyncio.run(main(*sys.argv[1:]))
