"""The engine that a coordinator stands on when locks come from a cluster."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import TYPE_CHECKING

from coterie import system
from coterie.aio import to_the_end
from coterie.cluster.client import blockers
from coterie.cluster.client.lease_group import LeaseGroup
from coterie.cluster.client.participant import Upcalls
from coterie.cluster.client.queries import Queries
from coterie.cluster.runtime import clock
from coterie.cluster.voter.metrics import participant_metrics
from coterie.deadlock.service.waits import DeadlockSearch, Waits
from coterie.errors import NoQuorum, UsageError
from coterie.locks.watch import follow

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence

    from coterie.cluster.admin.lock_survey import Survey
    from coterie.cluster.client.access import Access
    from coterie.cluster.client.lease_group import ClusterClaim
    from coterie.cluster.client.participant import ParticipantHost
    from coterie.cluster.membership import Membership
    from coterie.cluster.voter.frames import AskOwner, OwnerReport
    from coterie.deadlock.service.lock_waits import Hold, Wanted
    from coterie.locks.engine import Party
    from coterie.locks.lock import Owner
    from coterie.process import Event

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
        self.waits = Waits(
            system.secret(16).hex(),
            self._blockers,
            clock=self._age,
            on_block=self._plan_search,
            detects=deadlock_detection,
        )
        self.groups: dict[float | None, LeaseGroup] = {}  # by lease; None: that of the cluster
        self.access = access
        self._queries = Queries()
        self.search = DeadlockSearch(self.waits, self, self._held)
        self._tasks: dict[asyncio.Task[None], None] = {}

    @property
    def group(self) -> LeaseGroup:
        """The claims of this process that have the lease of the cluster; there is one while open."""
        return self.groups[None]

    async def open(self) -> None:
        """Get in; raises `Unavailable` if no node can be reached to learn the configuration from."""
        self.search = DeadlockSearch(self.waits, self, self._held)
        membership = await self.access.open()
        try:
            self.groups[None] = self._enter(membership)
            await self.access.settle()
        except BaseException:
            await to_the_end(self.close())
            raise

    async def close(self) -> None:
        """End all claims, and say goodbye, so that no process has to wait for a lease of ours."""
        self.search.stop()
        for task in self._tasks:
            task.cancel()
        for group in self.groups.values():
            group.close()
        self.groups.clear()
        await self.access.close()

    def place(
        self, name: str, *, owner: Owner, shared: bool, ttl: float | None, wait: bool
    ) -> ClusterClaim:
        """Ask for a lock, with a lease of `ttl` seconds: that of the cluster at most."""
        group = self.groups.get(ttl) or self._group(name, ttl)
        claim = group.place(name, owner, shared=shared, wait=wait)
        if not wait and claim.token is None and not claim.granted.done():
            self._run(self._try(claim, group))
        return claim

    # Leases

    def _group(self, lock: str, ttl: float | None) -> LeaseGroup:
        """Find the group that has that lease, or join the cluster once more for it.

        Its voters are called for themselves; requests wait for them, and begin above all that we
        have seen.
        """
        membership = self.group.host.membership
        lease = membership.settings.lease
        if ttl is None or ttl == lease:
            return self.group
        if not LEASE_SECONDS_MIN <= ttl < lease:
            raise UsageError(
                f"lock {lock!r}: ttl must be from {LEASE_SECONDS_MIN:g} s to {lease:g} s, the lease"
                f" of cluster {membership.cluster!r}, got {ttl:g} s; for a longer one raise `lease`"
                " in the configuration of all nodes"
            )
        group = self.groups[ttl] = self._enter(membership, ttl)
        group.host.participant.sessions.merge(self._age())
        return group

    def _enter(self, membership: Membership, lease: float | None = None) -> LeaseGroup:
        def enter(group: LeaseGroup, tell: Callable[[Event], None]) -> ParticipantHost:
            upcalls = Upcalls(
                tell,
                partial(self._report, group),
                self._queries.learn,
                partial(participant_metrics, group, self.waits),
            )
            return self.access.enter(membership, upcalls, lease)

        return LeaseGroup(enter)

    # Deadlocks

    def _blockers(self, wanted: Wanted) -> list[ClusterClaim]:
        return [claim for group in self.groups.values() for claim in group.blockers(wanted)]

    def _held(self) -> list[ClusterClaim]:
        return [claim for group in self.groups.values() for claim in group.held()]

    def _age(self) -> int:
        """Read the clock that ages are readings of: participants agree on it roughly."""
        return self.group.host.age()

    def _plan_search(self, owner: Owner) -> None:
        self.search.plan(owner)

    def _report(self, group: LeaseGroup, asked: AskOwner) -> OwnerReport:
        """Answer for a group; an owner that another's search has found searches soon, too."""
        if asked.search:
            for wanted in asked.locks:
                for claim in group.in_force(wanted.lock):
                    self.search.nudge(claim.owner)
        return blockers.report(group, self.waits, asked)

    @property
    def round_trip(self) -> float:
        """How many seconds an answer of other processes takes."""
        return self._queries.round_trips.latest

    async def holds(self, locks: Sequence[Wanted]) -> dict[Wanted, list[Hold]]:
        """Find the tasks of other processes that hold these locks."""
        return await self._queries.holds(self.group.host, locks)

    # Questions

    def obstacle(self, name: str) -> NoQuorum | None:
        """Return the error if claims to a lock wait for a quorum, and not for a holder."""
        return self.group.obstacle(name)

    async def holders(self, name: str) -> list[Party]:
        """List the holders of a lock."""
        return (await self._survey(name)).holders(name)

    async def waiters(self, name: str) -> list[Party]:
        """List the tasks that wait for a lock, the next first."""
        return (await self._survey(name)).waiters(name)

    def watch(self, name: str, check: Callable[[], None]) -> AsyncGenerator[Party | None, None]:
        """Follow the holder of a lock; changes are noticed within a fifth of a second."""
        return follow(partial(self.holders, name), check)

    async def _survey(self, lock: str) -> Survey:
        if not self.group.reaches_a_quorum():
            raise self.group.no_quorum(lock)
        return await self._queries.survey(self.group.host, lock)

    # Locks that are to be had now or not at all

    async def _try(self, claim: ClusterClaim, group: LeaseGroup) -> None:
        """Give up as soon as another task is known to hold the lock, or to wait for it.

        A task that shares does not block others that want to share. A lock that is only kept by
        another process is free: it will come.
        """
        deadline = clock.now() + group.host.membership.settings.hedge
        me = group.host.identity.name
        while clock.now() < deadline:
            await asyncio.wait({claim.granted}, timeout=GLANCE_SECONDS)
            if not group.is_waiting(claim):
                return  # granted, or withdrawn by a caller that was cancelled
            with contextlib.suppress(NoQuorum):
                survey = await self._survey(claim.lock)
                if survey.is_taken(claim.lock, me, shared=claim.shared):
                    break
        if not group.is_waiting(claim):
            return
        obstacle = group.obstacle(claim.lock)
        claim.release()
        if obstacle is not None:
            claim.granted.set_exception(obstacle)
        else:
            claim.granted.set_result(None)

    def _run(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
