"""`coterie status`: who is up, who holds, who waits, and who for whom."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import click

from coterie.cli.duration import duration
from coterie.cli.output import print_json, print_table
from coterie.errors import UsageError

if TYPE_CHECKING:
    from coterie.cluster.access import Visit
    from coterie.cluster.inspecting import ClusterState, LockState, NodeState
    from coterie.coordinator.engine import Party

VIEWS = ("nodes", "locks", "waiters", "graph")
DRAWN = ("svg", "dot")
HEALTH = {0: "healthy", 1: "degraded", 69: "no quorum"}


@click.command("status")
@click.argument("view", type=click.Choice(VIEWS), default="nodes")
@click.option("--url", metavar="URL", help="Default: COTERIE_URL, then coterie.toml.")
@click.option("--watch", is_flag=True, help="Show it again and again, until interrupted.")
@click.option(
    "--every", type=duration, default="2s", show_default=True, metavar="DUR", help="With --watch."
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", *DRAWN]),
    default="table",
    show_default=True,
    help="How to print the result; svg and dot draw the graph.",
)
def command(*, view: str, url: str | None, watch: bool, every: float, output: str) -> int:
    """Ask the nodes of a cluster: nodes, locks, waiters or graph.

    graph shows which task waits for which lock, who holds it, and which waits can never end.

    Exits with 0 if all nodes vote, no program has lost its connection and nobody is found to be
    deadlocked, 1 if not all is well but a quorum votes, 69 if there is no quorum.
    """
    if output in DRAWN and (view != "graph" or watch):
        raise UsageError(f"-o {output} draws one picture of the graph: status graph -o {output}")
    while True:
        if watch and output == "table":
            click.clear()
        health = _show(_visit(url), view, output)
        if not watch:
            return health
        time.sleep(every)


def _show(visit: Visit, view: str, output: str) -> int:
    from coterie.cluster.inspecting import inspect, inspect_waits  # noqa: PLC0415 - asks for ssl

    if view == "graph":
        from coterie.cli.deadlock import show  # noqa: PLC0415 - only for this view

        graph, health = asyncio.run(inspect_waits(visit))
        return max(health, show(graph, output, [core[0] for core in graph.cores()]))
    state = asyncio.run(inspect(visit, locks=view != "nodes"))
    if output == "json":
        print_json(state)
    else:
        _print(state, view)
    return state.health


def _visit(url: str | None) -> Visit:
    from coterie.cluster.url import make_visit  # noqa: PLC0415 - asks for asyncio and ssl
    from coterie.coordinator.connecting import choose_url  # noqa: PLC0415

    chosen = choose_url(url)
    if not chosen.startswith("coterie:"):
        raise UsageError(
            f"status asks the nodes of a cluster, and {chosen} has none; set COTERIE_URL to"
            " coterie://HOST:PORT,..."
        )
    return make_visit(chosen)


def _print(state: ClusterState, view: str) -> None:
    if view == "nodes":
        header = ["node", "address", "state", "up", "programs", "owned", "waiting"]
        print_table(header, [_node(node) for node in state.nodes])
        click.echo(f"\ncluster {state.cluster}: {HEALTH[state.health]}", err=True)
        return
    rows: list[list[Any]] = []
    for lock in state.locks:
        if view == "waiters":
            rows += [
                [lock.name, place, _who(party), _since(party.since)]
                for place, party in enumerate(lock.waiters, 1)
            ]
        else:
            rows += _holders(lock)
    header = {
        "locks": ["lock", "holder", "token", "since", "waiting"],
        "waiters": ["lock", "place", "waiter", "since"],
    }[view]
    print_table(header, rows)


def _holders(lock: LockState) -> list[list[Any]]:
    """Give a row for each who holds a lock, or has its votes and does not say."""
    waiting = len(lock.waiters)
    rows = [
        [lock.name, _who(party), str(party.token), _since(party.since), waiting]
        for party in lock.holders
    ]
    rows += [[lock.name, f"{owner} (no answer)", "", "", waiting] for owner in lock.silent]
    if not rows and lock.waiters:
        rows = [[lock.name, "nobody", "", "", waiting]]
    return rows


def _who(party: Party) -> str:
    return f"{party.owner} (shared)" if party.shared else party.owner


def _node(node: NodeState) -> list[Any]:
    report = node.report
    if report is None:
        return [node.name, node.address, f"down: {node.trouble}", "", "", "", ""]
    abstains = report.abstains_seconds
    standing = f"abstains for {abstains:.1f} s" if abstains else "votes"
    up = f"{report.up_seconds:.0f} s"
    away = sum(not session.connected for session in report.sessions)
    programs = f"{len(report.sessions)} ({away} away)" if away else len(report.sessions)
    return [node.name, node.address, standing, up, programs, report.owned, report.waiting]


def _since(seconds: float) -> str:
    return f"{max(0.0, time.time() - seconds):.1f} s ago"
