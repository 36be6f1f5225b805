"""A cluster of three nodes of ours, each a process; programs reach them by other addresses, so that proxies fit between."""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING

from coterie.cluster.membership.ports import free_ports
from coterie.lab.servers.child import wait_for
from coterie.lab.servers.supplier import CUTS, FAILS_OVER, LEASED
from coterie.testing.nodes import NodeProcess, node_names, write_document

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SIZE = 3
NOWHERE = "127.0.0.1"  # nodes name its low ports, which lead nowhere


class ThreeNodes:
    """Three voters, of which faults happen to the first."""

    name = "coterie"
    lease = 2.0
    can = frozenset({LEASED, FAILS_OVER, CUTS})

    def __init__(self, folder: Path) -> None:
        """Write the file of the cluster into the folder."""
        self.ports = free_ports(SIZE)
        self.port = self.ports[0]
        self._folder = folder
        names = node_names(SIZE)
        nodes = {
            name: {"address": f"{NOWHERE}:{place}", "listen": f"127.0.0.1:{port}"}
            for place, (name, port) in enumerate(zip(names, self.ports, strict=True), 1)
        }
        settings = {"data": str(folder / "data"), "lease": self.lease}
        self._file = write_document({**settings, "nodes": nodes}, folder)
        self._nodes = {name: self._node(name, "--new-cluster") for name in names}
        self._victim = names[0]

    def _node(self, name: str, *options: str) -> NodeProcess:
        return NodeProcess(
            name, self._folder / f"{name}.log", "--config", str(self._file), *options
        )

    def url(self, port: int | None = None) -> str:
        """Name the nodes, or what stands before one."""
        places = [port] if port else self.ports
        return "coterie://" + ",".join(f"127.0.0.1:{each}" for each in places)

    def kill(self) -> None:
        """Kill a node."""
        self._nodes[self._victim].kill()

    def start(self) -> None:
        """Start it again, with its disk, and wait until it listens."""
        if self._nodes[self._victim].condition == "dead":
            self._nodes[self._victim] = self._node(self._victim)
        wait_for(self._listens, self._nodes[self._victim].last_words)

    def _listens(self) -> bool:
        for port in self.ports:
            with socket.socket() as line:
                if line.connect_ex(("127.0.0.1", port)):
                    return False
        return True

    def suspend(self) -> None:
        """Freeze a node."""
        self._nodes[self._victim].stop()

    def resume(self) -> None:
        """Let it run again."""
        self._nodes[self._victim].go_on()

    def end(self) -> None:
        """Kill all nodes."""
        for node in self._nodes.values():
            node.kill()


@contextlib.contextmanager
def three_nodes(folder: Path) -> Iterator[ThreeNodes]:
    """Run a cluster for the time of a block."""
    folder.mkdir()
    cluster = ThreeNodes(folder)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.end()
