"""A network that misbehaves on demand: a proxy before each node, for each program one of its own."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from coterie import locks
from coterie.cluster.client.engine import ClusterEngine
from coterie.cluster.membership.config import convert
from coterie.cluster.membership.ports import free_ports
from coterie.lab.servers.proxy import Proxy
from coterie.locks.internals import engine_of
from tests.cluster.local_cluster import document, running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import Any

    from coterie.cluster.client.participant import ParticipantHost
    from coterie.cluster.node import Node

NOWHERE = "127.0.0.1"  # nodes name its low ports, so that programs have to take the proxy


class Program:
    """A program, with a proxy on the way to each node."""

    def __init__(self, coordinator: locks.Coordinator, proxies: list[Proxy]) -> None:
        self.coordinator = coordinator
        self.proxies = proxies

    @property
    def host(self) -> ParticipantHost:
        engine = engine_of(self.coordinator)
        assert isinstance(engine, ClusterEngine)
        return engine.group.supply


class Network:
    """A cluster that is reached through proxies only."""

    def __init__(
        self, nodes: list[Node], ports: list[int], stack: contextlib.AsyncExitStack
    ) -> None:
        self.nodes = nodes
        self._ports = ports
        self._stack = stack

    async def program(self) -> Program:
        """Connect a program; it counts by the clock in whose context this is called."""
        proxies = [Proxy(port) for port in self._ports]
        for proxy in proxies:
            await proxy.start()
            self._stack.push_async_callback(proxy.stop)
        url = "coterie://" + ",".join(f"127.0.0.1:{proxy.port}" for proxy in proxies)
        coordinator = await self._stack.enter_async_context(locks.connect(url))
        return Program(coordinator, proxies)


@contextlib.asynccontextmanager
async def network(size: int = 3, **changes: Any) -> AsyncIterator[Network]:
    """Run a cluster, voting at once, behind proxies."""
    made = document(size, **changes)
    ports = free_ports(size)
    for number, (node, port) in enumerate(zip(made["nodes"].values(), ports, strict=True), 1):
        node |= {"address": f"{NOWHERE}:{number}", "listen": f"127.0.0.1:{port}"}
    async with contextlib.AsyncExitStack() as stack:
        nodes = await stack.enter_async_context(running(convert(made)))
        yield Network(nodes, ports, stack)
