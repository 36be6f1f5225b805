"""ZooKeeper, three nodes, with kazoo's lock: a queue of sequential nodes that watch each other."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from benchmarks.locks.machine import HOST, Server, ask, free_ports, wait_until
from benchmarks.locks.peers.base import Need, Peer

if TYPE_CHECKING:
    from pathlib import Path

NODES = 3
JAR = "/usr/share/java/zookeeper.jar"


class ZooKeeper(Peer):
    label = "ZooKeeper, three nodes, kazoo's lock"
    servers_label = "2 of 3"
    on_disk = "everything"
    needs = (
        Need("zookeeper", program=JAR),
        Need("default-jre-headless", program="java"),
        Need("kazoo", module="kazoo"),
    )
    is_blocking = True
    has_failover = True
    settling_seconds = 6.0  # the virtual machine compiles what runs often
    ports: list[int]
    leader = 0
    _shared: Any = None

    def start(self, folder: Path) -> None:
        ports = free_ports(3 * NODES)
        self.ports, pairs = (
            ports[:NODES],
            zip(ports[NODES : 2 * NODES], ports[2 * NODES :], strict=True),
        )
        cluster = [
            f"server.{number}={HOST}:{one}:{two}" for number, (one, two) in enumerate(pairs, 1)
        ]
        for number, port in enumerate(self.ports, 1):
            home = folder / f"z{number}"
            home.mkdir()
            (home / "myid").write_text(str(number))
            lines = [f"dataDir={home}", f"clientPort={port}", f"clientPortAddress={HOST}"]
            lines += ["tickTime=2000", "initLimit=10", "syncLimit=5", "maxClientCnxns=0"]
            lines += ["admin.enableServer=false", "4lw.commands.whitelist=*", *cluster]
            (home / "zoo.cfg").write_text("\n".join(lines))
            main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
            options = ["-Xmx512m", "-Dzookeeper.jmx.log4j.disable=true", "-cp", JAR]
            self.servers.append(Server(["java", *options, main, str(home / "zoo.cfg")], home))
        wait_until(self._find_leader, "ZooKeeper")

    def _find_leader(self) -> bool:
        """Look whether all nodes serve, one of them as the leader."""
        modes = [ask(port, b"srvr") for port in self.ports]
        leaders = [index for index, mode in enumerate(modes) if b"Mode: leader" in mode]
        if len(leaders) != 1 or not all(b"Mode:" in mode for mode in modes):
            return False
        [self.leader] = leaders
        return True

    def settings(self, *, surviving: bool = False) -> dict[str, Any]:
        wait_until(self._find_leader, "ZooKeeper's leader")
        leader = self.ports[self.leader]
        others = [port for port in self.ports if port != leader]
        return {"ports": [*others, leader] if surviving else [leader, *others]}

    def victim(self) -> Server:
        return self.servers[self.leader]

    async def connect(self, settings: dict[str, Any], *, shared: bool) -> ZooKeeperClient:
        library = importlib.import_module("kazoo.client")
        if not shared or self._shared is None:
            hosts = ",".join(f"{HOST}:{port}" for port in settings["ports"])
            self._shared = library.KazooClient(hosts=hosts, randomize_hosts=False)
            self._shared.start()
        return ZooKeeperClient(self._shared)


class ZooKeeperClient:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def acquire(self, name: str, timeout: float | None) -> Any:
        lock = self._connection.Lock(f"/locks/{name}")
        if not lock.acquire(timeout=timeout):
            raise TimeoutError(name)
        return lock

    def release(self, held: Any) -> None:
        held.release()
