"""The tasks of one process that want the same lock: the protocol sees one request of theirs.

They are served in the order in which they asked. As long as no other process wants the lock, it
goes from one to the next without a message, each time with a token of its own. Once another process
wants it, the hold goes back to the voters, and the next task here makes a request of a new age: the
others have waited as long as it has.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING

from coterie.cluster import clock
from coterie.errors import MisuseError

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.cluster.attending import Attending
    from coterie.errors import CoterieError, NoQuorum

LAPSED = "its lease could not be renewed by a quorum of nodes in time"


class ClusterClaim:
    """One request of one task for one lock."""

    lifelines: tuple[int, ...] = ()

    def __init__(
        self, queues: Queues, lock: str, obstacle: Callable[[str], NoQuorum | None], *, wait: bool
    ) -> None:
        """Prepare to wait; `obstacle` tells what stands in the way of a lock."""
        loop = asyncio.get_running_loop()
        self.granted: asyncio.Future[int | None] = loop.create_future()
        self.lost: asyncio.Future[str] = loop.create_future()
        self.lock = lock
        self.wait = wait
        self.since = time.time()
        self.asked_at = clock.now()
        self.entered_at = 0.0
        self._queues = queues
        self._obstacle = obstacle

    @property
    def expires_at(self) -> float:
        """The end of the lease by `time.monotonic()` as far as it is renewed."""
        return time.monotonic() + self._queues.remaining(self)

    def valid(self) -> bool:
        """Tell whether the claim is granted and in force now, by the clock."""
        return self._queues.is_in_force(self)

    def obstacle(self) -> NoQuorum | None:
        """Say whether it waits for a quorum, and not for a holder."""
        return self._obstacle(self.lock)

    async def release(self) -> None:
        """End the claim, whatever has become of it."""
        self._queues.end(self)


class LocalQueue:
    """One lock in this process: who has it, and who waits."""

    __slots__ = ("holder", "waiting")

    def __init__(self) -> None:
        """Begin empty; one that is empty again is forgotten."""
        self.holder: ClusterClaim | None = None
        self.waiting: deque[ClusterClaim] = deque()


class Tally:
    """What happened to the locks of this process so far."""

    def __init__(self) -> None:
        """Begin at zero."""
        self.acquisitions = 0
        self.losses = 0
        self.wait_seconds = 0.0
        self.holds = 0
        self.hold_seconds = 0.0


class Queues:
    """All claims of one process."""

    def __init__(self) -> None:
        """Begin without claims; `attending` is set before the first one is placed."""
        self.attending: Attending
        self.locks: dict[str, LocalQueue] = {}
        self.tally = Tally()

    def place(self, claim: ClusterClaim) -> None:
        """Let a claim join the queue of its lock; one that does not wait only finds it empty."""
        queue = self.locks.get(claim.lock)
        if queue is None:
            queue = self.locks[claim.lock] = LocalQueue()
        elif not claim.wait:
            claim.granted.set_result(None)
            return
        queue.waiting.append(claim)
        if queue.holder is None and len(queue.waiting) == 1:
            self.attending.acquire(claim.lock)

    def end(self, claim: ClusterClaim) -> None:
        """Take a claim away, wherever it stands."""
        queue = self.locks.get(claim.lock)
        if queue is None:
            return
        if claim is queue.holder:
            queue.holder = None
            self.tally.holds += 1
            self.tally.hold_seconds += clock.now() - claim.entered_at
            self.attending.release(claim.lock)
            if queue.waiting:
                self.attending.acquire(claim.lock)
        elif claim in queue.waiting:
            queue.waiting.remove(claim)
            if queue.holder is None and not queue.waiting:
                self.attending.withdraw(claim.lock)
        if queue.holder is None and not queue.waiting:
            del self.locks[claim.lock]

    def acquired(self, lock: str, token: int) -> None:
        """Grant the lock to the first who waits."""
        queue = self.locks[lock]
        claim = queue.holder = queue.waiting.popleft()
        claim.entered_at = clock.now()
        self.tally.acquisitions += 1
        self.tally.wait_seconds += claim.entered_at - claim.asked_at
        claim.granted.set_result(token)

    def lost(self, lock: str, token: int, reason: str = LAPSED) -> None:
        """Tell the holder that it holds no longer, unless it has just left."""
        queue = self.locks.get(lock)
        holder = queue.holder if queue else None
        if holder is None or holder.granted.result() != token or holder.lost.done():
            return
        self.tally.losses += 1
        holder.lost.set_result(reason)

    def remaining(self, claim: ClusterClaim) -> float:
        """Tell how long a claim is still in force, from the clock; any thread may ask."""
        queue = self.locks.get(claim.lock)
        if queue is None or queue.holder is not claim:
            return 0.0
        return self.attending.participant.remaining(claim.lock, clock.now())

    def is_in_force(self, claim: ClusterClaim) -> bool:
        """Tell the same as a yes or no, mostly without looking at the votes.

        Before `sound_until` no hold can have lapsed that has not been found to be lost.
        """
        queue = self.locks.get(claim.lock)
        if queue is None or queue.holder is not claim or claim.lost.done():
            return False
        participant, now = self.attending.participant, clock.now()
        return now < participant.sound_until or participant.valid(claim.lock, now)

    def waiting(self) -> list[ClusterClaim]:
        """List all who wait."""
        return [claim for queue in self.locks.values() for claim in queue.waiting]

    def fail(self, claim: ClusterClaim, error: CoterieError) -> None:
        """Let a claim that waits fail."""
        self.end(claim)
        if not claim.granted.done():
            claim.granted.set_exception(error)

    def close(self) -> None:
        """End everything: who waits fails, who holds has lost."""
        for claim in self.waiting():
            self.fail(claim, MisuseError(f"lock {claim.lock!r}: the coordinator was closed"))
        for claim in [queue.holder for queue in self.locks.values() if queue.holder]:
            if not claim.lost.done():
                claim.lost.set_result("the coordinator was closed")
            self.end(claim)
