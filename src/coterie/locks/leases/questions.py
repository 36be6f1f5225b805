"""Questions of a program about locks that wait for answers, and how long these take."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from typing import TYPE_CHECKING

from coterie import system
from coterie.locks.leases.frames import Owners
from coterie.locks.leases.owner_query import OwnerQuery

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from coterie.locks.leases.frames import OwnerReport

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


class Questions:
    """The questions of a program that wait for answers.

    A late answer is not counted, but how late it came is: the next question waits longer. If only
    answers in time were measured, a program far away would be asked in vain forever.
    """

    def __init__(self) -> None:
        """Begin without questions."""
        self.round_trips = RoundTrips()
        self._queries: dict[int, OwnerQuery] = {}
        self._asked: dict[int, float] = {}  # when, by question; the oldest first
        self._numbers = itertools.count(1)

    def learn(self, source: int, answer: Owners | OwnerReport) -> None:
        """Take an answer; of one that comes too late only the round trip is of use."""
        asked = self._asked.get(answer.question)
        if asked is not None:
            now = system.now()
            self.round_trips.note(now - asked, now)
        query = self._queries.get(answer.question)
        if query is None:
            return
        if isinstance(answer, Owners):
            query.name(source, answer)
        else:
            query.hear(answer)

    def patience(self, lease: float) -> float:
        """Work out how long to wait: a lease at most, since after that a silent owner has lost its locks."""
        by_distance = SEARCH_ROUND_TRIPS * self.round_trips.longest(system.now())
        return min(lease, max(SEARCH_SECONDS_MIN, by_distance))

    async def ask(
        self, sources: Iterable[int], send: Callable[[int], None], limit: float, lease: float
    ) -> OwnerQuery:
        """Ask by `send`, which is given the number of the question; return the answers in time."""
        number = next(self._numbers)
        query = self._queries[number] = OwnerQuery(sources)
        self._note_question(number, lease)
        try:
            send(number)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(limit):
                    await query.complete.wait()
                    del self._asked[number]
        finally:
            del self._queries[number]
        return query

    def _note_question(self, number: int, lease: float) -> None:
        """Remember when it was asked: until all answers are there, or for about a lease."""
        now = system.now()
        while self._asked and now - next(iter(self._asked.values())) > lease:
            del self._asked[next(iter(self._asked))]
        self._asked[number] = now
