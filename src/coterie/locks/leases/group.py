"""The claims of this process that have one lease: its supply sees one request for each lock.

Tasks that want the same lock are served in the order in which they asked. As long as no other process
wants the lock, it goes from one task to the next without a message, each time with a token of its own.
Once another process wants it, the tasks that were waiting here when the lock came have a short turn
each, so that a process with many tasks gets its share; then the hold goes back to the voters, and the
next task here makes a request whose age is the time at which it asked: it is served before all
requests of other processes that came later.

Tasks that share enter together if no other claim stands between them, and have one hold and one
token. A task that comes later joins them, unless a claim waits that wants the lock alone, here or
elsewhere. Of one that waits here the voters are told its age, so that tasks of other processes that
come later do not share the lock before it either.

A claim that has lost the lock keeps its place until its task releases, so that its votes stay with us
while the task stops (8.2), but only as long as no other task here wants the lock: that one asks in its
place. A task that has lost a lock and waits for another one would block its own process for good.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections import deque
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from coterie import system
from coterie.errors import MisuseError
from coterie.locks.deadlocks.reports import Requester, Wanted
from coterie.locks.leases.blockers import blockers_of_share
from coterie.locks.leases.supply import Supply
from coterie.telemetry.histogram import Histogram

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.errors import CoterieError
    from coterie.locks.leases.supply import Stock
    from coterie.locks.lock import Owner

SupplyT = TypeVar("SupplyT", bound=Supply)

TURNS_MAX = 16  # of tasks of one process in a row while another process waits
TURNS_SECONDS_MAX = 0.01
CHECKS_PER_LEASE = 20
CHECK_SECONDS_MAX = 0.5


class LeasedClaim:
    """One request of one task for one lock.

    Its futures are made on first use: most claims are granted at once and end well.
    """

    __slots__ = (
        "_awaits",
        "_granted",
        "_group",
        "_lost",
        "_since",
        "age",
        "asked_at",
        "entered_at",
        "lock",
        "note",
        "owner",
        "shared",
        "token",
        "wait",
    )
    lifelines: tuple[int, ...] = ()
    wakes_at_once = True  # what is lost is asked for again, and that takes a round trip

    def __init__(
        self, group: LeaseGroup[Any], lock: str, owner: Owner, *, shared: bool, wait: bool
    ) -> None:
        """Prepare to wait."""
        self.owner = owner
        self.shared = shared
        self.token: int | None = None
        self.lock = lock
        self.wait = wait
        self.note = ""  # which others may read as long as it holds the lock
        self.asked_at = system.now()
        self.age = 0  # among all requests, once it waits in line; 0: asked for at once
        self.entered_at = 0.0
        self._group = group
        self._granted: asyncio.Future[int | None] | None = None
        self._lost: asyncio.Future[str] | None = None
        self._since: float | None = None
        self._awaits: Wanted | None = None

    @property
    def group(self) -> LeaseGroup[Any]:
        """Where it was placed."""
        return self._group

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
            self._since = system.wall() - (system.now() - self.asked_at)
        return self._since

    @property
    def waited(self) -> float:
        """How many seconds it waited until it was granted."""
        return self.entered_at - self.asked_at

    @property
    def awaits(self) -> Wanted:
        """What it waits for."""
        if self._awaits is None:
            self._awaits = self._group.wanted(self)
        return self._awaits

    def annotate(self, note: str) -> None:
        """Let others read a note as long as the claim is granted."""
        self.note = note

    def grant(self, token: int, now: float) -> None:
        """Begin to hold."""
        self.token = token
        self.entered_at = now
        if self._granted is not None and not self._granted.done():
            self._granted.set_result(token)

    def is_lost(self) -> bool:
        """Return True if the lock was taken away."""
        return self._lost is not None and self._lost.done()

    @property
    def expires_at(self) -> float:
        """The end of the lease by `system.monotonic()` as far as it is renewed."""
        return system.monotonic() + self._group.remaining(self)

    def valid(self) -> bool:
        """Return True if the claim is granted and in force now, by the clock."""
        return self._group.is_in_force(self)

    def obstacle(self) -> CoterieError | None:
        """Return the error that keeps it waiting, if it is not just a holder."""
        return self._group.obstacle(self.lock)

    def fail(self, error: CoterieError) -> None:
        """Give up waiting with this error."""
        self._group.fail(self, error)

    def release(self) -> None:
        """End the claim, whatever has become of it; that needs no waiting."""
        self._group.end(self)


class LocalQueue:
    """The claims of this process to one lock: those that hold it, and those that wait."""

    __slots__ = ("beside", "holder", "turns", "turns_end", "waiting")

    def __init__(self) -> None:
        """Begin empty; one that is empty again is forgotten."""
        self.holder: LeasedClaim | None = None
        self.beside: list[LeasedClaim] = []  # claims that share the hold with the holder
        self.waiting: deque[LeasedClaim] = deque()
        self.turns = 0  # that may follow here although another process waits
        self.turns_end = 0.0  # when none may begin any more

    def holders(self) -> list[LeasedClaim]:
        """List the claims that have the lock: one, or all that share the hold."""
        return [] if self.holder is None else [self.holder, *self.beside]

    def leave(self, claim: LeasedClaim) -> None:
        """Remove one of several claims that share a hold."""
        if claim is self.holder:
            self.holder = self.beside.pop(0)
        else:
            self.beside.remove(claim)

    def is_shared(self) -> bool:
        """Return True if no claim here wants the lock alone."""
        return all(claim.shared for claim in (*self.holders(), *self.waiting))

    def is_lost(self) -> bool:
        """Return True if the claims that have the hold have been told that it is lost."""
        return self.holder is not None and self.holder.is_lost()

    def writer(self) -> LeasedClaim | None:
        """Return the first claim that waits here to have the lock alone."""
        return next((claim for claim in self.waiting if not claim.shared), None)

    def admits(self, *, shared: bool) -> bool:
        """Return True if no claim here blocks one that would only try."""
        if self.is_lost() and not self.waiting:
            return True
        return shared and self.is_shared()

    def allow_turns(self, now: float) -> None:
        """Let the claims that wait here now follow the one that has just been granted the lock."""
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
        self.waits = Histogram()  # that ended with the lock
        self.holds = Histogram()  # that have ended
        self.losses = 0


class LeaseGroup(Generic[SupplyT]):
    """The claims of this process that have one lease, over one supply.

    A process has a group for each lease that it counts: a session with a voter or server has one.
    """

    def __init__(self, enter: Callable[[LeaseGroup[SupplyT]], SupplyT]) -> None:
        """Begin without claims; `enter` makes the supply, which tells us what it gets and loses."""
        self.queues: dict[str, LocalQueue] = {}  # by lock
        self.tally = Tally()
        self._numbers = itertools.count(1)
        self._cut_off_since: float | None = None
        self._check: asyncio.TimerHandle | None = None
        self._check_due = math.inf
        self.supply = enter(self)
        self._stock: Stock = self.supply.stock

    # What tasks do

    def place(self, lock: str, owner: Owner, *, shared: bool, wait: bool) -> LeasedClaim:
        """Let a claim join the queue of its lock; one that does not wait only finds it empty."""
        claim = LeasedClaim(self, lock, owner, shared=shared, wait=wait)
        queue = self.queues.get(lock)
        if queue is None:
            queue = self.queues[lock] = LocalQueue()
        elif not wait and not queue.admits(shared=shared):
            claim.granted.set_result(None)
            return claim
        if queue.holder is None and not queue.waiting:
            token = self._stock.try_reacquire(lock, claim.asked_at, shared=shared)
            if token:
                self._begin(queue, claim, token, claim.asked_at)
                return claim
        queue.waiting.append(claim)
        if queue.is_lost():
            self._ask_in_place_of_lost(queue, lock)
        elif queue.holder is None and len(queue.waiting) == 1:
            self.supply.acquire(lock, shared=shared)
        else:
            self._join_line(queue, claim)
        if claim.token is None:
            self._arm_check()
        return claim

    def wanted(self, claim: LeasedClaim) -> Wanted:
        """Return what a claim waits for; no other request to share a lock waits for the same."""
        if not claim.shared:
            return Wanted(claim.lock)
        requester = Requester(self.supply.name, next(self._numbers))
        return Wanted(claim.lock, shared=True, requester=requester)

    def end(self, claim: LeasedClaim) -> None:
        """Take a claim away, wherever it stands."""
        queue = self.queues.get(claim.lock)
        if queue is None:
            return
        if claim is queue.holder or claim in queue.beside:
            now = system.now()
            self.tally.holds.add(now - claim.entered_at)
            if queue.beside:
                queue.leave(claim)
                return
            queue.holder = None
            if queue.waiting:
                self._hand_over(queue, claim.lock, now)
            elif not self._stock.try_release(claim.lock, now):
                self.supply.release(claim.lock)
        elif claim in queue.waiting:
            self._leave_line(queue, claim)
        if queue.holder is None and not queue.waiting:
            del self.queues[claim.lock]

    def fail(self, claim: LeasedClaim, error: CoterieError) -> None:
        """Let a claim that waits fail."""
        self.end(claim)
        if not claim.granted.done():
            claim.granted.set_exception(error)
            claim.granted.exception()  # a caller that is cancelled just now does not look at it

    def refuse(self, lock: str, error: CoterieError) -> None:
        """Let all claims to a lock fail that wait: the supply will not grant it."""
        for claim in [claim for claim in self.waiting() if claim.lock == lock]:
            self.fail(claim, error)

    def close(self) -> None:
        """End all claims and say goodbye: those that wait fail, those that hold have lost."""
        if self._check is not None:
            self._check.cancel()
        for claim in self.waiting():
            self.fail(claim, MisuseError(f"lock {claim.lock!r}: the coordinator was closed"))
        for claim in self.held():
            if not claim.is_lost():
                claim.lost.set_result("the coordinator was closed")
            self.end(claim)
        self.supply.stop()

    def change_supply(self, enter: Callable[[LeaseGroup[SupplyT]], SupplyT]) -> None:
        """Go on with another supply, of which nothing was granted yet: what waits is asked for there."""
        assert not self.held(), "a hold rests on the votes of the supply that granted it"
        for lock in self.queues:
            self.supply.withdraw(lock)
        self.supply.stop()
        self.supply = enter(self)
        self._stock = self.supply.stock
        for lock, queue in self.queues.items():
            self._ask(self.supply.acquire, queue, lock)

    def _join_line(self, queue: LocalQueue, claim: LeasedClaim) -> None:
        """Let a claim wait behind others here, or share the hold that they have."""
        if claim.shared:
            self._let_join(queue, claim.lock)
        if claim.token is None:
            claim.age = self.supply.new_age()
            if queue.writer() is claim:
                self._announce(queue, claim.lock)

    def _leave_line(self, queue: LocalQueue, claim: LeasedClaim) -> None:
        """Let a claim that waits go; the request with the voters is in the mode of the first."""
        lock = claim.lock
        was_next = queue.writer() is claim
        queue.waiting.remove(claim)
        if queue.holder is None and not queue.waiting:
            self.supply.withdraw(lock)
            return
        if queue.holder is None and queue.waiting[0].shared is not self._stock.is_shared(lock):
            self.supply.withdraw(lock)
            self._ask(self.supply.acquire, queue, lock)
            return
        if was_next:
            self._announce(queue, lock)
        self._let_join(queue, lock)

    def _announce(self, queue: LocalQueue, lock: str) -> None:
        """Tell the voters which task waits here for others to stop sharing; they need no other."""
        if self._stock.is_shared(lock):
            writer = queue.writer()
            self.supply.announce(lock, writer.age if writer else 0)

    # What the supply tells

    def acquired(self, lock: str, token: int) -> None:
        """Grant the lock to the first that waits, and to those that share it with the first."""
        queue, now = self.queues[lock], system.now()
        self._begin_next(queue, token, now)
        queue.allow_turns(now)

    def lose(self, lock: str, token: int, reason: str) -> None:
        """Tell all claims that have the hold of its loss, unless they have just left."""
        queue = self.queues.get(lock)
        if queue is None:
            return
        for holder in queue.holders():
            if holder.token == token and not holder.is_lost():
                self.tally.losses += 1
                holder.lost.set_result(reason)
        if queue.is_lost() and queue.waiting:
            self._ask_in_place_of_lost(queue, lock)

    def unwanted(self, lock: str) -> None:
        """Let sharers join a hold that no other process waits for any more."""
        queue = self.queues.get(lock)
        if queue is not None and queue.holder is not None:
            self._let_join(queue, lock)

    # Rules

    def _ask_in_place_of_lost(self, queue: LocalQueue, lock: str) -> None:
        """Let claims that have lost the hold go, and ask for the first that waits.

        They have been told before any voter can grant the lock again.
        """
        now = system.now()
        for claim in queue.holders():
            self.tally.holds.add(now - claim.entered_at)
        queue.holder = None
        queue.beside.clear()
        self._ask(self.supply.reenter, queue, lock)

    def _let_join(self, queue: LocalQueue, lock: str) -> None:
        """Let sharers at the head of the line join the hold, if it is shared and in force."""
        holder = queue.holder
        if holder is None or not holder.shared or self._stock.is_wanted(lock):
            return
        if holder.token is not None and self.is_in_force(holder):
            self._begin_beside(queue, holder.token, system.now())

    def _hand_over(self, queue: LocalQueue, lock: str, now: float) -> None:
        """Let the next task here have the lock, through the voters if others have to come first."""
        shared = queue.waiting[0].shared
        if not self._stock.is_wanted(lock) or queue.take_turn(now):
            token = self._stock.try_pass_on(lock, now, shared=shared)
            if token:
                self._begin_next(queue, token, now)
                return
        self._ask(self.supply.reenter, queue, lock)

    def _ask(self, ask: Callable[..., None], queue: LocalQueue, lock: str) -> None:
        """Ask the voters for the first that waits here: in its mode, and by its age."""
        first, writer = queue.waiting[0], queue.writer()
        behind = writer.age if first.shared and writer else 0
        ask(lock, shared=first.shared, age=first.age, writer=behind)

    def _begin_next(self, queue: LocalQueue, token: int, now: float) -> None:
        first = queue.waiting.popleft()
        self._begin(queue, first, token, now)
        if first.shared:
            self._begin_beside(queue, token, now)

    def _begin_beside(self, queue: LocalQueue, token: int, now: float) -> None:
        while queue.waiting and queue.waiting[0].shared:
            self._begin(queue, queue.waiting.popleft(), token, now)

    def _begin(self, queue: LocalQueue, claim: LeasedClaim, token: int, now: float) -> None:
        if queue.holder is None:
            queue.holder = claim
        else:
            queue.beside.append(claim)
        self.tally.waits.add(now - claim.asked_at)
        claim.grant(token, now)

    # What it can be asked

    def remaining(self, claim: LeasedClaim) -> float:
        """Return how long a claim is still in force, from the clock; any thread may ask."""
        queue = self.queues.get(claim.lock)
        if queue is None or not (queue.holder is claim or claim in queue.beside):
            return 0.0
        return self._stock.remaining(claim.lock, system.now())

    def is_in_force(self, claim: LeasedClaim) -> bool:
        """Return the same as a yes or no, mostly without looking at the votes.

        Before `sound_until` no hold can have lapsed that has not been found to be lost.
        """
        queue = self.queues.get(claim.lock)
        if queue is None or claim.is_lost():
            return False
        if queue.holder is not claim and claim not in queue.beside:
            return False
        now = system.now()
        return now < self._stock.sound_until or self._stock.valid(claim.lock, now)

    def is_waiting(self, claim: LeasedClaim) -> bool:
        """Return True if a claim stands in line: not granted, failed or withdrawn."""
        queue = self.queues.get(claim.lock)
        return queue is not None and claim in queue.waiting

    def in_force(self, lock: str) -> list[LeasedClaim]:
        """List the claims of this group that hold a lock: one, or several that share."""
        queue = self.queues.get(lock)
        if queue is None or queue.holder is None:
            return []
        return [holder for holder in queue.holders() if self.is_in_force(holder)]

    def blockers(self, wanted: Wanted) -> list[LeasedClaim]:
        """List the claims of this group that block a request, of this process or of another.

        A request to have a lock alone waits for all that hold it; sharing is more involved.
        """
        return blockers_of_share(self, wanted) if wanted.shared else self.in_force(wanted.lock)

    def held(self) -> list[LeasedClaim]:
        """List all claims that hold a lock."""
        return [claim for queue in self.queues.values() for claim in queue.holders()]

    def waiting(self) -> list[LeasedClaim]:
        """List all claims that wait."""
        return [claim for queue in self.queues.values() for claim in queue.waiting]

    # Claims that wait in vain

    def obstacle(self, lock: str) -> CoterieError | None:
        """Return what blocks a lock, if it is not just a holder."""
        return self.supply.obstacle(lock)

    def _check_supply(self) -> None:
        """See to it that no claim waits forever where nothing will ever grant it.

        A claim fails when nothing could for a whole lease, unless its supply says that this will pass.
        """
        self._check = None
        lease, now = self.supply.lease, system.now()
        if now - self._check_due > lease:
            self._cut_off_since = None  # what has come meanwhile is still to be read
        waiting = self.waiting()
        if not waiting:
            self._cut_off_since = None
            return
        if self.supply.may_grant():
            self._cut_off_since = None
        elif self._cut_off_since is None:
            self._cut_off_since = now
        elif now - self._cut_off_since >= lease:
            for claim in waiting:
                error = self.supply.hopeless(claim.lock)
                if error is not None:
                    self.fail(claim, error)
        self._arm_check()

    def _arm_check(self) -> None:
        if self._check is None:
            period = min(CHECK_SECONDS_MAX, self.supply.lease / CHECKS_PER_LEASE)
            self._check_due = system.now() + period
            self._check = asyncio.get_running_loop().call_later(period, self._check_supply)
