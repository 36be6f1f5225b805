"""Real processes for tests: the command line, and looking at a lock directory from outside."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import coterie

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

COTERIE = (sys.executable, "-c", "from coterie.cli import main; main()")
BOUND_SECONDS = 30

# Holds one lock and wants another when it is told so; does not look for deadlocks.
CROSSING = """
import sys, coterie
from coterie.engines.file import engine
engine.LOOK_FOR_DEADLOCKS_SECONDS = 3600.0
with coterie.sync.connect() as c, c.lock(sys.argv[1]):
    print("holds", flush=True)
    sys.stdin.readline()
    c.lock(sys.argv[2]).acquire()
"""


class Directory:
    """A lock directory and the commands that use it; all are killed at the end of the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, "COTERIE_URL": f"file:{folder}"}
        self._started: list[subprocess.Popen[str]] = []

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        return self.python(*COTERIE[1:], *arguments, **options)

    def python(self, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            env=self.environment | options.pop("environment", {}),
            text=True,
            **{
                "stdin": subprocess.PIPE,
                "stdout": subprocess.PIPE,
                "stderr": subprocess.PIPE,
                **options,
            },
        )
        self._started.append(process)
        return process

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*arguments)
        stdout, stderr = process.communicate(timeout=BOUND_SECONDS)
        return subprocess.CompletedProcess(arguments, process.returncode, stdout, stderr)

    def holders(self, name: str) -> list[coterie.Party]:
        return self._look("holders", name)

    def waiters(self, name: str) -> list[coterie.Party]:
        return self._look("waiters", name)

    def _look(self, what: str, name: str) -> list[coterie.Party]:
        async def look() -> list[coterie.Party]:
            async with coterie.connect(f"file:{self.folder}") as c:
                parties: list[coterie.Party] = await getattr(c, what)(name)
                return parties

        return asyncio.run(look())

    def end(self) -> None:
        for process in self._started:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    with contextlib.suppress(BrokenPipeError):
                        stream.close()


@contextlib.contextmanager
def directory(folder: Path) -> Iterator[Directory]:
    opened = Directory(folder)
    try:
        yield opened
    finally:
        opened.end()


def until(condition: Callable[[], object]) -> None:
    """Wait until something is the case in other processes, which send no events."""
    limit = time.monotonic() + BOUND_SECONDS
    while not condition():
        assert time.monotonic() < limit, "it has not happened in time"
        time.sleep(0.002)


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().rstrip("\n")


def kill(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait(BOUND_SECONDS)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # An orphan that has ended waits for whoever adopted it.
    return not subprocess.run(
        ["ps", "-o", "stat=", str(pid)], capture_output=True, text=True, check=False
    ).stdout.startswith("Z")


def children(process: subprocess.Popen[str]) -> list[int]:
    """List the processes that a process has started and that it has not waited for."""
    listed = subprocess.run(["ps", "-e", "-o", "pid=,ppid="], stdout=subprocess.PIPE, check=True)
    pairs = [text.split() for text in listed.stdout.decode().splitlines()]
    return [int(pid) for pid, parent in pairs if int(parent) == process.pid]


def interrupted(words: Sequence[str], sign: str) -> str:
    """Run a command on a terminal, press Ctrl-C when it tells this of its progress; give its output."""
    ours, theirs = os.openpty()
    process = subprocess.Popen([*COTERIE, *words], stdout=subprocess.PIPE, stderr=theirs, text=True)
    os.close(theirs)
    try:
        told = b""
        while sign.encode() not in told:
            told += os.read(ours, 1000)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=BOUND_SECONDS)
    finally:
        kill(process)
        os.close(ours)
    assert process.returncode == 130
    return out
