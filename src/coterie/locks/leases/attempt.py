"""Locks that are taken at once or not at all."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from coterie import system
from coterie.errors import CoterieError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from coterie.locks.leases.group import LeasedClaim, LeaseGroup
    from coterie.locks.leases.owner_query import OwnerQuery

GLANCE_SECONDS = 0.005  # before asking whether a lock that is not granted at once is held


async def try_once(
    claim: LeasedClaim,
    group: LeaseGroup[Any],
    query: Callable[[str], Awaitable[OwnerQuery]],
    patience: float,
) -> None:
    """Give up as soon as another task is known to hold the lock, or to wait for it.

    A task that shares does not block others that want to share. A lock that is only kept by
    another process is free: it will come.
    """
    deadline = system.now() + patience
    while system.now() < deadline:
        await asyncio.wait({claim.granted}, timeout=GLANCE_SECONDS)
        if not group.is_waiting(claim):
            return  # granted, or withdrawn by a caller that was cancelled
        try:
            known = await query(claim.lock)
        except Unavailable:
            continue
        except CoterieError as error:  # nothing that time will mend, such as a lack of rights
            if group.is_waiting(claim):
                claim.fail(error)
            return
        if known.is_taken(claim.lock, group.supply.name, shared=claim.shared):
            break
    if not group.is_waiting(claim):
        return
    obstacle = group.obstacle(claim.lock)
    claim.release()
    if claim.granted.done():
        return  # its caller was cancelled
    if obstacle is not None:
        claim.granted.set_exception(obstacle)
    else:
        claim.granted.set_result(None)
