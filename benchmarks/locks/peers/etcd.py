"""etcd, three nodes, with its own lock service over gRPC: what `etcdctl lock` uses.

One session lease for each client, kept alive; the queue is the server's. The few messages are
encoded here, so no generated code is needed.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import subprocess
from typing import TYPE_CHECKING, Any

from benchmarks.locks.machine import HOST, Server, free_ports, wait_until
from benchmarks.locks.peers.base import LEASE_SECONDS, Need, Peer
from benchmarks.locks.programs import find_program

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

NODES = 3
RECONNECTION = [
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
]


class Etcd(Peer):
    label = "etcd, three nodes, its lock service"
    servers_label = "2 of 3"
    on_disk = "everything"
    needs = (
        Need("etcd-server", program=find_program("etcd")),
        Need("etcd-client", program=find_program("etcdctl")),
        Need("grpcio", module="grpc"),
    )
    has_failover = True
    ports: list[int]
    leader = 0
    _shared: Any = None

    def start(self, folder: Path) -> None:
        ports = free_ports(2 * NODES)
        self.ports, peers = ports[:NODES], ports[NODES:]
        cluster = ",".join(f"n{index}=http://{HOST}:{port}" for index, port in enumerate(peers))
        for index, (port, peer) in enumerate(zip(self.ports, peers, strict=True)):
            here, there = f"http://{HOST}:{port}", f"http://{HOST}:{peer}"
            command = [
                find_program("etcd"),
                "--name",
                f"n{index}",
                "--data-dir",
                str(folder / f"n{index}"),
            ]
            command += ["--listen-client-urls", here, "--advertise-client-urls", here]
            command += ["--listen-peer-urls", there, "--initial-advertise-peer-urls", there]
            command += ["--initial-cluster", cluster, "--initial-cluster-state", "new"]
            self.servers.append(Server(command, folder))
        wait_until(self._find_leader, "etcd")

    def _find_leader(self) -> bool:
        """Look whether all nodes agree on a leader."""
        endpoints = ",".join(f"{HOST}:{port}" for port in self.ports)
        command = [find_program("etcdctl"), "--endpoints", endpoints]
        command += ["endpoint", "status", "-w", "json"]
        printed = subprocess.run(
            command, env={"ETCDCTL_API": "3"}, capture_output=True, timeout=5, check=True
        )
        nodes = json.loads(printed.stdout)
        leaders = {node["Status"]["leader"] for node in nodes}
        if len(nodes) != NODES or len(leaders) != 1:
            return False
        for node in nodes:
            if node["Status"]["header"]["member_id"] in leaders:
                self.leader = self.ports.index(int(node["Endpoint"].rpartition(":")[2]))
                return True
        return False

    def settings(self, *, surviving: bool = False) -> dict[str, Any]:
        wait_until(self._find_leader, "etcd's leader")
        leader = self.ports[self.leader]
        others = [port for port in self.ports if port != leader]
        return {"ports": [*others, leader] if surviving else [leader, *others]}

    def victim(self) -> Server:
        return self.servers[self.leader]

    async def connect(self, settings: dict[str, Any], *, shared: bool) -> EtcdClient:
        grpc = importlib.import_module("grpc")
        if not shared or self._shared is None:
            target = "ipv4:" + ",".join(f"{HOST}:{port}" for port in settings["ports"])
            self._shared = grpc.aio.insecure_channel(target, options=RECONNECTION)
        client = EtcdClient(self._shared)
        await client.open()
        return client


class EtcdClient:
    def __init__(self, channel: Any) -> None:
        call = channel.unary_unary
        self._grant = call("/etcdserverpb.Lease/LeaseGrant", _lease, lambda data: find(data, 0x10))
        self._keep_alive = channel.stream_stream(
            "/etcdserverpb.Lease/LeaseKeepAlive", _lease, bytes
        )
        self._lock = call("/v3lockpb.Lock/Lock", _request, lambda data: find(data, 0x12))
        self._unlock = call(
            "/v3lockpb.Lock/Unlock", lambda key: b"\x0a" + varint(len(key)) + key, bytes
        )

    async def open(self) -> None:
        self._lease = await self._grant(LEASE_SECONDS, timeout=10)
        self._keeping = asyncio.create_task(self._keep())

    async def _keep(self) -> None:
        while True:
            with contextlib.suppress(Exception):  # a broken stream is opened again
                async for _ in self._keep_alive(self._beats()):
                    pass
            await asyncio.sleep(0.2)

    async def _beats(self) -> AsyncIterator[int]:
        while True:
            await asyncio.sleep(LEASE_SECONDS / 3)
            yield self._lease

    async def acquire(self, name: str, timeout: float | None) -> bytes:  # noqa: ASYNC109 - as peers
        key: bytes = await self._lock((name.encode(), self._lease), timeout=timeout)
        return key

    async def release(self, held: bytes) -> None:
        await self._unlock(held)


# The messages, in protobuf's encoding


def _lease(number: int) -> bytes:
    return b"\x08" + varint(number)


def _request(request: tuple[bytes, int]) -> bytes:
    name, lease = request
    return b"\x0a" + varint(len(name)) + name + b"\x10" + varint(lease)


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def read_varint(data: bytes, start: int) -> tuple[int, int]:
    """Give a number and where it ends."""
    number = shift = 0
    for position in range(start, len(data)):
        number |= (data[position] & 0x7F) << shift
        if data[position] < 0x80:
            return number, position + 1
        shift += 7
    raise ValueError("a number without an end")


def find(data: bytes, wanted: int) -> int | bytes | None:
    """Give the first field with this tag."""
    position = 0
    while position < len(data):
        tag, position = read_varint(data, position)
        number, position = read_varint(data, position)
        field: int | bytes = number
        if tag & 7 == 2:
            field, position = data[position : position + number], position + number
        if tag == wanted:
            return field
    return None
