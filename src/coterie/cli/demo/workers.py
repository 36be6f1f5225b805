"""The worker processes, seen from outside: what each one prints about itself."""

from __future__ import annotations

import asyncio
import signal
from asyncio.subprocess import PIPE
from typing import TYPE_CHECKING

from coterie.cli.demo import worker as program
from coterie.cli.demo.children import send

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from pathlib import Path

    from coterie.cli.demo.children import Children


class Worker:
    """A process that runs the worker's program."""

    def __init__(self, name: str, process: Process) -> None:
        """Read what it prints until it ends."""
        self.name = name
        self.process = process
        self.condition = "starts"
        self.token = 0  # of its last hold
        self.written: list[int] = []  # tokens of the entries that it reports
        self.refused: list[int] = []
        self._listening = asyncio.ensure_future(self._listen())

    def stop_inside(self) -> None:
        """Make it stop in the middle of its next entry."""
        send(self.process, signal.SIGUSR1)

    def go_on(self) -> None:
        """Resume it; to the worker no time has passed."""
        send(self.process, signal.SIGCONT)

    def finish(self) -> None:
        """Make it end after its current entry."""
        send(self.process, signal.SIGTERM)

    @property
    def ended(self) -> bool:
        """Whether it has ended and all of its output was read."""
        return self.process.returncode is not None and self._listening.done()

    async def _listen(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            word, *numbers = line.decode().split()
            self._hear(word, *map(int, numbers))
        self.condition = "ended"

    def _hear(self, word: str, token: int = 0) -> None:
        if word == "holds":
            self.token = token
        elif word == "wrote":
            self.written.append(token)
        elif word == "refused":
            self.refused.append(token)
        self.condition = "stopped" if word == "stops" else word


async def start_workers(children: Children, folder: Path, count: int, url: str) -> list[Worker]:
    """Start workers that compete for one lock of the cluster."""
    workers = []
    for number in range(1, count + 1):
        name = f"w{number}"
        arguments = (name, url, str(folder))
        process = await children.start(name, program.__name__, *arguments, stdout=PIPE)
        workers.append(Worker(name, process))
    return workers
