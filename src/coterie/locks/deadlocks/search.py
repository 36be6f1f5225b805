"""The search for waits in a circle through other processes.

An owner that stays blocked searches after a short pause, and again after pauses that double. An owner
that is reached by another's search while it waits itself searches soon after: when the last wait closes
a circle, its search wakes all its members, and so the victim, however long that has waited.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol

from coterie import system
from coterie.locks.deadlocks.reports import Hold, Wanted, is_all, merged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from coterie.locks.deadlocks.collection import Suspicion
    from coterie.locks.deadlocks.waits import Waits
    from coterie.locks.engine import Claim
    from coterie.locks.lock import Owner

FIRST_PAUSE_SECONDS = 0.05  # or more, where round trips are long
PAUSE_ROUND_TRIPS = 4
FIRST_PAUSE_SECONDS_MAX = 0.5
PAUSE_SECONDS_MAX = 5.0
TAKEN_IN_MAX = 10_000  # holds and parts of waits, in one search: others may name any number
SPREAD = 0.25  # of each pause, at random, so that not all ask at the same moment

logger = logging.getLogger("coterie.deadlocks")


class Elsewhere(Protocol):
    """What other processes can be asked."""

    @property
    def round_trip(self) -> float:
        """How many seconds an answer takes."""

    async def holds(self, locks: Sequence[Wanted]) -> Mapping[Wanted, Sequence[Hold]]:
        """Find the owners of other processes that hold these locks; unknown ones are left out."""


class SearchTime:
    """When an owner searches next: at any time from `due` to `latest`."""

    __slots__ = ("due", "latest", "pause")

    def __init__(self, now: float, pause: float) -> None:
        """Search after a pause."""
        self.pause = pause
        self.due = now + (1 - SPREAD) * pause
        self.latest = now + (1 + SPREAD) * pause

    def advance(self, time: SearchTime) -> None:
        """Search no later than another would."""
        self.due = min(self.due, time.due)
        self.latest = min(self.latest, time.latest)


class DeadlockSearch:
    """Searches on behalf of the owners of one process."""

    def __init__(
        self, waits: Waits, elsewhere: Elsewhere, held: Callable[[], Iterable[Claim]]
    ) -> None:
        """Prepare; `held` returns all claims of this process that hold a lock."""
        self._waits = waits
        self._elsewhere = elsewhere
        self._held = held
        self._times: dict[Owner, SearchTime] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._search: asyncio.Task[None] | None = None
        self._stopped = False

    def stop(self) -> None:
        """Search no more."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        if self._search is not None:
            self._search.cancel()

    def plan(self, owner: Owner) -> None:
        """Search for an owner that is blocked, after a pause; most waits are over before."""
        if self._stopped:
            return
        now = asyncio.get_running_loop().time()
        time = self._times[owner] = SearchTime(now, self._first_pause())
        self._arm(time)

    def nudge(self, owner: Owner) -> None:
        """Search soon for an owner that another search has come across; it may close a circle."""
        time = self._times.get(owner)
        if time is not None:
            time.advance(SearchTime(asyncio.get_running_loop().time(), self._first_pause()))
            self._arm(time)

    def _first_pause(self) -> float:
        by_distance = PAUSE_ROUND_TRIPS * self._elsewhere.round_trip
        return max(FIRST_PAUSE_SECONDS, min(by_distance, FIRST_PAUSE_SECONDS_MAX))

    def _arm(self, time: SearchTime) -> None:
        """Ring in time for a search; while one runs, its end does this.

        The moment is drawn here and not for each owner, since most waits are over long before.
        """
        if self._search is not None:
            return
        if self._timer is not None:
            if self._timer.when() <= time.latest:
                return
            self._timer.cancel()
        rings = system.random().uniform(time.due, time.latest)
        self._timer = asyncio.get_running_loop().call_at(rings, self._begin)

    def _arm_for_next(self) -> None:
        if self._times:
            self._arm(min(self._times.values(), key=lambda time: time.latest))

    def _begin(self) -> None:
        self._timer = None
        # An owner that holds nothing blocks no other, so it is in no circle: a crowd does not ask.
        holding = {claim.owner for claim in self._held()}
        self._times = {
            owner: time
            for owner, time in self._times.items()
            if owner in holding and self._waits.is_blocked(owner)
        }
        loop = asyncio.get_running_loop()
        now = loop.time()
        due = [owner for owner, time in self._times.items() if time.due <= now]
        if not due:
            self._arm_for_next()
            return
        # Searches that are due soon join in: many that wait for one lock ask one question.
        due = [owner for owner, time in self._times.items() if time.due - now <= time.pause / 2]
        for owner in due:
            pause = min(2 * self._times[owner].pause, PAUSE_SECONDS_MAX)
            self._times[owner] = SearchTime(now, pause)
        self._search = loop.create_task(self._look(due))
        self._search.add_done_callback(self._finish)

    def _finish(self, search: asyncio.Task[None]) -> None:
        self._search = None
        if search.cancelled():
            return
        try:
            search.result()
        finally:
            self._arm_for_next()

    async def _look(self, owners: Sequence[Owner]) -> None:
        """Collect once; if that shows a deadlock in which one of ours gives way, collect again."""
        from coterie.locks.deadlocks.collection import Collection  # noqa: PLC0415 - seldom needed

        self._waits.searches += 1
        collection = Collection(map(self._waits.describe, owners), TAKEN_IN_MAX)
        while wanted := collection.wanted():
            for lock, holds in (await self._ask(wanted)).items():
                collection.hear(lock, holds)
        for suspicion in collection.suspicions():
            if self._is_ours(suspicion):
                again = await self._ask(suspicion.locks())
                if suspicion.stands(again) and (error := self._waits.give_way(suspicion)):
                    logger.info("%s", error, extra={"event": "deadlock-broken"})

    def _is_ours(self, suspicion: Suspicion) -> bool:
        victim = suspicion.victim
        return victim is not None and victim.id.participant == self._waits.participant

    async def _ask(self, locks: Sequence[Wanted]) -> dict[Wanted, Sequence[Hold]]:
        """Ask about locks: ourselves first, and others about those that no owner here holds alone."""
        answers: dict[Wanted, Sequence[Hold]] = {lock: self._waits.holds(lock) for lock in locks}
        elsewhere = [lock for lock, holds in answers.items() if not is_all(holds)]
        if elsewhere:
            for lock, holds in (await self._elsewhere.holds(elsewhere)).items():
                answers[lock] = merged(answers[lock], holds)
        return answers
