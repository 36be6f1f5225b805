"""The wait-for graph of a lock service, named for people: what two passes agree on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.algorithms.deadlock.condition import Condition, all_of
from coterie.algorithms.deadlock.wait_for import Graph
from coterie.locks.deadlocks.collection import shown
from coterie.locks.deadlocks.reports import LockOwner, OwnerId, clock_time, names

if TYPE_CHECKING:
    from coterie.locks.deadlocks.collection import Collection


def lasting_graph(first: Collection, second: Collection) -> Graph[str]:
    """Show the waits and holds that lasted from the first pass to the second.

    They existed together at the moment between the passes, so a deadlock in this graph is real.
    Locks that no owner waits for are left out.
    """
    waiting = {
        owner: now for owner, now in sorted(second.owners.items()) if _lasts(first, owner, now)
    }
    wanted = {
        lock for owner in waiting.values() if owner.wait for lock in owner.wait.condition.targets()
    }
    holds = [
        hold
        for lock in sorted(wanted)
        for hold in second.holds.get(lock, ())
        if any(
            (hold.token, hold.owner.id) == (before.token, before.owner.id)
            for before in first.holds.get(lock, ())
        )
    ]
    name = names([*waiting.values(), *(hold.owner for hold in holds)])
    waits: dict[str, Condition[str]] = {}
    since: dict[str, str] = {}
    for owner, now in waiting.items():
        if now.wait is not None:
            waits[name[owner]] = shown(now.wait.condition)
            since[name[owner]] = clock_time(now.wait.since)
    for lock in sorted({str(hold.wanted) for hold in holds}):
        holders = {name[hold.owner.id] for hold in holds if str(hold.wanted) == lock}
        waits[lock] = all_of(*sorted(holders))
    return Graph(waits, since, frozenset(map(str, wanted)))


def _lasts(first: Collection, owner: OwnerId, now: LockOwner) -> bool:
    before = first.owners.get(owner)
    return now.wait is not None and before is not None and before.wait == now.wait
