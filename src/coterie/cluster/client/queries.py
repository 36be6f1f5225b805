"""Questions of a program to the voters of its cluster, and through them to other programs."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from typing import TYPE_CHECKING

from coterie.cluster.admin.lock_survey import Survey
from coterie.cluster.runtime import clock
from coterie.cluster.wire.frames import FindOwners, Owners
from coterie.deadlock.service.lock_waits import Wanted, is_all, merged

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from coterie.cluster.client.participant import Attending
    from coterie.cluster.wire.frames import OwnerReport
    from coterie.deadlock.service.lock_waits import Hold
    from coterie.process import ProcessId

SEARCH_SECONDS_MIN = 0.2  # to wait for an answer in a search
SEARCH_ROUND_TRIPS = 20


class Questions:
    """What a program asks; who does not answer in time is not counted."""

    def __init__(self, attending: Attending) -> None:
        """Ask on behalf of this participant."""
        self.round_trip = 0.0  # of the latest question that everybody has answered
        self._attending = attending
        self._surveys: dict[int, Survey] = {}
        self._numbers = itertools.count(1)

    def learn(self, voter: ProcessId, answer: Owners | OwnerReport) -> None:
        """Take the answer to a question of ours; one that comes too late is of no use."""
        survey = self._surveys.get(answer.question)
        if survey is None:
            return
        if isinstance(answer, Owners):
            survey.name(voter, answer)
        else:
            survey.hear(answer)

    async def survey(self, lock: str) -> Survey:
        """Ask all voters who holds a lock and who waits for it."""
        voters = self._attending.reachable()
        limit = self._attending.membership.settings.hedge
        return await self._ask({voter: [Wanted(lock)] for voter in voters}, limit, search=False)

    async def holds(self, locks: Sequence[Wanted]) -> dict[Wanted, list[Hold]]:
        """Find the tasks of other programs that hold these locks; for a search of deadlocks.

        One voter is asked for each lock. Where its vote is not a holder's, the vote of another is:
        then all others are asked, among them one of every quorum that a holder may have. So they
        are where the lock is shared, as no voter need know all who share it. In the way of a request
        to share may be somebody at each voter, and everybody has to find the same: all are asked.
        """
        places = {lock: self._places(lock) for lock in locks}
        found: dict[Wanted, list[Hold]] = {lock: [] for lock in locks}
        for first in (True, False):
            asked: dict[ProcessId, list[Wanted]] = {}
            for lock in locks:
                count = len(places[lock]) if lock.shared else 1
                voters = places[lock][:count] if first else places[lock][count:]
                for voter in () if is_all(found[lock]) else voters:
                    asked.setdefault(voter, []).append(lock)
            if asked:
                survey = await self._ask(asked, self._patience(), search=True)
                found = {lock: merged(holds, survey.holds(lock)) for lock, holds in found.items()}
        return found

    def _places(self, wanted: Wanted) -> list[ProcessId]:
        """List the voters that may know the holder, in any order, so that none has all the work.

        Two quorums meet, so one with whom our request lies does; and it is none whose vote is ours
        alone.
        """
        participant = self._attending.participant
        voters = self._attending.reachable()
        random.shuffle(voters)
        bid = participant.bids.get(wanted.lock)
        if wanted.shared or bid is None or bid.shared:
            return voters
        asked = participant.sessions.asked(wanted.lock)
        return [voter for voter in voters if voter in asked and voter not in bid.votes]

    def _patience(self) -> float:
        settings = self._attending.membership.settings
        return min(settings.hedge, max(SEARCH_SECONDS_MIN, SEARCH_ROUND_TRIPS * self.round_trip))

    async def _ask(
        self, locks: Mapping[ProcessId, Sequence[Wanted]], limit: float, *, search: bool
    ) -> Survey:
        number = next(self._numbers)
        survey = self._surveys[number] = Survey(locks)
        began = clock.now()
        try:
            for voter, asked in locks.items():
                self._attending.ask(voter, FindOwners(number, tuple(asked), search))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(limit):
                    await survey.complete.wait()
                    self.round_trip = clock.now() - began
        finally:
            del self._surveys[number]
        return survey
