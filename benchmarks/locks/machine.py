"""Processes on this machine: starting servers, waiting for them, and counting their CPU time."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pwd
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

HOST = "127.0.0.1"
STARTING_SECONDS_MAX = 60.0
STOPPING_SECONDS_MAX = 8.0
DIE_WITH_PARENT = 1  # prctl's PR_SET_PDEATHSIG
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def free_ports(count: int) -> list[int]:
    """Find ports that nobody uses; all are taken at once, so that none comes twice."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((HOST, 0))
        return [int(each.getsockname()[1]) for each in sockets]


def die_with_parent() -> None:
    ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)


class Server:
    """A process that this run has started, and that nobody else signals."""

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        *,
        user: str | None = None,
        stop_signal: signal.Signals = signal.SIGTERM,
    ) -> None:
        self._stop_signal = stop_signal
        options: dict[str, Any] = {}
        if user:
            group = pwd.getpwnam(user).pw_gid
            options = {"user": user, "group": group, "extra_groups": []}
        with (folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - this process has one thread
                **options,
            )

    def kill(self) -> None:
        self.process.kill()

    def stop(self) -> None:
        if self.process.poll() is not None:
            return
        self.process.send_signal(self._stop_signal)
        try:
            self.process.wait(STOPPING_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Ask again and again; an error of the connection means that it is not so yet."""
    deadline = time.monotonic() + STARTING_SECONDS_MAX
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, ValueError, subprocess.SubprocessError):
            if condition():
                return
        time.sleep(0.1)
    raise TimeoutError(f"waited {STARTING_SECONDS_MAX:g} s in vain for {what}")


def is_listening(port: int) -> bool:
    """Tell whether somebody accepts connections there."""
    with socket.create_connection((HOST, port), timeout=1.0):
        return True


def ask(port: int, question: bytes) -> bytes:
    """Send a question to a port and give what comes back first."""
    with socket.create_connection((HOST, port), timeout=1.0) as connection:
        connection.sendall(question)
        return connection.recv(65536)


# CPU time


def cpu_seconds(roots: Iterable[int]) -> float:
    """Sum the CPU time of these processes and of all their descendants that run now."""
    children: dict[int, list[int]] = {}
    spent: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            pid, parent, ticks = _parse(path.read_text())
            children.setdefault(parent, []).append(pid)
            spent[pid] = ticks
    total, stack = 0, list(roots)
    while stack:
        pid = stack.pop()
        total += spent.get(pid, 0)
        stack += children.get(pid, [])
    return total / TICKS_PER_SECOND


def _parse(stat: str) -> tuple[int, int, int]:
    """Give the number of a process, its parent's, and its ticks; the name may contain anything."""
    number, _, rest = stat.partition(" ")
    fields = rest.rpartition(")")[2].split()
    return int(number), int(fields[1]), int(fields[11]) + int(fields[12])


def busy_seconds() -> float:
    """Sum the CPU time that the whole machine has spent on anything."""
    user, nice, system, _, _, irq, soft, stolen, *_ = map(
        int, Path("/proc/stat").read_text().partition("\n")[0].split()[1:]
    )
    return (user + nice + system + irq + soft + stolen) / TICKS_PER_SECOND
