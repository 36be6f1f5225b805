"""Questions of a program to the voters of its cluster, and through them to other programs."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from typing import TYPE_CHECKING

from coterie import system
from coterie.cluster.admin.lock_survey import Survey
from coterie.cluster.runtime import clock
from coterie.cluster.voter.frames import LOCKS_ASKED_MAX, FindOwners, Owners
from coterie.deadlock.service.lock_waits import Wanted, is_all, merged

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from coterie.cluster.client.participant import ParticipantHost
    from coterie.cluster.voter.frames import OwnerReport
    from coterie.deadlock.service.lock_waits import Hold
    from coterie.process import ProcessId

SEARCH_SECONDS_MIN = 0.2  # to wait for an answer in a search
SEARCH_ROUND_TRIPS = 4  # of the longest that is remembered
HALF_LIFE_SECONDS = 60.0  # of that memory


class RoundTrips:
    """How long answers take: the latest, and the longest, which fades away.

    The answer of a near program says nothing about a distant one, so one short round trip must not
    make a search forget a long one. Searches are a few seconds apart, and memory fades in minutes.
    """

    def __init__(self) -> None:
        """Begin without experience."""
        self.latest = 0.0
        self._longest = 0.0
        self._noted_at = 0.0

    def note(self, seconds: float, now: float) -> None:
        """Take note of one answer."""
        self._longest = max(seconds, self.longest(now))
        self._noted_at = now
        self.latest = seconds

    def longest(self, now: float) -> float:
        """Return the longest so far, each halved once a minute since it was measured."""
        return float(self._longest * 0.5 ** ((now - self._noted_at) / HALF_LIFE_SECONDS))


class Queries:
    """The questions of a program that wait for answers.

    A late answer is not counted, but how late it came is: the next question waits longer. If only
    answers in time were measured, a program far away would be asked in vain forever.
    """

    def __init__(self) -> None:
        """Begin without questions."""
        self.round_trips = RoundTrips()
        self._surveys: dict[int, Survey] = {}
        self._asked: dict[int, float] = {}  # when, by question; the oldest first
        self._numbers = itertools.count(1)

    def learn(self, voter: ProcessId, answer: Owners | OwnerReport) -> None:
        """Take an answer; of one that comes too late only the round trip is of use."""
        asked = self._asked.get(answer.question)
        if asked is not None:
            now = clock.now()
            self.round_trips.note(now - asked, now)
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
        limit = max(host.membership.settings.hedge, self._patience(host))
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
                survey = await self._ask(host, asked, self._patience(host), search=True)
                found = {lock: merged(holds, survey.holds(lock)) for lock, holds in found.items()}
        return found

    def _patience(self, host: ParticipantHost) -> float:
        """Work out how long to wait: a lease at most, since after that a silent owner has lost its locks."""
        by_distance = SEARCH_ROUND_TRIPS * self.round_trips.longest(clock.now())
        return min(host.membership.settings.lease, max(SEARCH_SECONDS_MIN, by_distance))

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
        self._note_question(number, host.membership.settings.lease)
        try:
            for voter, asked in locks.items():
                host.ask(voter, FindOwners(number, tuple(asked), search))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(limit):
                    await survey.complete.wait()
                    del self._asked[number]
        finally:
            del self._surveys[number]
        return survey

    def _note_question(self, number: int, lease: float) -> None:
        """Remember when it was asked: until all answers are there, or for about a lease."""
        now = clock.now()
        while self._asked and now - next(iter(self._asked.values())) > lease:
            del self._asked[next(iter(self._asked))]
        self._asked[number] = now


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
