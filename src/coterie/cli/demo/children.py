"""The child processes of the demonstration: those that it starts end with it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import AsyncIterator
    from pathlib import Path

# Reads process ids until its input ends, which happens when we end; then resumes all of them, so that
# a stopped process sees that its own input has ended, too.
RESUME_AT_THE_END = 'all=; while read -r pid; do all="$all $pid"; done; kill -CONT $all'


class Children:
    """Starts Python modules as processes; `child_processes` makes one and ends them all."""

    def __init__(self, folder: Path, resumer: Process) -> None:
        """Keep their stderr in that folder, and name each to the process that resumes them."""
        self._folder = folder
        self._resumer = resumer
        self._processes = [resumer]
        # What the caller's environment says about a cluster of theirs is not about this one.
        self._environment = {
            name: value for name, value in os.environ.items() if not name.startswith("COTERIE_")
        }

    async def start(
        self, name: str, module: str, *arguments: str, stdout: int = DEVNULL
    ) -> Process:
        """Run a module; Ctrl-C reaches us and not it.

        Its input ends when we do, however that happens: a module that watches its input ends then,
        too. One that is stopped at that moment is resumed, to see it.
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
        assert self._resumer.stdin is not None
        self._resumer.stdin.write(b"%d\n" % process.pid)
        return process

    def last_words(self, name: str) -> str:
        """Return the last line that a process has written to stderr."""
        lines = self._log(name).read_text(encoding="utf-8", errors="replace").split("\n")
        return next((line for line in reversed(lines) if line), "no message")

    async def kill_all(self) -> None:
        """Kill every process, also those that are stopped, and wait until they have ended."""
        for process in self._processes:
            send(process, signal.SIGKILL)
        for process in self._processes:
            await process.wait()

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"


@contextlib.asynccontextmanager
async def child_processes(folder: Path) -> AsyncIterator[Children]:
    """Let the body start processes; none of them is left at its end."""
    resumer = await asyncio.create_subprocess_exec(
        "sh", "-c", RESUME_AT_THE_END, stdin=PIPE, stderr=DEVNULL, process_group=0
    )
    children = Children(folder, resumer)
    try:
        yield children
    finally:
        await children.kill_all()


def send(process: Process, number: signal.Signals) -> None:
    """Send a signal, unless the process has ended: the verdict finds out which ones did."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(number)
