"""The tasks of one process that want the same lock: the protocol sees one request of theirs.

They are served in the order in which they asked. As long as no other process wants the lock, it
goes from one to the next without a message, each time with a token of its own. Once another process
wants it, those who were waiting here when the lock came have a short turn each, so that a process
with many tasks gets its share; then the hold goes back to the voters, and the next task here makes a
request of a new age: the others have waited as long as it has.

Those who share enter together if nobody stands between them, and have one hold and one token. One
who comes later joins them, unless somebody waits who wants the lock alone, here or elsewhere.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import deque
from typing import TYPE_CHECKING

from coterie.cluster.runtime import clock
from coterie.deadlock.service.lock_waits import Requester, Wanted
from coterie.errors import MisuseError

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.cluster.client.participant import Attending
    from coterie.errors import CoterieError, NoQuorum
    from coterie.locks.session import Owner

TURNS_MAX = 16  # of tasks of one process in a row while another process waits
TURNS_SECONDS_MAX = 0.01
LAPSED = "its lease could not be renewed by a quorum of nodes in time"


class ClusterClaim:
    """One request of one task for one lock.

    Its futures are made when somebody asks for them: most claims are granted at once and end well.
    """

    __slots__ = (
        "_awaits",
        "_granted",
        "_lost",
        "_obstacle",
        "_queues",
        "_since",
        "asked_at",
        "entered_at",
        "lock",
        "owner",
        "shared",
        "token",
        "wait",
    )
    lifelines: tuple[int, ...] = ()

    def __init__(
        self,
        queues: Queues,
        lock: str,
        owner: Owner,
        obstacle: Callable[[str], NoQuorum | None],
        *,
        shared: bool,
        wait: bool,
    ) -> None:
        """Prepare to wait; `obstacle` tells what stands in the way of a lock."""
        self.owner = owner
        self.shared = shared
        self.token: int | None = None
        self.lock = lock
        self.wait = wait
        self.asked_at = clock.now()
        self.entered_at = 0.0
        self._queues = queues
        self._obstacle = obstacle
        self._granted: asyncio.Future[int | None] | None = None
        self._lost: asyncio.Future[str] | None = None
        self._since: float | None = None
        self._awaits: Wanted | None = None

    @property
    def granted(self) -> asyncio.Future[int | None]:
        """Becomes the token; None if the lock is not free and the claim does not wait."""
        if self._granted is None:
            self._granted = asyncio.get_running_loop().create_future()
            if self.token is not None:
                self._granted.set_result(self.token)
        return self._granted

    @property
    def lost(self) -> asyncio.Future[str]:
        """Becomes the reason when the lock is taken away."""
        if self._lost is None:
            self._lost = asyncio.get_running_loop().create_future()
        return self._lost

    @property
    def since(self) -> float:
        """When it asked, in seconds since 1970; the same number whenever it is read."""
        if self._since is None:
            self._since = time.time() - (clock.now() - self.asked_at)
        return self._since

    @property
    def awaits(self) -> Wanted:
        """What it waits for."""
        if self._awaits is None:
            self._awaits = self._queues.wanted(self)
        return self._awaits

    def grant(self, token: int, now: float) -> None:
        """Begin to hold."""
        self.token = token
        self.entered_at = now
        if self._granted is not None:
            self._granted.set_result(token)

    def is_lost(self) -> bool:
        """Tell whether the lock was taken away."""
        return self._lost is not None and self._lost.done()

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

    def fail(self, error: CoterieError) -> None:
        """Give up waiting with this error."""
        self._queues.fail(self, error)

    def release(self) -> None:
        """End the claim, whatever has become of it; that needs no waiting."""
        self._queues.end(self)


class LocalQueue:
    """One lock in this process: who has it, and who waits."""

    __slots__ = ("beside", "holder", "turns", "turns_end", "waiting")

    def __init__(self) -> None:
        """Begin empty; one that is empty again is forgotten."""
        self.holder: ClusterClaim | None = None
        self.beside: list[ClusterClaim] = []  # who share the hold with the holder
        self.waiting: deque[ClusterClaim] = deque()
        self.turns = 0  # that may follow here although another process waits
        self.turns_end = 0.0  # when none may begin any more

    def holders(self) -> list[ClusterClaim]:
        """List who has the lock: one, or all who share the hold."""
        return [] if self.holder is None else [self.holder, *self.beside]

    def leave(self, claim: ClusterClaim) -> None:
        """Let one of several who share a hold go."""
        if claim is self.holder:
            self.holder = self.beside.pop(0)
        else:
            self.beside.remove(claim)

    def is_shared(self) -> bool:
        """Tell whether nobody is here who wants the lock alone."""
        return all(claim.shared for claim in (*self.holders(), *self.waiting))

    def allow_turns(self, now: float) -> None:
        """Let those who wait here now follow the one who has just been granted the lock."""
        self.turns = min(len(self.waiting), TURNS_MAX)
        self.turns_end = now + TURNS_SECONDS_MAX

    def take_turn(self, now: float) -> bool:
        """Use up a turn, if one is left in time."""
        if not self.turns or now >= self.turns_end:
            return False
        self.turns -= 1
        return True


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
        self._numbers = itertools.count(1)

    def wanted(self, claim: ClusterClaim) -> Wanted:
        """Say what a claim waits for; no other request to share a lock waits for the same."""
        if not claim.shared:
            return Wanted(claim.lock)
        requester = Requester(self.attending.identity.name, next(self._numbers))
        return Wanted(claim.lock, shared=True, requester=requester)

    def place(self, claim: ClusterClaim) -> None:
        """Let a claim join the queue of its lock; one that does not wait only finds it empty."""
        queue = self.locks.get(claim.lock)
        if queue is None:
            queue = self.locks[claim.lock] = LocalQueue()
        elif not claim.wait and not (claim.shared and queue.is_shared()):
            claim.granted.set_result(None)
            return
        if queue.holder is None and not queue.waiting:
            participant = self.attending.participant
            token = participant.try_reacquire(claim.lock, claim.asked_at, shared=claim.shared)
            if token:
                self._begin(queue, claim, token, claim.asked_at)
                return
        queue.waiting.append(claim)
        if queue.holder is not None:
            self._let_join(queue, claim.lock)
        elif len(queue.waiting) == 1:
            self.attending.acquire(claim.lock, shared=claim.shared)

    def end(self, claim: ClusterClaim) -> None:
        """Take a claim away, wherever it stands."""
        queue = self.locks.get(claim.lock)
        if queue is None:
            return
        if claim is queue.holder or claim in queue.beside:
            now = clock.now()
            self.tally.holds += 1
            self.tally.hold_seconds += now - claim.entered_at
            if queue.beside:
                queue.leave(claim)
                return
            queue.holder = None
            if queue.waiting:
                self._hand_over(queue, claim.lock, now)
            elif not self.attending.participant.try_release(claim.lock, now):
                self.attending.release(claim.lock)
        elif claim in queue.waiting:
            self._leave_line(queue, claim)
        if queue.holder is None and not queue.waiting:
            del self.locks[claim.lock]

    def _leave_line(self, queue: LocalQueue, claim: ClusterClaim) -> None:
        """Let one who waits go; the request that lies with the voters is in the mode of the first."""
        queue.waiting.remove(claim)
        if queue.holder is not None:
            self._let_join(queue, claim.lock)
        elif not queue.waiting:
            self.attending.withdraw(claim.lock)
        elif queue.waiting[0].shared is not self.attending.participant.is_shared(claim.lock):
            self.attending.withdraw(claim.lock)
            self.attending.acquire(claim.lock, shared=queue.waiting[0].shared)

    def acquired(self, lock: str, token: int) -> None:
        """Grant the lock to the first who waits, and to those who share it with the first."""
        queue, now = self.locks[lock], clock.now()
        self._begin_next(queue, token, now)
        queue.allow_turns(now)

    def unwanted(self, lock: str) -> None:
        """Take note that no other process waits any more for a lock that is shared here."""
        queue = self.locks.get(lock)
        if queue is not None and queue.holder is not None:
            self._let_join(queue, lock)

    def _let_join(self, queue: LocalQueue, lock: str) -> None:
        """Let those at the head of the line who share join the hold, if it is shared and in force."""
        holder = queue.holder
        if holder is None or not holder.shared or self.attending.participant.is_wanted(lock):
            return
        if holder.token is not None and self.is_in_force(holder):
            self._begin_beside(queue, holder.token, clock.now())

    def _hand_over(self, queue: LocalQueue, lock: str, now: float) -> None:
        """Let the next task here have the lock, through the voters if others have to come first."""
        participant = self.attending.participant
        if not participant.is_wanted(lock) or queue.take_turn(now):
            token = participant.try_pass_on(lock, now, shared=queue.waiting[0].shared)
            if token:
                self._begin_next(queue, token, now)
                return
        self.attending.reenter(lock, shared=queue.waiting[0].shared)

    def _begin_next(self, queue: LocalQueue, token: int, now: float) -> None:
        first = queue.waiting.popleft()
        self._begin(queue, first, token, now)
        if first.shared:
            self._begin_beside(queue, token, now)

    def _begin_beside(self, queue: LocalQueue, token: int, now: float) -> None:
        while queue.waiting and queue.waiting[0].shared:
            self._begin(queue, queue.waiting.popleft(), token, now)

    def _begin(self, queue: LocalQueue, claim: ClusterClaim, token: int, now: float) -> None:
        if queue.holder is None:
            queue.holder = claim
        else:
            queue.beside.append(claim)
        self.tally.acquisitions += 1
        self.tally.wait_seconds += now - claim.asked_at
        claim.grant(token, now)

    def lost(self, lock: str, token: int, reason: str = LAPSED) -> None:
        """Tell all who have the hold that they have it no longer, unless they have just left."""
        queue = self.locks.get(lock)
        for holder in queue.holders() if queue else ():
            if holder.token == token and not holder.is_lost():
                self.tally.losses += 1
                holder.lost.set_result(reason)

    def remaining(self, claim: ClusterClaim) -> float:
        """Tell how long a claim is still in force, from the clock; any thread may ask."""
        queue = self.locks.get(claim.lock)
        if queue is None or not (queue.holder is claim or claim in queue.beside):
            return 0.0
        return self.attending.participant.remaining(claim.lock, clock.now())

    def is_in_force(self, claim: ClusterClaim) -> bool:
        """Tell the same as a yes or no, mostly without looking at the votes.

        Before `sound_until` no hold can have lapsed that has not been found to be lost.
        """
        queue = self.locks.get(claim.lock)
        if queue is None or claim.is_lost():
            return False
        if queue.holder is not claim and claim not in queue.beside:
            return False
        participant, now = self.attending.participant, clock.now()
        return now < participant.sound_until or participant.valid(claim.lock, now)

    def in_force(self, lock: str) -> list[ClusterClaim]:
        """List the claims of this process that hold a lock: one, or several that share."""
        queue = self.locks.get(lock)
        holders = queue.holders() if queue else []
        return [holder for holder in holders if self.is_in_force(holder)]

    def held(self) -> list[ClusterClaim]:
        """List all who hold a lock."""
        return [claim for queue in self.locks.values() for claim in queue.holders()]

    def waiting(self) -> list[ClusterClaim]:
        """List all who wait."""
        return [claim for queue in self.locks.values() for claim in queue.waiting]

    def fail(self, claim: ClusterClaim, error: CoterieError) -> None:
        """Let a claim that waits fail."""
        self.end(claim)
        if not claim.granted.done():
            claim.granted.set_exception(error)
            claim.granted.exception()  # a caller that is cancelled just now does not look at it

    def close(self) -> None:
        """End everything: who waits fails, who holds has lost."""
        for claim in self.waiting():
            self.fail(claim, MisuseError(f"lock {claim.lock!r}: the coordinator was closed"))
        for claim in self.held():
            if not claim.is_lost():
                claim.lost.set_result("the coordinator was closed")
            self.end(claim)
