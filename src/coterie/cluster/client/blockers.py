"""Which claims of this process stand in the way of a request, of its own tasks or of others.

Whoever wants a lock alone waits for all who hold it. Whoever wants to share it waits for one who
holds it alone, and for those before it in the line who want it alone. The first of these is enough:
it waits for the holders itself, and when it leaves, another one is the first. For the same reason
one in the line of its own process stands for all others: whoever asks has to be told the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coterie.cluster.client.claims import ClusterClaim, Queues
    from coterie.deadlock.service.lock_waits import Wanted


def in_the_way(queues: Queues, wanted: Wanted) -> list[ClusterClaim]:
    """List the claims that hold what is wanted, or stand before one of our own that wants to share.

    What is in the way of somebody else's request to share is for its own process to say.
    """
    holders = queues.in_force(wanted.lock)
    if not wanted.shared:
        return holders
    if wanted.requester.participant != queues.attending.identity.name:
        return []
    return _before(queues, wanted) or [claim for claim in holders if not claim.shared]


def ahead(queues: Queues, wanted: Wanted) -> list[ClusterClaim]:
    """List the claim that waits for a lock alone and may be ahead of a request to share it.

    Whether it is ahead of somebody else's request is known to the voters, with whom both lie.
    """
    if not wanted.shared:
        return []
    if wanted.requester.participant == queues.attending.identity.name:
        return _before(queues, wanted)
    queue = queues.locks.get(wanted.lock)
    if queue is None or queue.holder is not None or not queue.waiting:
        return []  # what waits behind a holder has no request of its own yet
    first = queue.waiting[0]
    return [] if first.shared else [first]


def _before(queues: Queues, wanted: Wanted) -> list[ClusterClaim]:
    """Find the first in our own line who wants the lock alone, if it stands before the request."""
    queue = queues.locks.get(wanted.lock)
    found: list[ClusterClaim] = []
    for claim in queue.waiting if queue else ():
        if claim.awaits == wanted:
            return found
        if not claim.shared and not found:
            found.append(claim)
    return []
