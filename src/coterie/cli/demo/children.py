"""The processes of the demonstration: exactly those that it starts are ended with it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from asyncio import StreamWriter
    from asyncio.subprocess import Process
    from pathlib import Path

# Reads process ids until its input ends, which it does with us; then lets all of them go on.
WAKE_AT_THE_END = 'all=; while read -r pid; do all="$all $pid"; done; kill -CONT $all'


class Children:
    """Starts Python modules as processes; at the end of the `async with` none is left."""

    def __init__(self, folder: Path) -> None:
        """Keep what they say on stderr in that folder."""
        self._folder = folder
        self._processes: list[Process] = []
        self._waker: StreamWriter | None = None
        # What the caller's environment says about a cluster of theirs is not about this one.
        self._environment = {
            name: value for name, value in os.environ.items() if not name.startswith("COTERIE_")
        }

    async def start(
        self, name: str, module: str, *arguments: str, stdout: int = DEVNULL
    ) -> Process:
        """Run a module; Ctrl-C reaches us and not it.

        Its input ends when we do, however that happens: whoever is told to watch it ends then, too.
        Who is stopped at that moment is woken up, to see it.
        """
        with self._log(name).open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",  # nothing in the caller's directory passes for one of our modules
                "-m",
                module,
                *arguments,
                stdin=PIPE,
                stdout=stdout,
                stderr=log,
                env=self._environment,
                process_group=0,
            )
        self._processes.append(process)
        assert self._waker is not None
        self._waker.write(b"%d\n" % process.pid)
        return process

    def last_words(self, name: str) -> str:
        """Give the last line that a process has written to stderr."""
        lines = self._log(name).read_text(encoding="utf-8", errors="replace").split("\n")
        return next((line for line in reversed(lines) if line), "without a word")

    async def __aenter__(self) -> Self:
        """Begin with nobody but the one that wakes up whoever we leave stopped."""
        waker = await asyncio.create_subprocess_exec(
            "sh", "-c", WAKE_AT_THE_END, stdin=PIPE, stderr=DEVNULL, process_group=0
        )
        self._processes.append(waker)
        self._waker = waker.stdin
        return self

    async def __aexit__(self, *_: object) -> None:
        """Kill all; also those that are stopped obey."""
        for process in self._processes:
            send(process, signal.SIGKILL)
        for process in self._processes:
            await process.wait()

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"


def send(process: Process, number: signal.Signals) -> None:
    """Send a signal, unless the process has ended: the verdict finds out who did."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(number)
