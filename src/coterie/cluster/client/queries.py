"""Questions of a program to the voters of its cluster, and through them to other programs."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from typing import TYPE_CHECKING

from coterie.cluster.admin.lock_survey import Survey
from coterie.cluster.runtime import clock
from coterie.cluster.voter.frames import FindOwners, Owners
from coterie.deadlock.service.lock_waits import Wanted, is_all, merged

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from coterie.cluster.client.participant import ParticipantHost
    from coterie.cluster.voter.frames import OwnerReport
    from coterie.deadlock.service.lock_waits import Hold
    from coterie.process import ProcessId

SEARCH_SECONDS_MIN = 0.2  # to wait for an answer in a search
SEARCH_ROUND_TRIPS = 20


class Queries:
    """The questions of a program that wait for answers; a late answer is not counted."""

    def __init__(self) -> None:
        """Begin without questions."""
        self.round_trip = 0.0  # of the latest question to which all answers came
        self._surveys: dict[int, Survey] = {}
        self._numbers = itertools.count(1)

    def learn(self, voter: ProcessId, answer: Owners | OwnerReport) -> None:
        """Take an answer; one that comes too late is of no use."""
        survey = self._surveys.get(answer.question)
        if survey is None:
            return
        if isinstance(answer, Owners):
            survey.name(voter, answer)
        else:
            survey.hear(answer)

    async def survey(self, host: ParticipantHost, lock: str) -> Survey:
        """Ask all voters which tasks hold a lock and which wait for it."""
        asked = {voter: [Wanted(lock)] for voter in host.reachable()}
        return await self._ask(host, asked, host.membership.settings.hedge, search=False)

    async def holds(
        self, host: ParticipantHost, locks: Sequence[Wanted]
    ) -> dict[Wanted, list[Hold]]:
        """Find the tasks of other programs that hold these locks; for a search of deadlocks.

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
                survey = await self._ask(host, asked, self._patience(host), search=True)
                found = {lock: merged(holds, survey.holds(lock)) for lock, holds in found.items()}
        return found

    def _patience(self, host: ParticipantHost) -> float:
        settings = host.membership.settings
        return min(settings.hedge, max(SEARCH_SECONDS_MIN, SEARCH_ROUND_TRIPS * self.round_trip))

    async def _ask(
        self,
        host: ParticipantHost,
        locks: Mapping[ProcessId, Sequence[Wanted]],
        limit: float,
        *,
        search: bool,
    ) -> Survey:
        number = next(self._numbers)
        survey = self._surveys[number] = Survey(locks)
        began = clock.now()
        try:
            for voter, asked in locks.items():
                host.ask(voter, FindOwners(number, tuple(asked), search))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(limit):
                    await survey.complete.wait()
                    self.round_trip = clock.now() - began
        finally:
            del self._surveys[number]
        return survey


def _places(host: ParticipantHost, wanted: Wanted) -> list[ProcessId]:
    """List the voters that may know the holder, in any order, so that none has all the work.

    Two quorums meet, so a voter that has our request knows it; and it is none whose vote is ours
    alone.
    """
    voters = host.reachable()
    random.shuffle(voters)
    bid = host.participant.bids.get(wanted.lock)
    if wanted.shared or bid is None or bid.shared:
        return voters
    asked = host.participant.sessions.asked(wanted.lock)
    return [voter for voter in voters if voter in asked and voter not in bid.votes]
