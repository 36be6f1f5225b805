"""Clusters for tests: nodes in this event loop, or in processes of their own."""

from __future__ import annotations

import asyncio
import contextlib
import io
import resource
import select
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.cli import run
from coterie.cluster.admin.status import ClusterState, inspect
from coterie.cluster.change.survey import KnownConfiguration, look
from coterie.cluster.membership.config import convert
from coterie.cluster.membership.ports import free_ports
from coterie.cluster.node import Node
from coterie.cluster.url import make_visit
from coterie.errors import Unavailable
from coterie.testing.nodes import (
    NodeProcess,
    local_document,
    running,
    write_document,
)
from coterie.testing.nodes import url_of as plain_url_of
from tests.cluster.certificates import GUARD, variables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from coterie.cluster.membership.config import Config

__all__ = [
    "COTERIE",
    "LEASE",
    "NAMES",
    "PATIENCE_SECONDS",
    "POLL_SECONDS",
    "Processes",
    "Program",
    "document",
    "processes",
    "running",
    "started_again",
    "until",
    "url_of",
]

NAMES = "abcdefg"
LEASE = 1.0
COTERIE = [sys.executable, "-c", "from coterie.cli import main; main()"]
PATIENCE_SECONDS = 20.0  # far more than anything here takes
POLL_SECONDS = 0.05  # between two looks at processes


def document(size: int = 3, **changes: Any) -> dict[str, Any]:
    made = local_document(NAMES[:size], cluster="test", lease=LEASE)
    return {**made, **GUARD, **changes}


def url_of(config: Config, *parameters: str) -> str:
    """Return the URL of a cluster, with these parameters and the certificates that programs need."""
    url = plain_url_of(config)
    security = config.security
    if security.ca and not GUARD:  # then the environment says it
        parts = ("ca", "certificate", "key")
        parameters += tuple(f"{part}={getattr(security, part)}" for part in parts)
    return f"{url}?{'&'.join(parameters)}" if parameters else url


async def started_again(nodes: list[Node], place: int) -> None:
    """Put another start of the same node in its place."""
    nodes[place] = Node(nodes[place].config, nodes[place].name, new_cluster=True)
    await nodes[place].start()


async def until(condition: Callable[[], object], what: str) -> None:
    """Wait for a condition, turn by turn."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        await asyncio.sleep(0.005)


class Processes:
    """A cluster whose nodes are processes, and the programs that use it."""

    def __init__(
        self,
        folder: Path,
        size: int = 3,
        lease: float = LEASE,
        changes: Mapping[str, Any] | None = None,
    ) -> None:
        self.folder = folder
        self.document = document(size, data="data", lease=lease, **(changes or {}))
        self.config = convert(self.document, folder)
        self.url = url_of(self.config)
        self.spares: dict[str, str] = {}  # nodes that join, and their addresses
        self._nodes: dict[str, NodeProcess] = {}
        self._programs: list[Program] = []
        self._changes: list[subprocess.Popen[str]] = []
        self._file = write_document(self.document, folder)

    def start(self, *names: str, new: bool = False) -> None:
        for name in names:
            if name in self.spares:
                arguments = ["--join", self.url, "--listen", self.spares[name]]
                arguments += ["--data", str(self.folder / "data")]
            else:
                arguments = ["--config", str(self._file), *(["--new-cluster"] if new else [])]
            log, environment = self.folder / f"{name}.log", variables(GUARD)
            self._nodes[name] = NodeProcess(name, log, *arguments, environment=environment)

    def join(self, *names: str) -> list[str]:
        """Start nodes that may become voters; return their names and addresses as commands want them.

        The cluster has to be formed.
        """
        self.wait_for_number(1)
        for name, port in zip(names, free_ports(len(names)), strict=True):
            self.spares[name] = f"127.0.0.1:{port}"
            self.url += f",{self.spares[name]}"
        self.start(*names)
        for name in names:
            self.wait_for_node(name)
        return [f"{name}={self.spares[name]}" for name in names]

    def wait_for_node(self, name: str) -> None:
        """Wait until a node that has joined answers."""
        host, _, port = self.spares[name].partition(":")
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            with contextlib.suppress(OSError), socket.create_connection((host, int(port))):
                return
            assert time.monotonic() < deadline, f"waited in vain for {name}"
            time.sleep(POLL_SECONDS)

    def wait_for_number(self, number: int) -> None:
        """Wait until a voter knows configuration `number` or a later one, and no other is open."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            with contextlib.suppress(Unavailable):
                newest = self.standing().configuration
                if newest.number >= number and not newest.open:
                    return
            assert time.monotonic() < deadline, f"waited in vain for configuration {number}"
            time.sleep(POLL_SECONDS)

    def standing(self) -> KnownConfiguration:
        """Look where the configuration stands."""
        return asyncio.run(look(make_visit(self.url)))

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        """Start `coterie cluster` on this cluster."""
        command = [*COTERIE, "cluster", *arguments, "--url", self.url]
        pipe = subprocess.PIPE
        change = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)
        self._changes.append(change)
        return change

    def command(self, *arguments: str) -> tuple[int, str, str]:
        """Run `coterie cluster` on this cluster, in this process; return its status and its words."""
        out, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            status = run(["cluster", *arguments, "--url", self.url])
        return status, out.getvalue(), errors.getvalue()

    def change(self, *arguments: str) -> str:
        """Run `coterie cluster` to a good end; return what it prints."""
        status, out, errors = self.command(*arguments)
        assert status == 0, errors
        return out

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `coterie serve` on this cluster's file to its end."""
        command = [*COTERIE, "serve", "--config", str(self._file), *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS
        )

    def kill(self, name: str) -> None:
        self._nodes.pop(name).kill()

    def signal(self, name: str, number: int) -> None:
        self._nodes[name].send(number)

    def fill_disk(self, name: str) -> None:
        """Let a node write no file any more, its log included."""
        resource.prlimit(self._nodes[name].pid, resource.RLIMIT_FSIZE, (0, 0))

    def ended(self, name: str) -> int:
        """Wait for the end of a node; return its exit status."""
        return self._nodes.pop(name).wait(PATIENCE_SECONDS)

    def log(self, name: str) -> str:
        """Return what a node has logged."""
        return (self.folder / f"{name}.log").read_text()

    def stop(self, name: str) -> None:
        assert self._nodes.pop(name).terminate(PATIENCE_SECONDS) == 0

    def state(self) -> ClusterState:
        return asyncio.run(inspect(make_visit(self.url), locks=True))

    def wait(self, condition: Callable[[ClusterState], object], what: str) -> ClusterState:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            with contextlib.suppress(Unavailable):
                state = self.state()
                if condition(state):
                    return state
            assert time.monotonic() < deadline, f"waited in vain for {what}"
            time.sleep(POLL_SECONDS)

    def program(self, *arguments: str, url: str = "") -> Program:
        """Start `lock_program.py` with these arguments."""
        program = Program(url or self.url, arguments)
        self._programs.append(program)
        return program

    def end(self) -> None:
        for program in self._programs:
            program.process.kill()
            program.process.communicate()
        for change in self._changes:
            change.kill()
            change.communicate()
        for node in self._nodes.values():
            node.kill()


class Program:
    """A program that says on its output what happens to its locks."""

    def __init__(self, url: str, arguments: tuple[str, ...], prefix: tuple[str, ...] = ()) -> None:
        script = Path(__file__).with_name("lock_program.py")
        self.process = subprocess.Popen(
            [*prefix, sys.executable, str(script), url, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def read(self) -> list[str]:
        """Wait for the next line, and split it."""
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE_SECONDS)
        assert ready, "the program says nothing"
        line = self.process.stdout.readline()
        assert line, "the program ended without a word"
        return line.split()

    def write(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def rest(self) -> list[list[str]]:
        """Let the input end, and read all that is left."""
        out, _ = self.process.communicate(timeout=PATIENCE_SECONDS)
        assert self.process.returncode == 0
        return [line.split() for line in out.splitlines()]


@contextlib.contextmanager
def processes(folder: Path, size: int = 3, lease: float = LEASE) -> Iterator[Processes]:
    """Run a cluster of processes that votes."""
    cluster = Processes(folder, size, lease)
    try:
        cluster.start(*cluster.document["nodes"], new=True)
        cluster.wait(lambda state: state.health == 0, "all nodes to vote")
        yield cluster
    finally:
        cluster.end()
