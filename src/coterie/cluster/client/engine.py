"""The engine that a coordinator stands on when locks come from a cluster."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import TYPE_CHECKING

from coterie.cluster.client.blockers import in_the_way
from coterie.cluster.client.lease_group import Participation
from coterie.cluster.client.queries import Questions
from coterie.cluster.runtime import clock
from coterie.deadlock.service.local_waits import Waits
from coterie.deadlock.service.search import Deadlocks
from coterie.errors import NoQuorum, UsageError
from coterie.locks.watch import follow

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine

    from coterie.cluster.admin.lock_survey import Survey
    from coterie.cluster.client.access import Access
    from coterie.cluster.client.claims import ClusterClaim, Queues
    from coterie.cluster.client.participant import Attending
    from coterie.cluster.wire.frames import OwnerReport, Owners
    from coterie.deadlock.service.lock_waits import Wanted
    from coterie.locks.engine import Party
    from coterie.locks.session import Owner
    from coterie.process import ProcessId

GLANCE_SECONDS = 0.005  # before asking whether a lock that is not granted at once is held
LEASE_SECONDS_MIN = 0.1


class ClusterEngine:
    """Grants the locks of a cluster to the tasks of this process.

    At most one process holds a lock at any instant, or any number that share it, as long as clocks
    keep their rate bound; tokens grow under no assumption about time, and those of sharers lie
    between those of the exclusive holds before and after. Leases are renewed as long as this event
    loop runs, and a lock is lost early when its lease cannot be.
    """

    def __init__(self, access: Access, *, deadlock_detection: bool = True) -> None:
        """Prepare; `access` gets us in when the engine is opened."""
        self.waits = Waits(self._in_the_way)
        self.waits.detects = deadlock_detection
        self.deadlocks: Deadlocks | None = None
        self._first = Participation(self)
        self._others: dict[float, Participation] = {}  # by their leases, which are shorter
        self._access = access
        self._questions: Questions
        self._tasks: dict[asyncio.Task[None], None] = {}

    @property
    def _attending(self) -> Attending:
        return self._first.attending

    @property
    def queues(self) -> Queues:
        """The claims of this process that have the lease of the cluster."""
        return self._first.queues

    async def open(self) -> None:
        """Get in; raises `Unavailable` if no node can be reached to learn the configuration from."""
        self._first.queues.attending = await self._access.enter(self._first)
        self._questions = Questions(self._attending)
        self.waits.participant = self._attending.identity.name
        self.waits.process = self._attending.identity.label
        self.waits.clock = self._age
        if self.waits.detects:
            self.deadlocks = Deadlocks(self.waits, self._questions, self._held)

    async def close(self) -> None:
        """End all claims, and say goodbye, so that nobody has to wait for a lease of ours."""
        if self.deadlocks is not None:
            self.deadlocks.stop()
        for task in self._tasks:
            task.cancel()
        for participation in self._participations():
            participation.close()
        self._others.clear()
        await self._access.leave()

    def place(
        self, name: str, *, owner: Owner, shared: bool, ttl: float | None, wait: bool
    ) -> ClusterClaim:
        """Ask for a lock, with a lease of `ttl` seconds: that of the cluster at most."""
        participation = self._participation(name, ttl)
        claim = participation.place(name, owner, shared=shared, wait=wait)
        if claim.token is None and not claim.granted.done() and not wait:
            self._run(self._try(claim, participation))
        return claim

    # Leases

    def _participations(self) -> list[Participation]:
        return [self._first, *self._others.values()]

    def _participation(self, lock: str, ttl: float | None) -> Participation:
        """Find who counts that lease, or join the cluster once more for it.

        Its voters are called anew; requests wait for them, and begin above all that we have seen.
        """
        lease = self._attending.membership.settings.lease
        if ttl is None or ttl == lease:
            return self._first
        if not LEASE_SECONDS_MIN <= ttl < lease:
            raise UsageError(
                f"lock {lock!r}: a ttl of {ttl:g} s; the lease of cluster"
                f" {self._attending.membership.cluster!r} is {lease:g} s, and a lock may have a"
                f" shorter one from {LEASE_SECONDS_MIN:g} s on; for a longer one raise `lease` in"
                " the configuration of all nodes"
            )
        if ttl not in self._others:
            other = self._others[ttl] = Participation(self)
            attending = other.queues.attending = self._access.enter_again(other, ttl)
            attending.participant.sessions.merge(self._age())
        return self._others[ttl]

    # What participants and the search for deadlocks ask

    def _in_the_way(self, wanted: Wanted) -> list[ClusterClaim]:
        return [
            claim for each in self._participations() for claim in in_the_way(each.queues, wanted)
        ]

    def _held(self) -> list[ClusterClaim]:
        return [claim for each in self._participations() for claim in each.queues.held()]

    def _age(self) -> int:
        """Read Lamport's clock: participants that hear of each other's requests agree on it."""
        return self._attending.participant.sessions.clock

    def learn(self, voter: ProcessId, answer: Owners | OwnerReport) -> None:
        """Take the answer to a question of ours."""
        self._questions.learn(voter, answer)

    # Questions

    async def holders(self, name: str) -> list[Party]:
        """Name who holds the lock."""
        return (await self._survey(name)).holders(name)

    async def waiters(self, name: str) -> list[Party]:
        """Name who waits for the lock, the next first."""
        return (await self._survey(name)).waiters(name)

    def watch(self, name: str, check: Callable[[], None]) -> AsyncGenerator[Party | None, None]:
        """Follow the holder of a lock; changes are noticed within a fifth of a second."""
        return follow(partial(self.holders, name), check)

    async def _survey(self, lock: str) -> Survey:
        if not self._first.reaches_a_quorum():
            raise self._first.no_quorum(lock)
        return await self._questions.survey(lock)

    # Locks that are to be had now or not at all

    async def _try(self, claim: ClusterClaim, participation: Participation) -> None:
        """Give up as soon as somebody else is known to hold the lock, or to wait for it.

        Whoever shares is in nobody's way who wants to share. A lock that is only kept by another
        process is free: it will come.
        """
        deadline = clock.now() + self._attending.membership.settings.hedge
        me = participation.attending.identity.name
        while clock.now() < deadline:
            await asyncio.wait({claim.granted}, timeout=GLANCE_SECONDS)
            if not participation.is_waiting(claim):
                return  # granted, or withdrawn by a caller that was cancelled
            with contextlib.suppress(NoQuorum):
                survey = await self._survey(claim.lock)
                if survey.is_taken(claim.lock, me, shared=claim.shared):
                    break
        if not participation.is_waiting(claim):
            return
        obstacle = participation.obstacle(claim.lock)
        claim.release()
        if obstacle is not None:
            claim.granted.set_exception(obstacle)
        else:
            claim.granted.set_result(None)

    def _run(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
