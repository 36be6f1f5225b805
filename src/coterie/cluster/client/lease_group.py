"""One participant of this process, with the claims of tasks that it speaks for."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from coterie.cluster.client.blockers import ahead
from coterie.cluster.client.claims import ClusterClaim, Queues
from coterie.cluster.runtime import clock
from coterie.cluster.wire.frames import AskOwner, OwnerReport, Owners, Standing
from coterie.errors import NoQuorum
from coterie.mutex.quorum.leased.participant import Acquired, Lost, Unwanted

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    from coterie.cluster.client.participant import Attending
    from coterie.deadlock.service.local_waits import Waits
    from coterie.deadlock.service.lock_waits import Wanted
    from coterie.deadlock.service.search import Deadlocks
    from coterie.locks.session import Owner
    from coterie.process import Event, ProcessId

    class Program(Protocol):
        """What stands above the participants of a process."""

        waits: Waits
        deadlocks: Deadlocks | None

        def learn(self, voter: ProcessId, answer: Owners | OwnerReport) -> None:
            """Take the answer to a question of ours."""


CHECKS_PER_HEDGE = 4


class Participation:
    """A participant, the lines of its claims, and what it says of them when others ask.

    A process has one for each lease that it counts: one session with a voter has one lease.
    """

    def __init__(self, program: Program) -> None:
        """Prepare; `attending` is set before the first claim is placed."""
        self.queues = Queues()
        self._program = program
        self._cut_off_since: float | None = None
        self._check: asyncio.TimerHandle | None = None

    @property
    def attending(self) -> Attending:
        """The participant among its links."""
        return self.queues.attending

    @property
    def waits(self) -> Waits:
        """Who of this process waits, whatever the lease."""
        return self._program.waits

    def place(self, lock: str, owner: Owner, *, shared: bool, wait: bool) -> ClusterClaim:
        """Let a claim join the queue of its lock."""
        claim = ClusterClaim(self.queues, lock, owner, self.obstacle, shared=shared, wait=wait)
        self.queues.place(claim)
        if claim.token is None and not claim.granted.done():
            self._arm_check()
        return claim

    def is_waiting(self, claim: ClusterClaim) -> bool:
        """Tell whether a claim stands in line: it has not been granted, failed or withdrawn."""
        queue = self.queues.locks.get(claim.lock)
        return queue is not None and claim in queue.waiting

    def close(self) -> None:
        """End all claims, and say goodbye."""
        if self._check is not None:
            self._check.cancel()
        self.queues.close()
        self.attending.stop()

    # What the participant tells and asks

    def hear(self, event: Event) -> None:
        """Take note of a lock that was acquired or lost."""
        match event:
            case Acquired(lock, token):
                self.queues.acquired(lock, token)
            case Lost(lock, token):
                self.queues.lost(lock, token)
            case Unwanted(lock):
                self.queues.unwanted(lock)
            case _:
                raise AssertionError(f"a participant does not tell {event}")

    def learn(self, voter: ProcessId, answer: Owners | OwnerReport) -> None:
        """Take the answer to a question of ours."""
        self._program.learn(voter, answer)

    def standings(self, asked: AskOwner) -> OwnerReport:
        """Say how we stand to locks; whoever is found by a search looks for itself, too."""
        deadlocks = self._program.deadlocks
        if asked.search and deadlocks is not None:
            for wanted in asked.locks:
                for claim in self.queues.in_force(wanted.lock):
                    deadlocks.nudge(claim.owner)
        tell = self._stands_in_search if asked.search else self._stands
        standings = [tell(wanted) for wanted in asked.locks]
        identity = self.attending.identity.name
        return OwnerReport(asked.route, asked.question, identity, tuple(standings))

    def _stands(self, wanted: Wanted) -> Standing:
        """Tell of all tasks that hold a lock or wait for it."""
        queue = self.queues.locks.get(wanted.lock)
        waiting = list(queue.waiting) if queue else []
        modes = tuple(claim.shared for claim in waiting)
        return self._standing(wanted, self.queues.in_force(wanted.lock), waiting, modes)

    def _stands_in_search(self, wanted: Wanted) -> Standing:
        """Tell of those only who are in the way of what is wanted."""
        return self._standing(wanted, self.queues.in_force(wanted.lock), ahead(self.queues, wanted))

    def _standing(
        self,
        wanted: Wanted,
        holders: Sequence[ClusterClaim],
        waiting: Sequence[ClusterClaim],
        modes: tuple[bool, ...] = (),
    ) -> Standing:
        owners = tuple(self.waits.describe(claim.owner) for claim in waiting)
        if holders:
            first, inside = holders[0], tuple(self.waits.describe(c.owner) for c in holders)
            token, shared = first.token or 0, first.shared
            return Standing(wanted, "held", token, first.since, modes, inside, owners, shared)
        if waiting:
            first = waiting[0]
            return Standing(wanted, "waiting", 0, first.since, modes, (), owners, first.shared)
        kept = wanted.lock in self.attending.participant.cached
        return Standing(wanted, "kept" if kept else "nothing", 0, 0.0)

    # No quorum

    def reaches_a_quorum(self) -> bool:
        """Tell whether enough voters are connected and answer."""
        quorums = self.attending.membership.settings.quorums
        return quorums.contains_quorum(self.attending.reachable())

    def no_quorum(self, lock: str) -> NoQuorum:
        """Say for each voter why it is out of reach."""
        troubles = self.attending.troubles()
        return NoQuorum(
            f"lock {lock!r}: no quorum of cluster {self.attending.membership.cluster!r} can be"
            f" reached ({'; '.join(troubles) or 'nodes do not answer'})"
        )

    def obstacle(self, lock: str) -> NoQuorum | None:
        """Tell what stands in the way: nothing as long as a quorum answers or may turn out to."""
        perhaps = [*self.attending.reachable(), *self.attending.untried()]
        quorums = self.attending.membership.settings.quorums
        return None if quorums.contains_quorum(perhaps) else self.no_quorum(lock)

    def _check_quorum(self) -> None:
        """See to it that nobody waits for ever where no quorum is in reach.

        A claim fails when there has been none for a whole lease: by then a voter that only
        restarted would be back.
        """
        self._check = None
        waiting = self.queues.waiting()
        if not waiting:
            self._cut_off_since = None
            return
        if self.reaches_a_quorum():
            self._cut_off_since = None
        elif self._cut_off_since is None:
            self._cut_off_since = clock.now()
        elif clock.now() - self._cut_off_since >= self.attending.membership.settings.lease:
            for claim in waiting:
                self.queues.fail(claim, self.no_quorum(claim.lock))
        self._arm_check()

    def _arm_check(self) -> None:
        if self._check is None:
            period = self.attending.membership.settings.hedge / CHECKS_PER_HEDGE
            self._check = asyncio.get_running_loop().call_later(period, self._check_quorum)
