"""Runs rounds of workloads against a store until the time or the number of transactions is up."""

from __future__ import annotations

import asyncio
import itertools
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from coterie import system
from coterie.errors import CoterieError, Unavailable
from coterie.lab.audit.client import Client, Meeting, Recorder
from coterie.lab.audit.target import Aborted
from coterie.lab.audit.workload import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from coterie.lab.audit.target import Session, Target
    from coterie.lab.audit.workload import Round, Script

SESSIONS_A_ROUND = 4  # as many as a round has transactions, at most
ATTEMPTS = 100  # to fill the keys of a round, beside other users of the store


class AuditPlan(NamedTuple):
    """What to run, and how much of it."""

    level: str
    workloads: Sequence[str]
    clients: int
    seconds: float
    transactions: int | None  # None: as many as the time allows
    seed: int


class Runner:
    """One audit of a store."""

    def __init__(self, target: Target, plan: AuditPlan, progress: Callable[[int], None]) -> None:
        """Prepare; `run` does it and calls `progress` with the number of transactions."""
        self.recorder = Recorder()
        self.rounds = dict.fromkeys(plan.workloads, 0)
        self._target = target
        self._plan = plan
        self._progress = progress
        self._numbers = itertools.count(1)
        self._end = 0.0
        self._is_open = False

    async def run(self) -> None:
        """Run the workloads in turn, and remove all that was made, whatever happens."""
        try:
            await self._target.open()
            self._is_open = True
            self._end = system.now() + self._plan.seconds
            lanes = max(1, self._plan.clients // SESSIONS_A_ROUND)
            lanes = min(lanes, self._target.rounds_at_a_time or lanes)
            try:
                async with asyncio.TaskGroup() as group:
                    for _ in range(lanes):
                        group.create_task(self._run_lane())
            except BaseExceptionGroup as failures:
                raise next(_leaves(failures)) from None
        finally:
            # Also where this task was cancelled: what the audit has made must not stay.
            await asyncio.shield(self._remove())

    async def _remove(self) -> None:
        try:
            await self._target.remove()
        except CoterieError as error:
            if self._is_open:
                raise Unavailable(
                    f"{error}; what the audit has made there may be left: names that begin with"
                    f" {self._target.prefix}"
                ) from None

    async def _run_lane(self) -> None:
        sessions: list[Session] = []
        try:
            while len(sessions) < SESSIONS_A_ROUND:
                sessions += [await self._target.session(self._plan.level)]
            while not self._is_over():
                await self._run_round(next(self._numbers), sessions)
        finally:
            for session in sessions:
                await session.close()

    def _is_over(self) -> bool:
        begun = len(self.recorder.workloads)
        self._progress(begun)
        enough = self._plan.transactions is not None and begun >= self._plan.transactions
        return enough or system.now() >= self._end

    async def _run_round(self, number: int, sessions: list[Session]) -> None:
        workload = self._plan.workloads[number % len(self._plan.workloads)]
        random = Random(f"{self._plan.seed}/{number}")  # the same rounds for the same seed
        made = WORKLOADS[workload](f"{number}/", random)
        if made.keys:
            await self._fill(workload, sessions, made, random)
        meeting = Meeting(len(made.scripts))
        # After an error none may go on: what it wrote would come after all was removed.
        async with asyncio.TaskGroup() as group:
            for place, script in enumerate(made.scripts):
                group.create_task(
                    self._transact(
                        workload, sessions, place, script, meeting=meeting, random=random
                    )
                )
        self.rounds[workload] += 1

    async def _fill(
        self, workload: str, sessions: list[Session], made: Round, random: Random
    ) -> None:
        for _ in range(ATTEMPTS):
            if await self._transact(
                workload, sessions, 0, made.fill, meeting=Meeting(1), random=random
            ):
                return
        raise Unavailable(f"{self._target}: a write of new keys was refused {ATTEMPTS} times")

    async def _transact(
        self,
        workload: str,
        sessions: list[Session],
        place: int,
        script: Script,
        *,
        meeting: Meeting,
        random: Random,
    ) -> bool:
        """Run one transaction in the session at a place and write down its end; return whether it committed.

        Where a commit has no answer, its outcome stays unknown, and a new session takes the place.
        """
        session = sessions[place]
        name = self.recorder.begin(workload)
        client = Client(session, self.recorder, name, meeting, random)
        try:
            await session.begin()
            await script(client)
            try:
                await session.commit()
            except Unavailable:
                sessions[place] = await self._target.session(self._plan.level)
                await session.close()
                return False
        except Aborted:
            self.recorder.add(name, "abort")
            await session.abort()
            return False
        finally:
            client.leave()
        self.recorder.add(name, "commit")
        return True


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    """Yield single errors, ours first."""
    ours, others = group.split(CoterieError)
    for part in (ours, others):
        for error in part.exceptions if part else ():
            if isinstance(error, BaseExceptionGroup):
                yield from _leaves(error)
            else:
                yield error
