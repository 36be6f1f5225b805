"""Clusters for tests whose voters change: nodes of a file, and nodes that join them, in this event loop."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import subprocess
from typing import TYPE_CHECKING

from coterie.cli import run
from coterie.cluster.change.host import Change
from coterie.cluster.change.newcomer import identify
from coterie.cluster.change.plan import Newcomer
from coterie.cluster.change.spare import Location, spare_config
from coterie.cluster.change.survey import KnownConfiguration, look
from coterie.cluster.membership.config import convert
from coterie.cluster.membership.ports import free_ports
from coterie.cluster.node import Node
from coterie.cluster.url import make_visit
from coterie.cluster.wire.address import Address
from tests.cluster.local_cluster import COTERIE, document, until, url_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from coterie.algorithms.mutex.quorum.leased.changer import Goal
    from coterie.algorithms.mutex.quorum.leased.configuration import Configuration
    from tests.cluster.local_cluster import Processes

LEASE = 3.0  # commands are imported in the process of the nodes, which stand still meanwhile


class Fleet:
    """The nodes of a cluster by name, with the addresses at which they are found."""

    def __init__(
        self, folder: Path, size: int, lease: float = LEASE, secret: Path | None = None
    ) -> None:
        self.folder = folder
        made = document(size, data=str(folder), lease=lease)
        if secret is not None:
            made["operator-secret-file"] = str(secret)
        self.config = convert(made, folder)
        self.url = url_of(self.config)
        self.nodes: dict[str, Node] = {}
        self.addresses = {m.name: str(m.address) for m in self.config.membership.members}

    async def start(self, name: str) -> Node:
        """Start a node of the file."""
        node = self.nodes[name] = Node(self.config, name, new_cluster=True)
        await node.start()
        return node

    async def form(self) -> None:
        """Start all nodes of the file, and wait until configuration 1 is complete."""
        for name in self.addresses:
            await self.start(name)
        known = [node.voting.voter for node in self.nodes.values()]
        await until(lambda: all(voter.number == 1 for voter in known), "configuration 1")
        await until(
            lambda: all(voter.configuration and not voter.configuration.open for voter in known),
            "the end of number 0",
        )

    async def join(self, name: str, url: str | None = None) -> Node:
        """Start a node as `coterie serve --join` does."""
        if name not in self.addresses:
            self.addresses[name] = f"127.0.0.1:{free_ports(1)[0]}"
        host, _, port = self.addresses[name].rpartition(":")
        place = Location(name, Address(host, int(port)), self.folder / name)
        config = await spare_config(place, make_visit(url or self.url))
        node = self.nodes[name] = Node(config, name)
        await node.start()
        return node

    async def stop(self, name: str, *, wipe: bool = False) -> None:
        await self.nodes.pop(name).stop()
        if wipe:
            shutil.rmtree(self.folder / name)

    def at(self, name: str) -> str:
        """Return a new node as the command line names it."""
        return f"{name}={self.addresses[name]}"

    def url_at(self, name: str) -> str:
        return f"coterie://{self.addresses[name]}"

    async def command(self, *arguments: str, url: str | None = None) -> int:
        """Run `coterie cluster` beside the nodes."""
        return await asyncio.to_thread(run, ["cluster", *arguments, "--url", url or self.url])

    async def look(self) -> KnownConfiguration:
        return await look(make_visit(self.url))

    async def newcomer(self, name: str) -> Newcomer:
        return await identify(Newcomer(name, self.addresses[name]), await self.look())


@contextlib.asynccontextmanager
async def fleet(
    folder: Path,
    size: int = 3,
    *,
    formed: bool = True,
    lease: float = LEASE,
    secret: Path | None = None,
) -> AsyncIterator[Fleet]:
    """Run a cluster, formed if that is wanted, and end all of its nodes."""
    made = Fleet(folder, size, lease, secret)
    try:
        if formed:
            await made.form()
        yield made
    finally:
        for node in made.nodes.values():
            await node.stop()


async def change_until_joint(standing: KnownConfiguration, goal: Goal) -> Configuration:
    """Begin a change, and leave it in its joint step."""
    decided: asyncio.Queue[Configuration] = asyncio.Queue()
    change = Change(standing.membership, standing.security, goal, decided.put_nowait)
    running = asyncio.ensure_future(change.run())
    joint = await decided.get()
    running.cancel()
    await asyncio.wait({running})
    assert joint.is_joint
    return joint


class Joined:
    """A node that joins the cluster of a file, as a process."""

    def __init__(self, cluster: Processes, name: str) -> None:
        self.address = f"127.0.0.1:{free_ports(1)[0]}"
        self._name = name
        joined = cluster.url.removeprefix("coterie://")
        self._command = [*COTERIE, "serve", "--node", name, "--join", joined]
        self._command += ["--listen", self.address, "--data", str(cluster.folder / "joined")]
        self._process = self._start()

    def _start(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(self._command, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        assert any(f"node {self._name} listens on" in line for line in process.stderr)
        return process

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()

    def start_again(self) -> None:
        self.kill()
        self._process = self._start()
