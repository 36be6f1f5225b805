"""What a server that keeps queues shows: its nodes, and the locks of all programs that use it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import msgspec

from coterie.engines.queue.server import ServerNode
from coterie.errors import Unavailable
from coterie.locks.deadlocks.graph import lasting_graph
from coterie.locks.engine import LockState

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from coterie.algorithms.deadlock.wait_for import Graph
    from coterie.engines.queue.engine import QueueEngine

# Exit statuses of `coterie status`; where no server answers, an error is raised.
HEALTHY, DEGRADED = 0, 1


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
        async with _opened(engine):
            known = await engine.states()
    return ServerState(str(engine.server), nodes, known, _health(nodes))


async def inspect_waits(engine: QueueEngine) -> tuple[Graph[str], int]:
    """Ask twice which tasks wait for which; return what lasted, and the health of the servers."""
    nodes = await _nodes(engine)
    async with _opened(engine):
        first = await engine.collect()
        second = await engine.collect()
    return lasting_graph(first, second), _health(nodes)


async def inspect_all(engine: QueueEngine) -> tuple[ServerState, Graph[str]]:
    """Ask in one session for everything: the servers, the locks, and which waits last."""
    nodes = await _nodes(engine)
    async with _opened(engine):
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
async def _opened(engine: QueueEngine) -> AsyncIterator[None]:
    """Begin a session, by which programs answer; it takes no lock."""
    await engine.open()
    try:
        yield
    finally:
        await engine.close()
