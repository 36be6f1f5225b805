"""The status of a cluster that runs a classic algorithm, as reported by its nodes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from coterie.cli.common.output import print_table
from coterie.cluster.classic.status import ClassicNodeState, ClassicState, inspect
from coterie.errors import UsageError

if TYPE_CHECKING:
    from coterie.algorithms.deadlock.wait_for import Graph
    from coterie.cluster.membership.membership import Membership
    from coterie.cluster.wire.security import Security

HEALTH = {0: "healthy", 1: "degraded", 69: "no node answers"}


class ClassicSource:
    """Asks the nodes of a classic algorithm."""

    default_view = "nodes"

    def __init__(self, membership: Membership, security: Security) -> None:
        """Remember which nodes to ask."""
        self._membership = membership
        self._security = security

    def state(self, *, locks: bool) -> ClassicState:
        """Ask every node; they tell of their locks in any case."""
        return asyncio.run(inspect(self._membership, self._security))

    def waits(self) -> tuple[Graph[str], int]:
        """Refuse: no node knows of the waits at others."""
        raise UsageError(
            "nodes of a classic algorithm know no waits but their own, so there is no graph;"
            " try coterie status waiters"
        )

    def print_nodes(self) -> int:
        """Print a row for each node, then the algorithm and its leader if it elects one."""
        state = self.state(locks=False)
        last = ["leader"] if state.elects else ["locks", "held", "waiting"]
        header = ["node", "address", "state", "up", "misses", *last]
        print_table(header, [_row(node, elects=state.elects) for node in state.nodes])
        leader = f", leader {state.leader or '-'}" if state.elects else ""
        click.echo(
            f"\ncluster {state.cluster}: {state.algorithm}, {HEALTH[state.health]}{leader}",
            err=True,
        )
        return state.health


def _row(node: ClassicNodeState, *, elects: bool) -> list[Any]:
    report = node.report
    if report is None:
        blanks = [""] * (3 if elects else 5)
        return [node.name, node.address, f"down: {node.trouble}", *blanks]
    standing = "up" if report.ready else "has not met all nodes"
    row = [node.name, node.address, standing, f"{report.up_seconds:.0f} s"]
    row.append(", ".join(report.away) or "-")
    if elects:
        return [*row, report.leader or "-"]
    held = sum(len(lock.holders) for lock in report.locks)
    return [*row, report.known, held, sum(len(lock.waiters) for lock in report.locks)]
