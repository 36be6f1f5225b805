"""Which claims of this process block a request, of its own tasks or of others, and what is said of them.

A request to have a lock alone waits for all that hold it. A request to share it waits for a holder
that has it alone, and for the claims before it in the line that want it alone. The first of these is
enough: it waits for the holders itself, and when it leaves, another one is the first. For the same
reason one in the line of its own process stands for all others: every process that asks has to be
told the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from coterie.locks.leases.frames import Grant, LockStanding, OwnerReport

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.locks.deadlocks.reports import Wanted
    from coterie.locks.deadlocks.search import DeadlockSearch
    from coterie.locks.deadlocks.waits import Waits
    from coterie.locks.leases.frames import AskOwner
    from coterie.locks.leases.group import LeasedClaim, LeaseGroup


def blockers_of_share(group: LeaseGroup[Any], wanted: Wanted) -> list[LeasedClaim]:
    """List the claims that block a request of this group to share a lock.

    What blocks the request of another process is for that process to say.
    """
    if wanted.requester.participant != group.supply.name:
        return []
    holders = [claim for claim in group.in_force(wanted.lock) if not claim.shared]
    return _before(group, wanted) or holders


def ahead(group: LeaseGroup[Any], wanted: Wanted) -> list[LeasedClaim]:
    """List the claim that waits for a lock alone and may be ahead of a request to share it.

    Whether it is ahead of another process's request is known to the voters, where both lie.
    """
    if not wanted.shared:
        return []
    if wanted.requester.participant == group.supply.name:
        return _before(group, wanted)
    queue = group.queues.get(wanted.lock)
    if queue is None or (queue.holder is not None and not queue.holder.shared):
        return []  # what waits behind one that is alone has not been announced to the voters
    writer = queue.writer()
    return [] if writer is None else [writer]


def _before(group: LeaseGroup[Any], wanted: Wanted) -> list[LeasedClaim]:
    """Find the first claim of our own line that wants the lock alone, if it is before the request."""
    queue = group.queues.get(wanted.lock)
    found: list[LeasedClaim] = []
    for claim in queue.waiting if queue else ():
        if claim.awaits == wanted:
            return found
        if not claim.shared and not found:
            found.append(claim)
    return []


def answer(
    group: LeaseGroup[Any], waits: Waits, search: DeadlockSearch, asked: AskOwner
) -> OwnerReport:
    """Answer another process; an owner that its search for deadlocks has found searches soon, too."""
    if asked.search:
        for wanted in asked.locks:
            for claim in group.in_force(wanted.lock):
                search.nudge(claim.owner)
    return report(group, waits, asked)


def report(group: LeaseGroup[Any], waits: Waits, asked: AskOwner) -> OwnerReport:
    """Answer how this group stands to locks: in a search for deadlocks only what blocks requests."""
    tell = _blocking if asked.search else _everything
    standings = tuple(tell(group, waits, wanted) for wanted in asked.locks)
    return OwnerReport(asked.route, asked.question, group.supply.name, standings)


def _everything(group: LeaseGroup[Any], waits: Waits, wanted: Wanted) -> LockStanding:
    """Describe all tasks that hold a lock or wait for it."""
    queue = group.queues.get(wanted.lock)
    waiting = list(queue.waiting) if queue else []
    modes = tuple(claim.shared for claim in waiting)
    return _standing(group, waits, wanted, waiting, modes)


def _blocking(group: LeaseGroup[Any], waits: Waits, wanted: Wanted) -> LockStanding:
    """Describe only the tasks that block what is wanted.

    Holders that share a lock block no request to share it. There may be many of both, so they are
    left out of each other's description.
    """
    standing = _standing(group, waits, wanted, ahead(group, wanted))
    if wanted.shared and standing.shared and standing.state == "held":
        return msgspec.structs.replace(standing, holders=())
    return standing


def _standing(
    group: LeaseGroup[Any],
    waits: Waits,
    wanted: Wanted,
    waiting: Sequence[LeasedClaim],
    modes: tuple[bool, ...] = (),
) -> LockStanding:
    owners = tuple(waits.describe(claim.owner) for claim in waiting)
    holders = group.in_force(wanted.lock)
    if holders:
        first, inside = holders[0], tuple(waits.describe(claim.owner) for claim in holders)
        token, shared = first.token or 0, first.shared
        grants = tuple(Grant(claim.since + claim.waited, claim.waited) for claim in holders)
        since = first.since
        notes = tuple(claim.note for claim in holders) if any(c.note for c in holders) else ()
        return LockStanding(
            wanted, "held", token, since, modes, inside, owners, shared, grants, notes
        )
    if waiting:
        first = waiting[0]
        return LockStanding(wanted, "waiting", 0, first.since, modes, (), owners, first.shared)
    kept = wanted.lock in group.supply.stock.cached
    return LockStanding(wanted, "kept" if kept else "nothing", 0, 0.0)
