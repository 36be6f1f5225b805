"""coterie: three voters as servers of their own, or three programs that vote themselves."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import coterie
from benchmarks.locks.machine import HOST, Server, free_ports, is_listening, wait_until
from benchmarks.locks.peers.base import Need, Peer

if TYPE_CHECKING:
    from pathlib import Path

    from coterie import Coordinator, Held

NODES = "abc"


class Ours(Peer):
    has_failover = True
    on_disk = "a bound of the tokens"
    ports: list[int]

    def start(self, folder: Path) -> None:
        self.ports = free_ports(len(NODES))

    def settings(self, *, surviving: bool = False) -> dict[str, Any]:
        return {"addresses": [f"{HOST}:{port}" for port in self.ports]}


class Served(Ours):
    label = "coterie, three voters"
    servers_label = "2 of 3"
    _shared: Coordinator | None = None

    def start(self, folder: Path) -> None:
        super().start(folder)
        lines = ['data = "data"']
        for name, port in zip(NODES, self.ports, strict=True):
            lines += [f"[nodes.{name}]", f'address = "{HOST}:{port}"']
        (folder / "coterie.toml").write_text("\n".join(lines))
        program = [sys.executable, "-c", "from coterie.cli import main; main()", "serve", "-q"]
        self.servers = [
            Server([*program, "--new-cluster", "--config", "coterie.toml", "--node", name], folder)
            for name in NODES
        ]
        for port in self.ports:
            wait_until(partial(is_listening, port), "a voter")

    async def connect(self, settings: dict[str, Any], *, shared: bool) -> OurClient:
        if shared and self._shared is not None:
            return OurClient(self._shared)
        self._shared = coterie.connect("coterie://" + ",".join(settings["addresses"]))
        await self._shared.open()
        return OurClient(self._shared)


class ServedOnUvloop(Served):
    label = "the same, the client on uvloop as well"
    needs = (Need("uvloop", module="uvloop"),)
    is_on_uvloop = True


class Embedded(Ours):
    label = "coterie, three programs that vote"
    servers_label = "2 of 3"
    on_disk = "nothing"
    members = len(NODES)
    _member: Coordinator

    async def begin(self, settings: dict[str, Any], index: int) -> None:
        nodes = {
            name: {"address": address}
            for name, address in zip(NODES, settings["addresses"], strict=True)
        }
        self._member = coterie.join({"nodes": nodes}, node=NODES[index], new_cluster=True)
        await self._member.open()

    async def connect(self, settings: dict[str, Any], *, shared: bool) -> OurClient:
        return OurClient(self._member)


class OurClient:
    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator

    async def acquire(self, name: str, timeout: float | None) -> Held:  # noqa: ASYNC109 - as peers
        held = await self._coordinator.lock(name).acquire(timeout=timeout)
        if held is None:
            raise TimeoutError(name)
        return held

    async def release(self, held: Held) -> None:
        await held.release()
