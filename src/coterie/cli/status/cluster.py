"""The status of a cluster, as reported by its nodes and the programs connected to them."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any

import click

from coterie.cli.common.output import print_table
from coterie.cli.status.classic import ClassicSource
from coterie.cluster.admin.status import (
    DEGRADED,
    ClusterState,
    NodeState,
    inspect,
    inspect_waits,
)
from coterie.cluster.membership.abstention import SPARE
from coterie.cluster.url import learn_membership, make_visit
from coterie.cluster.voter.report import LOCKS_MAX

if TYPE_CHECKING:
    from coterie.algorithms.deadlock.wait_for import Graph


def find_classic(url: str) -> ClassicSource | None:
    """Return where to look if the cluster runs a classic algorithm."""
    membership = asyncio.run(learn_membership(url))
    if membership.algorithm is None:
        return None
    return ClassicSource(membership, make_visit(url).security)


class ClusterSource:
    """Asks the nodes of a cluster."""

    default_view = "nodes"

    def __init__(self, url: str) -> None:
        """Find out which nodes to ask."""
        self._visit = make_visit(url)

    def state(self, *, locks: bool) -> ClusterState:
        """Ask every node, and about the locks if they are wanted."""
        state = asyncio.run(inspect(self._visit, locks=locks))
        if state.truncated:
            click.echo(f"the list is not complete: {_left_out(state.locks_left_out)}", err=True)
        return state

    def waits(self) -> tuple[Graph[str], int]:
        """Return the wait-for graph and the health of the cluster."""
        graph, health, left_out = asyncio.run(inspect_waits(self._visit))
        if left_out:
            click.echo(f"the graph is not complete: {_left_out(left_out)}", err=True)
        return graph, health

    def print_nodes(self) -> int:
        """Print a row for each node, and the health of the cluster."""
        state = self.state(locks=False)
        header = ["node", "address", "state", "up", "programs", "owned", "waiting"]
        print_table(header, [_node(node) for node in state.nodes])
        health = f"degraded: {state.reason}" if state.health == DEGRADED else state.reason
        health = health or "healthy"
        number = f", configuration {state.number}" if state.number else ""
        click.echo(f"\ncluster {state.cluster}{number}: {health}", err=True)
        return state.health


def _left_out(locks: int) -> str:
    return f"a node lists {LOCKS_MAX:,} locks at most, and there are at least {locks:,} more"


def _node(node: NodeState) -> list[Any]:
    report = node.report
    if report is None:
        return [node.name, node.address, f"down: {node.trouble}", "", "", "", ""]
    abstains = report.abstains_seconds
    standing = f"abstains for {abstains:.1f} s" if abstains else "votes"
    if math.isinf(abstains):
        standing = "spare" if report.abstains_because == SPARE else "abstains: empty disk"
    up = f"{report.up_seconds:.0f} s"
    away = sum(not session.connected for session in report.sessions)
    programs = f"{len(report.sessions)} ({away} away)" if away else len(report.sessions)
    return [node.name, node.address, standing, up, programs, report.owned, report.waiting]
