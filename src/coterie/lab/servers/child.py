"""A server that is a process of ours, and where its program is found."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

START_SECONDS_MAX = 90.0
# Wheels with servers are installed beside us, or in an environment of their own within ours.
ENVIRONMENTS = (Path(sys.prefix) / "engines", Path(sys.prefix))


class ServerMissing(Exception):  # noqa: N818 - says what is the matter
    """A server that comes as a wheel is not installed."""


class SystemServerMissing(ServerMissing):
    """A server that comes with the system is not installed."""


def find_in_wheels(pattern: str) -> Path | None:
    """Return the first file of a wheel that matches, None if there is none."""
    for environment in ENVIRONMENTS:
        for found in sorted(environment.glob(f"lib/python3*/site-packages/{pattern}")):
            return found
    return None


def find_program(name: str) -> str | None:
    """Return the path of a program that a wheel or the system has installed, None if neither has."""
    for environment in ENVIRONMENTS:
        program = environment / "bin" / name
        if program.exists():
            return str(program)
    return shutil.which(name)


class ServerProcess:
    """A server that is a process, with a folder and a log of its own."""

    def __init__(self, folder: Path, command: list[str]) -> None:
        """Prepare; the folder exists."""
        self.folder = folder
        self.command = command
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - a server that we have found
                self.command, cwd=self.folder, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )

    def signal(self, number: int) -> None:
        """Send a signal; it runs."""
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """Kill it, if it runs."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def stop(self) -> None:
        """Stop it in good order, if it runs."""
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            process.wait()

    @property
    def is_up(self) -> bool:
        """Whether it was started and not ended by us."""
        return self._process is not None

    def log(self) -> str:
        """Return what it has written."""
        return (self.folder / "log").read_text(encoding="utf-8", errors="replace")


def wait_for(condition: Callable[[], bool], log: Callable[[], str]) -> None:
    """Wait until a server answers; raise `RuntimeError` with its log if it does not."""
    end = time.monotonic() + START_SECONDS_MAX
    while not condition():
        if time.monotonic() > end:
            raise RuntimeError(log())
        time.sleep(0.02)


def lines_of(port: int, *commands: str) -> str:
    """Say something to a server that speaks in lines, and return its answer."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as line:
        line.sendall("".join(f"{command}\r\n" for command in commands).encode())
        return line.recv(65536).decode(errors="replace")
    return ""
