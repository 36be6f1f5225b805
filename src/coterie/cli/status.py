"""`coterie status`: which nodes are up, which locks are held, what waits for what."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from coterie import system
from coterie.cli.common.output import print_json, print_table, say
from coterie.errors import UsageError
from coterie.locks.duration import duration
from coterie.locks.status import find_source
from coterie.locks.url import choose_url

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from coterie.locks.engine import LockState, Party
    from coterie.locks.status import NodeView, Source, Status

VIEWS = ("nodes", "locks", "waiters", "graph", "once", "values")
DRAWN = ("svg", "dot")
WEB_PORT = 8420


@click.command("status")
@click.argument("view", type=click.Choice(VIEWS), required=False)
@click.option(
    "--url",
    metavar="URL",
    help="What to look at; default: COTERIE_URL, then coterie.toml, then file:.",
)
@click.option("--watch", is_flag=True, help="Show it repeatedly until interrupted.")
@click.option(
    "--every",
    type=duration,
    default="2s",
    show_default=True,
    metavar="DUR",
    help="Interval of --watch.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", *DRAWN]),
    default="table",
    show_default=True,
    help="How to print the result; svg and dot draw the graph.",
)
@click.option("--web", is_flag=True, help="Show it in the browser, live, until interrupted.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help=f"Where --web listens on this machine, {WEB_PORT} or the next free port by default; 0: any.",
)
@click.option("--no-open", is_flag=True, help="With --web: print the address, open no browser.")
def command(
    *,
    view: str | None,
    url: str | None,
    watch: bool,
    every: float,
    output: str,
    web: bool,
    port: int | None,
    no_open: bool,
) -> int:
    """Show the nodes, locks, waiters or wait-for graph of a cluster, a server or a lock directory.

    graph shows which task waits for which lock, which task holds it, and which waits can never end.
    once shows the jobs that run once per period, as coterie once --list does. values shows the values of locks.
    The default is nodes for a cluster and for servers such as etcd, and locks for a directory
    (file:), which has no nodes and is only read.

    A cluster that runs a classic algorithm shows its nodes, their locks and the leader if it elects
    one.

    --web shows all of it on a page of this machine, which changes as the locks do. Its address has
    a token, without which other users of the machine see nothing. Where an operator secret is named,
    the page can end holds as coterie break does.

    Exits with 0 if all nodes vote, no program has lost its connection and graph shows no deadlock;
    with 1 if one of these fails but a quorum votes; with 69 if no quorum votes or the directory
    cannot be read. Servers: 0 if all that the URL names answer, 1 if some do, 69 if none does. once:
    1 if a job is overdue, or if its latest run has failed or was interrupted.
    """
    if web:
        return _show_pages(url, port, browser=not no_open)
    if port is not None or no_open:
        raise UsageError("--port and --no-open belong to --web")
    if output in DRAWN and (view != "graph" or watch):
        raise UsageError(f"-o {output} draws the graph, once: coterie status graph -o {output}")
    chosen = choose_url(url)
    show = _view(chosen, view or ("locks" if chosen.startswith("file:") else "nodes"), output)
    while True:
        if watch and output == "table":
            click.clear()
        health = show()
        if not watch:
            return health
        time.sleep(every)


def _show_pages(url: str | None, port: int | None, *, browser: bool) -> int:
    from coterie import dashboard  # noqa: PLC0415 - an extra

    dashboard.require()
    from coterie.dashboard.app import make_app  # noqa: PLC0415 - as above
    from coterie.dashboard.monitor import Monitor  # noqa: PLC0415 - as above
    from coterie.dashboard.routes import dashboard_routes  # noqa: PLC0415 - as above
    from coterie.dashboard.server import TOKEN_BYTES, show  # noqa: PLC0415 - as above

    pages = make_app(dashboard_routes(Monitor(choose_url(url))))
    token = system.secret(TOKEN_BYTES).hex()
    show(pages, port, WEB_PORT, "/cluster", browser=browser, token=token)
    return 0


def _view(url: str, view: str, output: str) -> Callable[[], int]:
    """Return what shows this view and returns the exit status."""
    if view == "once":
        from coterie.cli.once import show_jobs  # noqa: PLC0415 - only for this view

        return partial(show_jobs, url, None, output)
    if view == "values":
        from coterie.cli.values import show_values  # noqa: PLC0415 - as above

        return partial(show_values, url, output)
    return partial(_show, asyncio.run(find_source(url)), view, output)


def _show(source: Source, view: str, output: str) -> int:
    status = asyncio.run(source.look(locks=view in ("locks", "waiters"), waits=view == "graph"))
    for note in status.notes:
        say(note, err=True)
    if view == "graph":
        return _show_graph(status, output)
    if output == "json":
        print_json(status.state)
    elif view == "nodes":
        print_nodes(status)
    else:
        print_locks(status.state.locks, view)
    return status.state.health


def _show_graph(status: Status, output: str) -> int:
    from coterie.cli.deadlock import show  # noqa: PLC0415 - only for this view

    graph = status.graph
    if graph is None:
        raise UsageError(
            "nodes of a classic algorithm know no waits but their own, so there is no graph;"
            " try coterie status waiters"
        )
    return max(status.state.health, show(graph, output, [core[0] for core in graph.cores()]))


def print_nodes(status: Status) -> None:
    """Print a row for each node, and the health of the service."""
    if status.kind == "lock directory":
        say(status.summary)
        return
    if status.kind == "server":
        header = ["server", *status.columns, "state"]
        rows = [[node.address, *_facts(node, status, "-"), node.state] for node in status.nodes]
    else:
        header = ["node", "address", "state", "up", *status.columns]
        rows = [
            [node.name, node.address, _state(node), _up(node), *_facts(node, status, "")]
            for node in status.nodes
        ]
    print_table(header, rows)
    click.echo(err=True)
    say(status.summary, err=True)


def _facts(node: NodeView, status: Status, unknown: str) -> list[str]:
    return [node.facts.get(column, unknown) for column in status.columns]


def _state(node: NodeView) -> str:
    return f"{node.state} for {node.state_seconds:.1f} s" if node.state_seconds else node.state


def _up(node: NodeView) -> str:
    return "" if node.up_seconds is None else f"{node.up_seconds:.0f} s"


def print_locks(locks: Sequence[LockState], view: str) -> None:
    """Print the holders of locks, or the waiters."""
    if view == "waiters":
        rows = [row for lock in locks for row in _waiters(lock)]
        print_table(["lock", "place", "waiter", "since"], rows)
    else:
        rows = [row for lock in locks for row in _holders(lock)]
        header = ["lock", "holder", "token", "since", "waited", "waiting", "note"]
        width = len(header) if any(row[-1] for row in rows) else len(header) - 1
        print_table(header[:width], [row[:width] for row in rows])


def _waiters(lock: LockState) -> list[list[Any]]:
    """Return a row for each waiter of a lock, the next in line first."""
    return [
        [lock.name, place, _name(party), _since(party)]
        for place, party in enumerate(lock.waiters, 1)
    ]


def _holders(lock: LockState) -> list[list[Any]]:
    """Return a row for each holder, and for each owner of votes that does not answer."""
    waiting = len(lock.waiters)
    rows: list[list[Any]] = [
        [
            lock.name,
            _name(party),
            str(party.token),
            _since(party),
            _waited(party),
            waiting,
            party.note,
        ]
        for party in lock.holders
    ]
    rows += [[lock.name, f"{owner} (no answer)", "", "", "", waiting, ""] for owner in lock.silent]
    if not rows and lock.waiters:
        rows = [[lock.name, "-", "", "", "", waiting, ""]]
    return rows


def _name(party: Party) -> str:
    return f"{party.owner} (shared)" if party.shared else party.owner


def _since(party: Party) -> str:
    return f"{max(0.0, time.time() - party.since):.1f} s ago"


def _waited(party: Party) -> str:
    return "" if party.waited is None else f"{party.waited:.1f} s"
