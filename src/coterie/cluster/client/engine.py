"""The engine that a coordinator stands on when locks come from a cluster."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from coterie import system
from coterie.algorithms.mutex.quorum.leased.participant import Acquired, Lost, Unwanted
from coterie.algorithms.mutex.quorum.leased.stored import NOTHING
from coterie.cluster.client.free_reader import FreeReader
from coterie.cluster.client.metrics import participant_metrics
from coterie.cluster.client.participant import Upcalls
from coterie.cluster.client.queries import Queries
from coterie.cluster.client.values import ValueDesk, check_values, value_of
from coterie.errors import LockLost, UsageError
from coterie.locks.breaker import BROKEN
from coterie.locks.deadlocks.search import DeadlockSearch
from coterie.locks.deadlocks.waits import Waits
from coterie.locks.engine import follow
from coterie.locks.leases import blockers
from coterie.locks.leases.attempt import try_once
from coterie.locks.leases.group import LeaseGroup
from coterie.locks.value import follow_value
from coterie.system.aio import Tasks, to_the_end

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from coterie.algorithms.mutex.quorum.leased.stored import StoredValue
    from coterie.cluster.client.access import Access
    from coterie.cluster.client.participant import ParticipantHost
    from coterie.cluster.membership.membership import Membership
    from coterie.errors import CoterieError
    from coterie.locks.deadlocks.reports import Hold, Wanted
    from coterie.locks.engine import Party
    from coterie.locks.leases.frames import AskOwner, OwnerReport
    from coterie.locks.leases.group import LeasedClaim
    from coterie.locks.leases.owner_query import OwnerQuery
    from coterie.locks.lock import Owner
    from coterie.locks.value import Value
    from coterie.process import Event

ClusterGroup: TypeAlias = "LeaseGroup[ParticipantHost]"

LAPSED = "its lease could not be renewed by a quorum of nodes in time"
LEASE_SECONDS_MIN = 0.1


class ClusterEngine:
    """Grants the locks of a cluster to the tasks of this process.

    At most one process holds a lock at any instant, or any number that share it, as long as clocks
    keep their rate bound; tokens grow under no assumption about time, and those of sharers lie
    between those of the exclusive holds before and after. Leases are renewed as long as this event
    loop runs, and a lock is lost early when its lease cannot be.
    """

    def __init__(
        self, access: Access, *, deadlock_detection: bool = True, witness: bool = True
    ) -> None:
        """Prepare; `access` gets us in when the engine is opened.

        As a `witness`, and one that can be seen, this program says by which processes it is known.
        """
        self._is_seen = witness
        self._children: Sequence[int] | None = ()
        self.waits = Waits(
            system.secret(16).hex(),
            self._blockers,
            clock=self._age,
            on_block=self._plan_search,
            detects=deadlock_detection,
        )
        self.groups: dict[float | None, ClusterGroup] = {}  # by lease; None: that of the cluster
        self._desks: dict[ClusterGroup, ValueDesk] = {}
        self.access = access
        self._queries = Queries()
        self.search = DeadlockSearch(self.waits, self, self._held)
        self._tasks = Tasks()
        self._failure: CoterieError | None = None

    @property
    def group(self) -> ClusterGroup:
        """The claims of this process that have the lease of the cluster; there is one while open."""
        return self.groups[None]

    async def open(self) -> None:
        """Get in; raises `Unavailable` if no node can be reached to learn the configuration from."""
        self.search = DeadlockSearch(self.waits, self, self._held)
        self._failure = None
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
        self._tasks.cancel()
        for group in self.groups.values():
            group.close()
        self.groups.clear()
        self._desks.clear()
        await self.access.close()

    def place(
        self, name: str, *, owner: Owner, shared: bool, lease: float | None, wait: bool
    ) -> LeasedClaim:
        """Ask for a lock, with a lease of this many seconds: that of the cluster at most."""
        group = self.groups.get(lease) or self._group(name, lease)
        if self._failure is not None:
            raise type(self._failure)(f"lock {name!r}: {self._failure}")
        claim = group.place(name, owner, shared=shared, wait=wait)
        if not wait and claim.token is None and not claim.granted.done():
            patience = group.supply.membership.settings.hedge
            self._tasks.run(try_once(claim, group, self._survey, patience))
        return claim

    def await_children(self) -> None:
        """Let no end of this process count as the end of the program: it is about to have children."""
        self._children = None

    def live_with(self, children: Sequence[int]) -> None:
        """Name the children that belong to this program, which has awaited them."""
        self._children = children
        for group in self.groups.values():
            if self._is_seen:
                group.supply.live(system.life(children))

    def fail(self, error: CoterieError) -> None:
        """Grant nothing any more: what this program goes by is wrong, and waiting would not help."""
        self._failure = error
        for group in self.groups.values():
            for claim in group.waiting():
                claim.fail(type(error)(f"lock {claim.lock!r}: {error}"))

    # Leases

    def _group(self, lock: str, lease: float | None) -> ClusterGroup:
        """Find the group that has that lease, or join the cluster once more for it.

        Its voters are called for themselves; requests wait for them, and begin above all that we
        have seen.
        """
        membership = self.group.supply.membership
        longest = membership.settings.lease
        if lease is None or lease == longest:
            return self.group
        if not LEASE_SECONDS_MIN <= lease < longest:
            formed = membership.decided is not None  # from then on the file does not count
            how = (
                "with coterie cluster set lease=" if formed else "in the configuration of all nodes"
            )
            raise UsageError(
                f"lock {lock!r}: lease must be from {LEASE_SECONDS_MIN:g} s to {longest:g} s, the lease"
                f" of cluster {membership.cluster!r}, got {lease:g} s; for a longer one raise `lease`"
                f" {how}"
            )
        group = self.groups[lease] = self._enter(membership, lease)
        group.supply.participant.sessions.merge(self._age())
        return group

    def _enter(self, membership: Membership, lease: float | None = None) -> ClusterGroup:
        return LeaseGroup(partial(self._make_supply, membership, lease))

    def _make_supply(
        self, membership: Membership, lease: float | None, group: ClusterGroup
    ) -> ParticipantHost:
        upcalls = Upcalls(
            partial(self._tell, group),
            partial(self._report, group),
            self._queries.learn,
            partial(participant_metrics, group, self.waits),
            self._follow,
        )
        host = self.access.enter(membership, upcalls, lease)
        if self._is_seen:
            host.live(system.life(self._children))
        return host

    def _follow(self, membership: Membership) -> bool:
        """Go over to another installation, if no participant has anything of the one of now."""
        supplies = [group.supply for group in self.groups.values()]
        if any(supply.is_bound for supply in supplies):
            return False
        for lease, group in self.groups.items():
            group.change_supply(partial(self._make_supply, membership, lease))
        for supply in supplies:
            self._tasks.run(supply.stop_links())
        return True

    # Deadlocks

    def _blockers(self, wanted: Wanted) -> list[LeasedClaim]:
        return [claim for group in self.groups.values() for claim in group.blockers(wanted)]

    def _held(self) -> list[LeasedClaim]:
        return [claim for group in self.groups.values() for claim in group.held()]

    def _age(self) -> int:
        """Read the clock that ages are readings of: participants agree on it roughly."""
        return self.group.supply.age()

    def _plan_search(self, owner: Owner) -> None:
        self.search.plan(owner)

    def _report(self, group: ClusterGroup, asked: AskOwner) -> OwnerReport:
        return blockers.answer(group, self.waits, self.search, asked)

    @property
    def round_trip(self) -> float:
        """How many seconds an answer of other processes takes."""
        return self._queries.round_trips.latest

    async def holds(self, locks: Sequence[Wanted]) -> dict[Wanted, list[Hold]]:
        """Find the tasks of other processes that hold these locks."""
        return await self._queries.holds(self.group.supply, locks)

    # Values

    async def read_value(self, name: str, claim: LeasedClaim | None = None) -> Value | None:
        """Return the value of a lock; with the claim of its holder no earlier hold writes it any more."""
        if claim is None or claim.shared:
            return value_of(await self._look(name, NOTHING, shares=claim is not None))
        await check_values(self.group.supply)
        return value_of(await self._desk_of(claim).read(claim))

    async def write_value(
        self, claim: LeasedClaim, sequence: int, data: bytes | None
    ) -> Value | None:
        """Write the value as the holder, or delete it, and return it when a quorum has it on disk."""
        await check_values(self.group.supply)
        desk = self._desk_of(claim)
        return value_of(await desk.write(claim, sequence, data, self.waits.process))

    async def watch_value(
        self, name: str, check: Callable[[], None]
    ) -> AsyncGenerator[Value | None, None]:
        """Follow the value of a lock; a change is noticed within a fifth of a second."""
        known = NOTHING

        async def read() -> Value | None:
            nonlocal known
            known = await self._look(name, known)
            return value_of(known)

        async for value in follow_value(read, check):
            yield value

    async def all_values(self) -> dict[str, Value]:
        """Return all values by their names."""
        await check_values(self.group.supply)
        found: dict[str, Value] = {}
        for name in await self.group.supply.names_of_values():
            value = await self.read_value(name)
            if value is not None:
                found[name] = value
        return found

    async def _look(self, name: str, known: StoredValue, *, shares: bool = False) -> StoredValue:
        host = self.group.supply
        await check_values(host)
        # Who has the lock in shared mode would wait for itself, and keep others from sharing.
        take_turn = partial(self._read_in_turn, name, waits=not shares)
        return await FreeReader(self._desk(self.group), host, name, known, take_turn).read()

    async def _read_in_turn(self, name: str, *, waits: bool) -> StoredValue | None:
        """Take the lock for a moment, to read as its holder; None if that came to nothing."""
        claim = self.place(name, owner=_Settler(), shared=False, lease=None, wait=waits)
        try:
            if await claim.granted is not None:
                return await self._desk_of(claim).read(claim)
        except LockLost:
            pass  # the next one settles it
        finally:
            claim.release()
        return None

    def _desk_of(self, claim: LeasedClaim) -> ValueDesk:
        return self._desk(claim.group)

    def _desk(self, group: ClusterGroup) -> ValueDesk:
        if group not in self._desks:
            self._desks[group] = ValueDesk(group)
        return self._desks[group]

    def _tell(self, group: ClusterGroup, event: Event) -> None:
        if not self._desk(group).tell(event):
            _tell(group, event)

    # Questions

    def obstacle(self, name: str) -> CoterieError | None:
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

    async def _survey(self, lock: str) -> OwnerQuery:
        if not self.group.supply.reaches_a_quorum():
            raise self.group.supply.unavailable(lock)
        return await self._queries.survey(self.group.supply, lock)


class _Settler:
    """Owns the lock for the moment in which a value is decided."""


def _tell(group: ClusterGroup, event: Event) -> None:
    """Tell a group what has become of a request or hold."""
    match event:
        case Acquired(lock, token):
            group.acquired(lock, token)
        case Lost(lock, token, revoked):
            group.lose(lock, token, BROKEN if revoked else LAPSED)
        case Unwanted(lock):
            group.unwanted(lock)
        case _:
            raise AssertionError(f"a participant does not tell {event}")
