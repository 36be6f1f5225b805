"""What a server that keeps queues shows: its nodes, and the locks of all programs that use it; and in words."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import msgspec

from coterie.engines.queue.engine import QueueEngine
from coterie.engines.queue.server import ExaminedServer, ServerNode
from coterie.errors import Unavailable, UsageError
from coterie.locks.deadlocks.graph import lasting_graph
from coterie.locks.engine import LockState
from coterie.locks.status import NodeView, Status, down

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from coterie.algorithms.deadlock.wait_for import Graph
    from coterie.locks.status import ServiceFinding

# Exit statuses of `coterie status`; where no server answers, an error is raised.
HEALTHY, DEGRADED = 0, 1
HEALTH = {HEALTHY: "healthy", DEGRADED: "degraded"}


class ServerState(msgspec.Struct, frozen=True):
    """The servers and their locks, in the shape in which a cluster shows its own."""

    server: str
    nodes: list[ServerNode]
    locks: list[LockState]
    health: int


async def inspect(engine: QueueEngine, *, locks: bool) -> ServerState:
    """Ask every server that the URL names, and with `locks` every program that has a lock or waits."""
    nodes = await _nodes(engine)
    known: list[LockState] = []
    if locks:
        async with opened(engine):
            known = await engine.states()
    return ServerState(str(engine.server), nodes, known, _health(nodes))


async def inspect_waits(engine: QueueEngine) -> tuple[ServerState, Graph[str]]:
    """Ask twice which tasks wait for which; return the servers, and the waits that lasted."""
    nodes = await _nodes(engine)
    async with opened(engine):
        first = await engine.collect()
        second = await engine.collect()
    state = ServerState(str(engine.server), nodes, [], _health(nodes))
    return state, lasting_graph(first, second)


async def inspect_all(engine: QueueEngine) -> tuple[ServerState, Graph[str]]:
    """Ask in one session for everything: the servers, the locks, and which waits last."""
    nodes = await _nodes(engine)
    async with opened(engine):
        first = await engine.collect()
        known = await engine.states()
        second = await engine.collect()
    state = ServerState(str(engine.server), nodes, known, _health(nodes))
    return state, lasting_graph(first, second)


async def _nodes(engine: QueueEngine) -> list[ServerNode]:
    nodes = await engine.server.nodes()
    if all(node.trouble for node in nodes):
        troubles = "; ".join(dict.fromkeys(node.trouble for node in nodes))
        raise Unavailable(f"{engine.server}: {troubles}")
    return nodes


def _health(nodes: Sequence[ServerNode]) -> int:
    return DEGRADED if any(node.trouble for node in nodes) else HEALTHY


@contextlib.asynccontextmanager
async def opened(engine: QueueEngine) -> AsyncIterator[None]:
    """Begin a session, by which programs answer; it takes no lock."""
    await engine.open()
    try:
        yield
    finally:
        await engine.close()


# In words


def make_source(engine: object, scheme: str) -> ServerSource:
    """Return the source of the server of an engine, if that keeps queues."""
    if not isinstance(engine, QueueEngine):
        raise UsageError(f"the engine of {scheme}: URLs shows no status")
    return ServerSource(engine)


class ServerSource:
    """Asks a server that keeps queues, and through it the programs that have entries there."""

    def __init__(self, engine: QueueEngine) -> None:
        """Remember which server to ask."""
        self._engine = engine

    async def look(self, *, locks: bool = False, waits: bool = False) -> Status:
        """Ask the server, and every program if locks or waits are wanted."""
        graph = None
        if not waits:
            state = await inspect(self._engine, locks=locks)
        else:
            state, graph = await (inspect_all if locks else inspect_waits)(self._engine)
        health = HEALTH[state.health]
        return Status(
            "server",
            state.server,
            state,
            [node_view(node) for node in state.nodes],
            ("version", "role"),
            health,
            f"{state.server}: {health}",
            graph,
        )

    async def examine(self) -> list[ServiceFinding]:
        """Look at what its locks rest on, where this kind of server can be asked."""
        server = self._engine.server
        return await server.examine() if isinstance(server, ExaminedServer) else []


def node_view(node: ServerNode) -> NodeView:
    """Describe a server."""
    if node.trouble:
        return down(node.address, node.address, node.trouble)
    facts = {"version": node.version or "-", "role": node.role or "-"}
    return NodeView(node.address, node.address, "good", "answers", facts=facts)
