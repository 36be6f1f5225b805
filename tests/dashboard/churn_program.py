"""A worker of the trial of the dashboard: it takes locks in turns, and notes when, in a file that outlives it."""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time

import coterie


async def work(url: str, file: str, seed: str) -> None:
    choices = random.Random(seed)
    notes = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(*words: object) -> None:
        os.write(notes, (" ".join(map(str, [os.getpid(), time.time(), *words])) + "\n").encode())

    async with coterie.connect(url) as c:
        while True:
            name = choices.choice(("x", "y", "z"))
            note("asks", name)
            try:
                async with c.lock(name) as held:
                    note("has", name, held.token)
                    await asyncio.sleep(choices.uniform(0.05, 0.6))
            except coterie.CoterieError:
                pass  # lost, or no quorum: it asks again
            note("ends", name)
            await asyncio.sleep(choices.uniform(0.0, 0.3))


if __name__ == "__main__":
    asyncio.run(work(*sys.argv[1:]))
