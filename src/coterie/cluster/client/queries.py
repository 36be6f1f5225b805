"""Questions of a program to the voters of its cluster, and through them to other programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie import system
from coterie.cluster.wire.voter_frames import FindOwners
from coterie.locks.deadlocks.reports import Wanted, is_all, merged
from coterie.locks.leases.frames import LOCKS_ASKED_MAX
from coterie.locks.leases.questions import Questions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from coterie.cluster.client.participant import ParticipantHost
    from coterie.locks.deadlocks.reports import Hold
    from coterie.locks.leases.owner_query import OwnerQuery
    from coterie.process import ProcessId


class Queries:
    """The questions of a program to voters that wait for answers."""

    def __init__(self) -> None:
        """Begin without questions."""
        self._questions = Questions()
        self.round_trips = self._questions.round_trips
        self.learn = self._questions.learn

    async def survey(self, host: ParticipantHost, lock: str) -> OwnerQuery:
        """Ask all voters which tasks hold a lock and which wait for it."""
        asked = {voter: [Wanted(lock)] for voter in host.reachable()}
        limit = max(host.membership.settings.hedge, self._questions.patience(host.lease))
        return await self._ask(host, asked, limit, search=False)

    async def holds(
        self, host: ParticipantHost, locks: Sequence[Wanted]
    ) -> dict[Wanted, list[Hold]]:
        """Find the tasks of other programs that hold these locks; for a search of deadlocks.

        Nodes take so many locks in a question, and further ones in the next.
        """
        found: dict[Wanted, list[Hold]] = {}
        for first in range(0, len(locks), LOCKS_ASKED_MAX):
            found |= await self._holds(host, locks[first : first + LOCKS_ASKED_MAX])
        return found

    async def _holds(
        self, host: ParticipantHost, locks: Sequence[Wanted]
    ) -> dict[Wanted, list[Hold]]:
        """Ask the voters.

        One voter is asked for each lock. Where its vote is not a holder's, the vote of another is:
        then all others are asked, among them one of every quorum that a holder may have. So they
        are where the lock is shared, since no voter need know all that share it. A request to share
        may be blocked by a claim at any voter, and all searches have to find the same: so all are
        asked.
        """
        places = {lock: _places(host, lock) for lock in locks}
        found: dict[Wanted, list[Hold]] = {lock: [] for lock in locks}
        for first in (True, False):
            asked: dict[ProcessId, list[Wanted]] = {}
            for lock in locks:
                count = len(places[lock]) if lock.shared else 1
                voters = places[lock][:count] if first else places[lock][count:]
                for voter in () if is_all(found[lock]) else voters:
                    asked.setdefault(voter, []).append(lock)
            if asked:
                survey = await self._ask(
                    host, asked, self._questions.patience(host.lease), search=True
                )
                found = {lock: merged(holds, survey.holds(lock)) for lock, holds in found.items()}
        return found

    async def _ask(
        self,
        host: ParticipantHost,
        locks: Mapping[ProcessId, Sequence[Wanted]],
        limit: float,
        *,
        search: bool,
    ) -> OwnerQuery:
        def send(number: int) -> None:
            for voter, asked in locks.items():
                host.ask(voter, FindOwners(number, tuple(asked), search))

        return await self._questions.ask(locks, send, limit, host.lease)


def _places(host: ParticipantHost, wanted: Wanted) -> list[ProcessId]:
    """List the voters that may know the holder, in any order, so that none has all the work.

    Two quorums meet, so a voter that has our request knows it; and it is none whose vote is ours
    alone.
    """
    voters = host.reachable()
    system.random().shuffle(voters)
    bid = host.participant.bids.get(wanted.lock)
    if wanted.shared or bid is None or bid.shared:
        return voters
    asked = host.participant.sessions.asked(wanted.lock)
    return [voter for voter in voters if voter in asked and voter not in bid.votes]
