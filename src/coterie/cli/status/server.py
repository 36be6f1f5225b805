"""The status of a server that keeps queues of locks: etcd, PostgreSQL, Redis, ZooKeeper."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from coterie.cli.common.output import print_table
from coterie.engines.queue.engine import QueueEngine
from coterie.engines.queue.status import ServerState, inspect, inspect_waits
from coterie.locks import connect
from coterie.locks.internals import engine_of

if TYPE_CHECKING:
    from coterie.algorithms.deadlock.wait_for import Graph
    from coterie.engines.queue.server import ServerNode

HEALTH = {0: "healthy", 1: "degraded"}


class ServerSource:
    """Asks the server, and through it the programs that have locks on it or wait for one."""

    default_view = "nodes"

    def __init__(self, url: str) -> None:
        """Find out which server to ask."""
        engine = engine_of(connect(url))
        assert isinstance(engine, QueueEngine), "all others have a source of their own"
        self._engine = engine

    def state(self, *, locks: bool) -> ServerState:
        """Ask the server, and about the locks if they are wanted."""
        return asyncio.run(inspect(self._engine, locks=locks))

    def waits(self) -> tuple[Graph[str], int]:
        """Return the wait-for graph and the health of the server."""
        return asyncio.run(inspect_waits(self._engine))

    def print_nodes(self) -> int:
        """Print a row for each server that the URL names, and the health of them all."""
        state = self.state(locks=False)
        header = ["server", "version", "role", "state"]
        print_table(header, [_row(node) for node in state.nodes])
        click.echo(f"\n{state.server}: {HEALTH[state.health]}", err=True)
        return state.health


def _row(node: ServerNode) -> list[str]:
    standing = f"down: {node.trouble}" if node.trouble else "answers"
    return [node.address, node.version or "-", node.role or "-", standing]
