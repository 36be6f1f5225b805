"""What the dashboard shows of a cluster, a server or a lock directory at one moment.

Times are moments in seconds since 1970 rather than ages, so that what does not change is equal from one
look to the next and need not be sent again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from coterie.algorithms.deadlock.explanation import explain
from coterie.algorithms.deadlock.wait_for import Graph
from coterie.locks.status import Kind, Look

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from coterie.locks.engine import LockState, Party
    from coterie.locks.status import NodeView, Status


class Node(msgspec.Struct, frozen=True):
    """A node or server, as it describes itself, or as its silence looks from here."""

    name: str
    address: str
    look: Look
    state: str
    started: float | None = None
    facts: dict[str, str] = {}  # further columns, by their headings
    messages: dict[str, int] = {}  # that it has received and sent since it started, by kind


class Program(msgspec.Struct, frozen=True):
    """A program with a session at the nodes."""

    name: str
    connected: int  # to so many nodes
    expires: float | None  # when its lease ends if it is not renewed


class Standing(msgspec.Struct, frozen=True):
    """A task that holds a lock or waits for one."""

    owner: str
    since: float  # since when it holds or waits
    shared: bool
    token: str | None  # a text: tokens exceed what a page can count
    why: str  # a waiter: what it waits for, in words
    waited: float | None = None  # a holder: how many seconds before; None: it does not say
    note: str = ""  # of a holder


class Lock(msgspec.Struct, frozen=True):
    """A lock that is held or waited for."""

    name: str
    holders: list[Standing]
    silent: list[str]
    waiters: list[Standing]


class Deadlock(msgspec.Struct, frozen=True):
    """Waits that can never end."""

    name: str
    kind: str
    core: tuple[str, ...]
    sentences: tuple[str, ...]


class Snapshot(msgspec.Struct, frozen=True):
    """Everything that one look has shown."""

    kind: Kind
    name: str
    at: float
    look: Look
    health: str
    nodes: dict[str, Node]
    programs: dict[str, Program]
    locks: dict[str, Lock]
    deadlocks: dict[str, Deadlock]
    notes: list[str]  # what this kind of engine cannot show, or what is left out
    lease: float | None = None  # how long a program that is silent keeps its locks
    took: float = 0.0  # how many seconds before `at` the look began: all of it was true within them


class View(NamedTuple):
    """One look, and the wait-for graph that belongs to it."""

    snapshot: Snapshot
    graph: Graph[str]


def view_of(status: Status, now: float, took: float = 0.0) -> View:
    """Show a status whose last answer came now, this many seconds after it was asked for."""
    graph: Graph[str] = Graph({}) if status.graph is None else status.graph
    programs = {
        program.name: Program(
            program.name, program.connected, float(round(now + program.expires_seconds))
        )
        for program in status.programs
    }
    snapshot = Snapshot(
        status.kind,
        status.name,
        now,
        status.look,
        status.health,
        {node.name: _node(node, now) for node in status.nodes},
        programs,
        locks_of(status.state.locks),
        deadlocks_of(graph),
        [*status.notes, *status.about],
        status.lease,
        round(took, 3),
    )
    return View(snapshot, graph)


def _node(node: NodeView, now: float) -> Node:
    # A start is told as an age by another clock: without the rounding it would differ each time.
    started = None if node.up_seconds is None else float(round(now - node.up_seconds))
    return Node(
        node.name,
        node.address,
        node.look,
        node.state,
        started,
        dict(node.facts),
        dict(node.messages),
    )


def locks_of(states: Iterable[LockState]) -> dict[str, Lock]:
    """Show the locks, each waiter with what it waits for."""
    return {
        state.name: Lock(
            state.name,
            [_standing(party, "") for party in state.holders],
            state.silent,
            [_standing(party, why(state, place)) for place, party in enumerate(state.waiters)],
        )
        for state in states
    }


def _standing(party: Party, reason: str) -> Standing:
    token = None if party.token is None else str(party.token)
    waited = None if party.waited is None else round(party.waited, 3)
    since = round(party.since, 3)
    return Standing(party.owner, since, party.shared, token, reason, waited, party.note)


def why(lock: LockState, place: int) -> str:
    """Say what keeps the waiter at this place in the queue, counted from 0, from its lock."""
    ahead = lock.waiters[:place]
    parts = []
    if lock.holders:
        held = ", ".join(dict.fromkeys(party.owner for party in lock.holders))
        how = "shared by" if lock.holders[0].shared else "held by"
        parts.append(f"{how} {held}")
    if lock.silent:
        parts.append(f"{', '.join(lock.silent)} may hold it and does not answer")
    if ahead:
        first = ahead[0].owner
        others = f" and {len(ahead) - 1} more" if len(ahead) > 1 else ""
        parts.append(f"behind {first}{others}")
    return "; ".join(parts) or "next: the lock is free and is being granted"


def deadlocks_of(graph: Graph[str]) -> dict[str, Deadlock]:
    """Name each deadlock by its members, and prove it in sentences."""
    found = (explain(graph, core[0]) for core in graph.cores())
    return {
        name: Deadlock(name, each.kind, each.core, each.text)
        for each in found
        if (name := ", ".join(sorted(each.core)))
    }


def changes(old: Mapping[str, object], new: Mapping[str, object]) -> dict[str, object]:
    """Return what is new or different, and None for what is gone."""
    return {
        **{key: value for key, value in new.items() if old.get(key) != value},
        **{key: None for key in old if key not in new},
    }
