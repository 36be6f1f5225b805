"""A program for tests: it joins a cluster as a node, and counts in a file under a lock."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import coterie


class Counter:
    """A number in a file that is replaced as a whole, and a journal of the entries."""

    def __init__(self, number: str, journal: str, node: str) -> None:
        self._number = Path(number)
        self._next = Path(f"{number}.{node}")
        self._journal = Path(journal)
        self._node = node

    def read(self) -> int:
        return int(self._number.read_text())

    def write(self, count: int) -> None:
        self._next.write_text(str(count))
        self._next.replace(self._number)
        with self._journal.open("a") as lines:
            lines.write(f"{self._node}\n")


async def main(config: str, node: str, counter: Counter) -> None:
    async with coterie.join(config, node=node) as coordinator:
        while True:
            async with coordinator.lock("x"):
                count = counter.read()
                await asyncio.sleep(0.002)
                counter.write(count + 1)


_, config, node, number, journal = sys.argv
asyncio.run(main(config, node, Counter(number, journal, node)))
