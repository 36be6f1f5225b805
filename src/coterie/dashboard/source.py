"""Looks at what a URL names: the nodes of a cluster, a server with queues, a directory of this machine."""

from __future__ import annotations

import asyncio
import math
import re
import time
from typing import TYPE_CHECKING, NamedTuple, Protocol

from coterie.algorithms.deadlock.wait_for import Graph
from coterie.dashboard.snapshot import Look, Node, Program, Snapshot, deadlocks_of, locks_of

if TYPE_CHECKING:
    from pathlib import Path

    from coterie.cluster.admin.status import ClusterState, NodeState
    from coterie.cluster.classic.status import ClassicNodeState
    from coterie.cluster.client.access import Visit
    from coterie.cluster.membership.membership import Membership
    from coterie.cluster.wire.security import Security
    from coterie.engines.queue.engine import QueueEngine
    from coterie.engines.queue.server import ServerNode

LOOKS: dict[int, tuple[Look, str]] = {0: ("good", "healthy"), 1: ("warning", "degraded")}


class View(NamedTuple):
    """One look, and the wait-for graph that belongs to it."""

    snapshot: Snapshot
    graph: Graph[str]


class Source(Protocol):
    """Something that has locks."""

    async def look(self) -> View:
        """Ask once; raise a `CoterieError` or an `OSError` if there is no answer."""


def without_password(url: str) -> str:
    """Return a URL as it may be shown on a page."""
    return re.sub(r"(//[^/@?#]*?):[^/@?#]*@", r"\1@", url)


async def find_source(url: str) -> Source:
    """Return where to look for this URL."""
    from coterie.locks.url import scheme_of  # noqa: PLC0415 - each needs its own library

    scheme = scheme_of(url)
    if scheme == "file":
        from coterie.engines.file.engine import make_engine  # noqa: PLC0415 - as above

        return DirectorySource(make_engine(url).folder)
    if scheme != "coterie":
        from coterie.engines.queue.engine import QueueEngine  # noqa: PLC0415 - as above
        from coterie.locks import connect  # noqa: PLC0415 - as above

        engine = connect(url).engine
        assert isinstance(engine, QueueEngine), "all others have a source of their own"
        return ServerSource(engine)
    from coterie.cluster.url import learn_membership, make_visit  # noqa: PLC0415 - as above

    membership = await learn_membership(url)
    if membership.algorithm is not None:
        return ClassicSource(membership, make_visit(url).security)
    return ClusterSource(make_visit(url))


class ClusterSource:
    """The nodes of a cluster, and through them the programs that are connected."""

    def __init__(self, visit: Visit) -> None:
        """Remember which nodes to ask."""
        self._visit = visit

    async def look(self) -> View:
        """Ask every node and every program."""
        from coterie.cluster.admin.status import inspect_all  # noqa: PLC0415 - needs ssl

        state, graph = await inspect_all(self._visit)
        now = time.time()
        look, health = LOOKS.get(state.health, ("bad", state.reason))
        notes = [f"at least {state.locks_left_out:,} more locks"] if state.truncated else []
        snapshot = Snapshot(
            "cluster",
            state.cluster,
            now,
            look,
            health,
            {node.name: _voter(node, now) for node in state.nodes},
            _programs(state, now),
            locks_of(state.locks),
            deadlocks_of(graph),
            [*notes, f"coterie {state.coterie}, lease {state.lease:g} s"],
            state.lease,
        )
        return View(snapshot, graph)


def _voter(node: NodeState, now: float) -> Node:
    report = node.report
    if report is None:
        return Node(node.name, node.address, "bad", f"down: {node.trouble}")
    away = sum(not session.connected for session in report.sessions)
    programs = f"{len(report.sessions)} ({away} away)" if away else str(len(report.sessions))
    facts = {
        "programs": programs,
        "owned": str(report.owned),
        "waiting": str(report.waiting),
        "version": report.version,
    }
    look: Look = "good"
    state = "votes"
    if report.abstains_seconds:
        look = "warning"
        state = "abstains: empty disk" if math.isinf(report.abstains_seconds) else "abstains"
    # A start is told as an age by another clock: without the rounding it would differ each time.
    started = float(round(now - report.up_seconds))
    return Node(node.name, node.address, look, state, started, facts, report.messages)


def _programs(state: ClusterState, now: float) -> dict[str, Program]:
    """Put together what the nodes say of each program; it was last heard where it was heard last."""
    connected: dict[str, int] = {}
    silent: dict[str, float] = {}
    for node in state.nodes:
        for session in node.report.sessions if node.report else ():
            connected[session.label] = connected.get(session.label, 0) + session.connected
            heard = silent.get(session.label, math.inf)
            silent[session.label] = min(heard, session.silent_seconds)
    return {
        label: Program(label, connected[label], float(round(now + state.lease - silent[label])))
        for label in sorted(connected)
    }


class ClassicSource:
    """The nodes of a classic algorithm, which know no waits but their own."""

    def __init__(self, membership: Membership, security: Security) -> None:
        """Remember which nodes to ask."""
        self._membership = membership
        self._security = security

    async def look(self) -> View:
        """Ask every node."""
        from coterie.cluster.classic.status import inspect  # noqa: PLC0415 - needs ssl

        state = await inspect(self._membership, self._security)
        now = time.time()
        look, health = LOOKS.get(state.health, ("bad", "no node answers"))
        notes = [state.algorithm, "nodes of a classic algorithm know no waits but their own"]
        if state.elects:
            notes[1] = f"leader: {state.leader or 'none that all follow'}"
        snapshot = Snapshot(
            "classic cluster",
            state.cluster,
            now,
            look,
            health,
            {node.name: _classic(node, now, elects=state.elects) for node in state.nodes},
            {},
            locks_of(state.locks),
            {},
            notes,
        )
        return View(snapshot, Graph({}))


def _classic(node: ClassicNodeState, now: float, *, elects: bool) -> Node:
    report = node.report
    if report is None:
        return Node(node.name, node.address, "bad", f"down: {node.trouble}")
    facts = {"misses": ", ".join(report.away) or "-"}
    if elects:
        facts["follows"] = report.leader or "-"
    else:
        facts["locks"] = str(report.known)
    look: Look = "good" if report.ready and not report.away else "warning"
    state = "up" if report.ready else "has not met all nodes"
    started = float(round(now - report.up_seconds))
    return Node(node.name, node.address, look, state, started, facts)


class ServerSource:
    """A server that keeps queues, and through it the programs that have entries there."""

    def __init__(self, engine: QueueEngine) -> None:
        """Remember which server to ask."""
        self._engine = engine

    async def look(self) -> View:
        """Ask the server, then the programs."""
        from coterie.engines.queue.status import inspect_all  # noqa: PLC0415 - its client library

        state, graph = await inspect_all(self._engine)
        look, health = LOOKS[state.health]
        snapshot = Snapshot(
            "server",
            state.server,
            time.time(),
            look,
            health,
            {node.address: _server(node) for node in state.nodes},
            {},
            locks_of(state.locks),
            deadlocks_of(graph),
            [],
        )
        return View(snapshot, graph)


def _server(node: ServerNode) -> Node:
    if node.trouble:
        return Node(node.address, node.address, "bad", f"down: {node.trouble}")
    facts = {"version": node.version or "-", "role": node.role or "-"}
    return Node(node.address, node.address, "good", "answers", None, facts)


class DirectorySource:
    """A lock directory of this machine, which is only read."""

    def __init__(self, folder: Path) -> None:
        """Remember the directory."""
        self._folder = folder

    async def look(self) -> View:
        """Read it in a thread, since it pauses between two looks at the waits."""
        return await asyncio.to_thread(self._read)

    def _read(self) -> View:
        from coterie.engines.file.status import inspect, inspect_waits  # noqa: PLC0415 - needs POSIX

        exists = self._folder.exists()
        state = inspect(self._folder)
        graph = inspect_waits(self._folder)
        notes = [] if exists else ["the directory does not exist: no lock has been taken yet"]
        snapshot = Snapshot(
            "lock directory",
            str(self._folder),
            time.time(),
            "good",
            "readable",
            {},
            {},
            locks_of(state.locks),
            deadlocks_of(graph),
            notes,
        )
        return View(snapshot, graph)
