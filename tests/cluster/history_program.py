"""A program for tests: takes a re-entrant lock until its input ends, and writes down what it saw.

acquire TIME            it calls        acquired TIME TOKEN     and has entered, maybe again
release TIME            it calls        released TIME           and has left, maybe to re-enter
valid BEFORE AFTER      `valid` said yes at some moment between these two
lost TIME               it knows by now that the whole hold is over
failed TIME             no quorum was there, and it has not entered

Each line is in the file before the next call is made, so a killed program leaves no call untold.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import sys

import coterie
from coterie import system

DEPTH_MAX = 3
WORK_SECONDS_MAX = 0.01


class Record:
    """The file."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, word: str, *values: float) -> None:
        os.write(self._file, f"{word} {' '.join(map(repr, values))}\n".encode())

    def look(self, held: coterie.Held) -> None:
        """See whether it is still ours, or raise `LockLost`."""
        before = system.now()
        held.ensure()
        self.write("valid", before, system.now())


async def enter(lock: coterie.Lock, record: Record) -> coterie.Held:
    record.write("acquire", system.now())
    held = await lock.acquire()
    assert held is not None, "it waits for ever"
    record.write("acquired", system.now(), held.token)
    return held


async def hold(lock: coterie.Lock, record: Record, depth: int, *, again: bool = False) -> None:
    """Enter so many times, leave as often, and look again and again."""
    held = await enter(lock, record)
    record.look(held)
    await asyncio.sleep(random.uniform(0, WORK_SECONDS_MAX))
    if depth > 1:
        await hold(lock, record, depth - 1, again=True)
    record.look(held)
    record.write("release", system.now())
    await held.release()
    if again:
        record.look(held)  # whoever leaves an inner hold believes that it has the outer one
    record.write("released", system.now())


async def unwind(lock: coterie.Lock) -> None:
    """Leave a hold that is lost, however deep."""
    for _ in range(DEPTH_MAX):
        with contextlib.suppress(coterie.LockLost, coterie.NotHeld):
            await lock.release()


async def main(url: str, name: str, path: str) -> None:
    record = Record(path)
    async with coterie.connect(url) as coordinator:
        told = asyncio.ensure_future(asyncio.to_thread(sys.stdin.read))
        lock = coordinator.lock(name, reentrant=True)
        while not told.done():
            try:
                await hold(lock, record, random.randint(1, DEPTH_MAX))
            except coterie.LockLost:
                record.write("lost", system.now())
                await unwind(lock)
            except coterie.NoQuorum:
                record.write("failed", system.now())
            await asyncio.sleep(0)


asyncio.run(main(*sys.argv[1:]))
