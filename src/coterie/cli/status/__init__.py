"""`coterie status`: who is up, who holds, who waits, and who for whom."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import click

from coterie.cli.common.duration import duration
from coterie.cli.common.output import print_json, print_table
from coterie.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.cluster.admin.status import ClusterState
    from coterie.deadlock.wait_for import Graph
    from coterie.engines.file.status import DirectoryState
    from coterie.locks.engine import LockState, Party

    State: TypeAlias = ClusterState | DirectoryState

VIEWS = ("nodes", "locks", "waiters", "graph")
DRAWN = ("svg", "dot")


class Source(Protocol):
    """Where the status of locks comes from."""

    default_view: str

    def state(self, *, locks: bool) -> State:
        """Find out who is up, and if wanted who holds and who waits."""

    def waits(self) -> tuple[Graph[str], int]:
        """Find out who waits for whom, and the exit status for the health of the rest."""

    def print_nodes(self) -> int:
        """Print who is up, for people; gives the exit status."""


@click.command("status")
@click.argument("view", type=click.Choice(VIEWS), required=False)
@click.option("--url", metavar="URL", help="Default: COTERIE_URL, then coterie.toml, then file:.")
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
def command(*, view: str | None, url: str | None, watch: bool, every: float, output: str) -> int:
    """Show nodes, locks, waiters or the graph: of a cluster, or of a lock directory (file:).

    graph shows which task waits for which lock, who holds it, and which waits can never end.
    Without a view it shows the nodes of a cluster, and the locks of a directory, which has no nodes
    and is only read.

    Exits with 0 if all nodes vote, no program has lost its connection and nobody is found to be
    deadlocked, 1 if not all is well but a quorum votes, 69 if there is no quorum or the directory
    cannot be read.
    """
    if output in DRAWN and (view != "graph" or watch):
        raise UsageError(f"-o {output} draws one picture of the graph: status graph -o {output}")
    source = _source(url)
    while True:
        if watch and output == "table":
            click.clear()
        health = _show(source, view or source.default_view, output)
        if not watch:
            return health
        time.sleep(every)


def _source(url: str | None) -> Source:
    from coterie.locks.connect import choose_url, scheme_of  # noqa: PLC0415 - as below

    chosen = choose_url(url)
    if scheme_of(chosen) == "file":
        from coterie.cli.status.directory import DirectorySource  # noqa: PLC0415 - asks for POSIX

        return DirectorySource(chosen)
    from coterie.cli.status.cluster import ClusterSource  # noqa: PLC0415 - asks for ssl

    return ClusterSource(chosen)


def _show(source: Source, view: str, output: str) -> int:
    if view == "graph":
        from coterie.cli.deadlock import show  # noqa: PLC0415 - only for this view

        graph, health = source.waits()
        return max(health, show(graph, output, [core[0] for core in graph.cores()]))
    if view == "nodes" and output == "table":
        return source.print_nodes()
    state = source.state(locks=view != "nodes")
    if output == "json":
        print_json(state)
    else:
        print_locks(state.locks, view)
    return state.health


def print_locks(locks: Sequence[LockState], view: str) -> None:
    """Print who holds them, or who waits for them."""
    if view == "waiters":
        rows = [row for lock in locks for row in _waiters(lock)]
        print_table(["lock", "place", "waiter", "since"], rows)
    else:
        rows = [row for lock in locks for row in _holders(lock)]
        print_table(["lock", "holder", "token", "since", "waiting"], rows)


def _waiters(lock: LockState) -> list[list[Any]]:
    """Give a row for each who waits for a lock, the next first."""
    return [
        [lock.name, place, _name(party), _since(party)]
        for place, party in enumerate(lock.waiters, 1)
    ]


def _holders(lock: LockState) -> list[list[Any]]:
    """Give a row for each who holds a lock, or has its votes and does not say."""
    waiting = len(lock.waiters)
    rows: list[list[Any]] = [
        [lock.name, _name(party), str(party.token), _since(party), waiting]
        for party in lock.holders
    ]
    rows += [[lock.name, f"{owner} (no answer)", "", "", waiting] for owner in lock.silent]
    if not rows and lock.waiters:
        rows = [[lock.name, "nobody", "", "", waiting]]
    return rows


def _name(party: Party) -> str:
    return f"{party.owner} (shared)" if party.shared else party.owner


def _since(party: Party) -> str:
    return f"{max(0.0, time.time() - party.since):.1f} s ago"
