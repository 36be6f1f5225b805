"""The search for deadlocks among the owners of several processes, while some of ours are blocked.

An owner that stays blocked searches after a short pause, and again after pauses that double. An owner
that is reached by another's search while it waits itself searches soon after: when the last wait
closes a circle, its search wakes all its members, and so the victim, however long that has waited.
"""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING, Protocol

from coterie.deadlock.service.lock_collection import Collection
from coterie.deadlock.service.lock_waits import is_all, merged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from coterie.deadlock.service.local_waits import Waits
    from coterie.deadlock.service.lock_collection import Suspicion
    from coterie.deadlock.service.lock_waits import Hold, Wanted
    from coterie.locks.engine import Claim
    from coterie.locks.session import Owner

FIRST_PAUSE_SECONDS = 0.05  # or more, where round trips are long
PAUSE_ROUND_TRIPS = 4
FIRST_PAUSE_SECONDS_MAX = 0.5
PAUSE_SECONDS_MAX = 5.0
SPREAD = 0.25  # of each pause, at random, so that not all ask at the same moment

logger = logging.getLogger("coterie.deadlocks")


class Elsewhere(Protocol):
    """What other processes can be asked."""

    @property
    def round_trip(self) -> float:
        """How many seconds an answer takes."""

    async def holds(self, locks: Sequence[Wanted]) -> Mapping[Wanted, Sequence[Hold]]:
        """Find the owners of other processes that hold these locks; unknown ones are left out."""


class Plan:
    """When an owner searches next."""

    __slots__ = ("due", "pause")

    def __init__(self, now: float, pause: float) -> None:
        """Search after a first pause."""
        self.pause = pause
        self.due = now + _spread(pause)


class DeadlockSearch:
    """Searches on behalf of the owners of one process."""

    def __init__(
        self, waits: Waits, elsewhere: Elsewhere, held: Callable[[], Iterable[Claim]]
    ) -> None:
        """Prepare; `held` returns all claims of this process that hold a lock."""
        self._waits = waits
        self._elsewhere = elsewhere
        self._held = held
        self._plans: dict[Owner, Plan] = {}
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
        plan = self._plans[owner] = Plan(now, self._first_pause())
        self._arm(plan.due)

    def nudge(self, owner: Owner) -> None:
        """Search soon for an owner that another search has come across; it may close a circle."""
        plan = self._plans.get(owner)
        if plan is not None:
            soon = asyncio.get_running_loop().time() + _spread(self._first_pause())
            if soon < plan.due:
                plan.due = soon
                self._arm(soon)

    def _first_pause(self) -> float:
        by_distance = PAUSE_ROUND_TRIPS * self._elsewhere.round_trip
        return max(FIRST_PAUSE_SECONDS, min(by_distance, FIRST_PAUSE_SECONDS_MAX))

    def _arm(self, due: float) -> None:
        """Ring when a search is due; while one runs, its end does this."""
        if self._search is not None:
            return
        if self._timer is not None:
            if self._timer.when() <= due:
                return
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(due, self._begin)

    def _arm_for_next(self) -> None:
        if self._plans:
            self._arm(min(plan.due for plan in self._plans.values()))

    def _begin(self) -> None:
        self._timer = None
        # An owner that holds nothing blocks no other, so it is in no circle: a crowd does not ask.
        holding = {claim.owner for claim in self._held()}
        self._plans = {
            owner: plan
            for owner, plan in self._plans.items()
            if owner in holding and self._waits.is_blocked(owner)
        }
        loop = asyncio.get_running_loop()
        now = loop.time()
        due = [owner for owner, plan in self._plans.items() if plan.due <= now]
        if not due:
            self._arm_for_next()
            return
        # Searches that are due soon join in: many that wait for one lock ask one question.
        due = [owner for owner, plan in self._plans.items() if plan.due - now <= plan.pause / 2]
        for owner in due:
            plan = self._plans[owner]
            plan.pause = min(2 * plan.pause, PAUSE_SECONDS_MAX)
            plan.due = now + _spread(plan.pause)
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
        self._waits.searches += 1
        collection = Collection([self._waits.describe(owner) for owner in owners])
        while wanted := collection.wanted():
            for lock, holds in (await self._ask(wanted)).items():
                collection.hear(lock, holds)
        for suspicion in collection.suspicions():
            if self._is_ours(suspicion):
                again = await self._ask(suspicion.locks())
                if suspicion.stands(again) and (error := self._waits.give_way(suspicion)):
                    logger.info("%s", error)

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


def _spread(pause: float) -> float:
    return pause * random.uniform(1 - SPREAD, 1 + SPREAD)
