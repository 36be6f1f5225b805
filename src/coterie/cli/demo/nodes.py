"""The voting nodes: `coterie serve`, each in a process of its own on a free port of loopback."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from typing import TYPE_CHECKING

from coterie.cli.demo.children import send
from coterie.cluster.admin.status import HEALTHY, inspect
from coterie.cluster.client.access import Visit
from coterie.cluster.membership.ports import free_ports
from coterie.cluster.wire.address import Address
from coterie.cluster.wire.security import Security
from coterie.errors import Unavailable

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import Sequence
    from pathlib import Path

    from coterie.cli.demo.children import Children

CLUSTER = "demo"
QUIETLY = ("--quiet", "--until-eof")
START_SECONDS_MAX = 12.0
LOOK_SECONDS = 0.05


class Node:
    """A voting node."""

    def __init__(self, name: str, address: Address, process: Process) -> None:
        """Represent a process that was started."""
        self.name = name
        self.address = address
        self.process = process
        self._stopped = False

    @property
    def condition(self) -> str:
        """Return up, stopped or dead."""
        if self.process.returncode is not None:
            return "dead"
        return "stopped" if self._stopped else "up"

    async def kill(self) -> None:
        """Kill it, as `kill -9` does."""
        send(self.process, signal.SIGKILL)
        await self.process.wait()

    def stop(self) -> None:
        """Freeze it; its connections stay open, and nothing answers on them."""
        send(self.process, signal.SIGSTOP)
        self._stopped = True

    def go_on(self) -> None:
        """Resume it; to the node no time has passed."""
        send(self.process, signal.SIGCONT)
        self._stopped = False


async def start_nodes(
    children: Children, folder: Path, count: int, lease_seconds: float
) -> list[Node]:
    """Start a new cluster and wait until all of its nodes vote; raise `Unavailable` if not."""
    addresses = [Address("127.0.0.1", port) for port in free_ports(count)]
    config = folder / "coterie.toml"
    config.write_text(_document(addresses, lease_seconds), encoding="utf-8")
    nodes = []
    for name, address in zip(_names(count), addresses, strict=True):
        arguments = ("serve", "--config", str(config), "--node", name, "--new-cluster", *QUIETLY)
        nodes.append(Node(name, address, await children.start(name, "coterie", *arguments)))
    try:
        async with asyncio.timeout(START_SECONDS_MAX):
            await _until_all_vote(nodes, children)
    except TimeoutError:
        raise Unavailable(
            f"the nodes did not start to vote within {START_SECONDS_MAX:g} s"
        ) from None
    return nodes


def url_of(nodes: Sequence[Node]) -> str:
    """Return the URL by which programs reach the cluster."""
    return "coterie://" + ",".join(str(node.address) for node in nodes)


async def _until_all_vote(nodes: Sequence[Node], children: Children) -> None:
    visit = Visit([node.address for node in nodes], CLUSTER, Security())
    while True:
        for node in nodes:
            if node.condition == "dead":
                raise Unavailable(f"node {node.name} ended: {children.last_words(node.name)}")
        with contextlib.suppress(Unavailable):
            if (await inspect(visit, locks=False)).health == HEALTHY:
                return
        await asyncio.sleep(LOOK_SECONDS)


def _names(count: int) -> list[str]:
    return [f"n{number}" for number in range(1, count + 1)]


def _document(addresses: Sequence[Address], lease_seconds: float) -> str:
    lines = [f'cluster = "{CLUSTER}"', f"lease = {lease_seconds}", 'data = "data"']
    for name, address in zip(_names(len(addresses)), addresses, strict=True):
        lines += [f"[nodes.{name}]", f'address = "{address}"']
    return "\n".join(lines) + "\n"
