"""A program that uses locks as it is told, line by line, and answers in lines of JSON.

take NAME               hold NAME: {"held": NAME, "token": .., "at": ..}; later perhaps {"lost": NAME, "at": ..}
drop NAME               release it: {"released": NAME} or {"lost": NAME}
valid NAME              {"valid": true or false}, first thing
turns NAME TASKS COUNT  let tasks take NAME so often each: {"turns": [[entered, left, token], ..]}
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import TYPE_CHECKING, Any

import coterie

if TYPE_CHECKING:
    from coterie import Held


def say(**words: Any) -> None:
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


class User:
    """What the program holds."""

    def __init__(self, coordinator: coterie.Coordinator) -> None:
        self._coordinator = coordinator
        self._held: dict[str, Held] = {}

    async def take(self, name: str) -> None:
        try:
            held = await self._coordinator.lock(name).acquire()
        except coterie.CoterieError as error:
            say(failed=name, error=type(error).__name__)
            return
        assert held is not None
        self._held[name] = held
        say(held=name, token=held.token, at=time.monotonic())

    async def drop(self, name: str) -> None:
        try:
            await self._held.pop(name).release()
        except coterie.LockLost:
            say(lost=name)
        else:
            say(released=name)

    async def valid(self, name: str) -> None:
        say(valid=self._held[name].valid)

    async def turns(self, name: str, tasks: str, count: str) -> None:
        found: list[tuple[float, float, int]] = []

        async def use() -> None:
            for _ in range(int(count)):
                async with self._coordinator.lock(name) as held:
                    entered = time.monotonic()
                    await asyncio.sleep(0.001)
                    assert held.valid
                    found.append((entered, time.monotonic(), held.token))

        await asyncio.gather(*(use() for _ in range(int(tasks))))
        say(turns=found)


async def main(url: str) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    async with coterie.connect(url) as coordinator:
        user = User(coordinator)
        say(ready=True)
        async for line in reader:
            verb, *arguments = line.decode().split()
            await getattr(user, verb)(*arguments)


asyncio.run(main(*sys.argv[1:]))
