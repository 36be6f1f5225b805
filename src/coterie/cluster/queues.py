"""The tasks of one process that want the same lock: the protocol sees one request of theirs.

They are served in the order in which they asked. As long as no other process wants the lock, it
goes from one to the next without a message, each time with a token of its own. Once another process
wants it, those who were waiting here when the lock came have a short turn each, so that a process
with many tasks gets its share; then the hold goes back to the voters, and the next task here makes a
request of a new age: the others have waited as long as it has.
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
    from coterie.coordinator.session import Owner
    from coterie.errors import CoterieError, NoQuorum

TURNS_MAX = 16  # of tasks of one process in a row while another process waits
TURNS_SECONDS_MAX = 0.01
LAPSED = "its lease could not be renewed by a quorum of nodes in time"


class ClusterClaim:
    """One request of one task for one lock.

    Its futures are made when somebody asks for them: most claims are granted at once and end well.
    """

    __slots__ = (
        "_granted",
        "_lost",
        "_obstacle",
        "_queues",
        "_since",
        "asked_at",
        "entered_at",
        "lock",
        "owner",
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
        wait: bool,
    ) -> None:
        """Prepare to wait; `obstacle` tells what stands in the way of a lock."""
        self.owner = owner
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

    __slots__ = ("holder", "turns", "turns_end", "waiting")

    def __init__(self) -> None:
        """Begin empty; one that is empty again is forgotten."""
        self.holder: ClusterClaim | None = None
        self.waiting: deque[ClusterClaim] = deque()
        self.turns = 0  # that may follow here although another process waits
        self.turns_end = 0.0  # when none may begin any more

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

    def place(self, claim: ClusterClaim) -> None:
        """Let a claim join the queue of its lock; one that does not wait only finds it empty."""
        queue = self.locks.get(claim.lock)
        if queue is None:
            queue = self.locks[claim.lock] = LocalQueue()
        elif not claim.wait:
            claim.granted.set_result(None)
            return
        if queue.holder is None and not queue.waiting:
            token = self.attending.participant.again(claim.lock, claim.asked_at)
            if token:
                self._begin(queue, claim, token, claim.asked_at)
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
            now = clock.now()
            queue.holder = None
            self.tally.holds += 1
            self.tally.hold_seconds += now - claim.entered_at
            if queue.waiting:
                self._hand_over(queue, claim.lock, now)
            elif not self.attending.participant.keep(claim.lock, now):
                self.attending.release(claim.lock)
        elif claim in queue.waiting:
            queue.waiting.remove(claim)
            if queue.holder is None and not queue.waiting:
                self.attending.withdraw(claim.lock)
        if queue.holder is None and not queue.waiting:
            del self.locks[claim.lock]

    def acquired(self, lock: str, token: int) -> None:
        """Grant the lock to the first who waits."""
        queue, now = self.locks[lock], clock.now()
        self._begin(queue, queue.waiting.popleft(), token, now)
        queue.allow_turns(now)

    def _hand_over(self, queue: LocalQueue, lock: str, now: float) -> None:
        """Let the next task here have the lock, through the voters if others have to come first."""
        participant = self.attending.participant
        if not participant.is_wanted(lock) or queue.take_turn(now):
            token = participant.pass_on(lock, now)
            if token:
                self._begin(queue, queue.waiting.popleft(), token, now)
                return
        self.attending.reenter(lock)

    def _begin(self, queue: LocalQueue, claim: ClusterClaim, token: int, now: float) -> None:
        queue.holder = claim
        self.tally.acquisitions += 1
        self.tally.wait_seconds += now - claim.asked_at
        claim.grant(token, now)

    def lost(self, lock: str, token: int, reason: str = LAPSED) -> None:
        """Tell the holder that it holds no longer, unless it has just left."""
        queue = self.locks.get(lock)
        holder = queue.holder if queue else None
        if holder is None or holder.token != token or holder.is_lost():
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
        if queue is None or queue.holder is not claim or claim.is_lost():
            return False
        participant, now = self.attending.participant, clock.now()
        return now < participant.sound_until or participant.valid(claim.lock, now)

    def in_force(self, lock: str) -> ClusterClaim | None:
        """Give the claim of this process that holds a lock."""
        queue = self.locks.get(lock)
        holder = queue.holder if queue else None
        return holder if holder is not None and self.is_in_force(holder) else None

    def held(self) -> list[ClusterClaim]:
        """List all who hold a lock."""
        return [queue.holder for queue in self.locks.values() if queue.holder is not None]

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
        for claim in [queue.holder for queue in self.locks.values() if queue.holder]:
            if not claim.is_lost():
                claim.lost.set_result("the coordinator was closed")
            self.end(claim)
