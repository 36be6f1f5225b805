"""Clusters for tests: nodes in this event loop, or in processes of their own."""

from __future__ import annotations

import asyncio
import contextlib
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.cluster.admin.status import ClusterState, inspect
from coterie.cluster.config import Config, convert
from coterie.cluster.ports import free_ports
from coterie.cluster.url import make_visit
from coterie.cluster.voter.node import Node
from coterie.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

NAMES = "abcdefg"
LEASE = 1.0
COTERIE = [sys.executable, "-c", "from coterie.cli import main; main()"]
PATIENCE_SECONDS = 20.0  # far more than anything here takes


def document(size: int = 3, **changes: Any) -> dict[str, Any]:
    nodes = {
        name: {"address": f"127.0.0.1:{port}"}
        for name, port in zip(NAMES, free_ports(size), strict=False)
    }
    return {"cluster": "test", "lease": LEASE, "nodes": nodes, **changes}


def url_of(config: Config) -> str:
    return "coterie://" + ",".join(str(member.address) for member in config.membership.members)


@contextlib.asynccontextmanager
async def running(config: Config) -> AsyncIterator[list[Node]]:
    """Run all nodes of a configuration here, voting at once."""
    nodes = [Node(config, member.name, new_cluster=True) for member in config.membership.members]
    try:
        for node in nodes:
            await node.start()
        yield nodes
    finally:
        for node in nodes:
            await node.stop()


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

    def __init__(self, folder: Path, size: int = 3) -> None:
        self.folder = folder
        self.document = document(size, data="data")
        self.config = convert(self.document, folder)
        self.url = url_of(self.config)
        self._nodes: dict[str, subprocess.Popen[bytes]] = {}
        self._programs: list[Program] = []
        lines = ['cluster = "test"', f"lease = {LEASE}", 'data = "data"']
        for name, node in self.document["nodes"].items():
            lines += [f"[nodes.{name}]", f'address = "{node["address"]}"']
        (folder / "coterie.toml").write_text("\n".join(lines))

    def start(self, *names: str, new: bool = False) -> None:
        for name in names:
            command = [*COTERIE, "serve", "--node", name, "--config"]
            command += [str(self.folder / "coterie.toml"), *(["--new-cluster"] if new else [])]
            with (self.folder / f"{name}.log").open("ab") as log:
                self._nodes[name] = subprocess.Popen(command, stdout=log, stderr=log)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `coterie serve` on this cluster's file to its end."""
        command = [*COTERIE, "serve", "--config", str(self.folder / "coterie.toml"), *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS
        )

    def kill(self, name: str) -> None:
        process = self._nodes.pop(name)
        process.kill()
        process.wait()

    def signal(self, name: str, number: int) -> None:
        self._nodes[name].send_signal(number)

    def stop(self, name: str) -> None:
        process = self._nodes.pop(name)
        process.terminate()
        assert process.wait(PATIENCE_SECONDS) == 0

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

    def program(self, *arguments: str) -> Program:
        """Start `lock_program.py` with these arguments."""
        program = Program(self.url, arguments)
        self._programs.append(program)
        return program

    def end(self) -> None:
        for program in self._programs:
            program.process.kill()
            program.process.communicate()
        for process in self._nodes.values():
            process.kill()
            process.wait()


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
def processes(folder: Path, size: int = 3) -> Iterator[Processes]:
    """Run a cluster of processes that votes."""
    cluster = Processes(folder, size)
    try:
        cluster.start(*cluster.document["nodes"], new=True)
        cluster.wait(lambda state: state.health == 0, "all nodes to vote")
        yield cluster
    finally:
        cluster.end()
