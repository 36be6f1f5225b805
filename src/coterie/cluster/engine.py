"""The engine that a coordinator stands on when locks come from a cluster."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from functools import partial
from typing import TYPE_CHECKING

from coterie.cluster import clock
from coterie.cluster.following import follow
from coterie.cluster.frames import Concerned, Condition, HowAreYou, Whose
from coterie.cluster.queues import ClusterClaim, Queues
from coterie.cluster.survey import Survey
from coterie.errors import NoQuorum, UsageError
from coterie.mutex.quorum.leased.events import Acquired, Lost

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Coroutine

    from coterie.cluster.access import Access
    from coterie.cluster.attending import Attending
    from coterie.coordinator.engine import Party
    from coterie.process import Event, ProcessId

GLANCE_SECONDS = 0.005  # before asking whether a lock that is not granted at once is held
CHECKS_PER_HEDGE = 4


class ClusterEngine:
    """Grants the locks of a cluster to the tasks of this process.

    At most one process holds a lock at any instant, as long as clocks keep their rate bound; tokens
    grow under no assumption about time. The lease is the cluster's: it is renewed as long as this
    event loop runs, and a lock is lost early when it cannot be.
    """

    def __init__(self, access: Access) -> None:
        """Prepare; `access` gets us in when the engine is opened."""
        self._queues = Queues()
        self._access = access
        self._attending: Attending
        self._surveys: dict[int, Survey] = {}
        self._questions = itertools.count(1)
        self._tasks: set[asyncio.Task[None]] = set()
        self._cut_off_since: float | None = None
        self._check: asyncio.TimerHandle | None = None

    @property
    def queues(self) -> Queues:
        """The claims of this process."""
        return self._queues

    async def open(self) -> None:
        """Get in; raises `Unavailable` if no node can be reached to learn the configuration from."""
        self._attending = self._queues.attending = await self._access.enter(self)

    async def close(self) -> None:
        """End all claims, and say goodbye, so that nobody has to wait for a lease of ours."""
        if self._check is not None:
            self._check.cancel()
        for task in self._tasks:
            task.cancel()
        self._queues.close()
        self._attending.stop()
        await self._access.leave()

    def place(self, name: str, *, shared: bool, ttl: float | None, wait: bool) -> ClusterClaim:
        """Ask for a lock. The lease is the cluster's whatever `ttl` says."""
        if shared:
            raise UsageError(f"lock {name!r}: a cluster has no shared mode; leave out shared")
        claim = ClusterClaim(self._queues, name, self._obstacle, wait=wait)
        self._queues.place(claim)
        if not claim.granted.done():
            self._arm_check()
            if not wait:
                self._run(self._try(claim))
        return claim

    # What the participant tells and asks

    def hear(self, event: Event) -> None:
        """Take note of a lock that was acquired or lost."""
        match event:
            case Acquired(lock, token):
                self._queues.acquired(lock, token)
            case Lost(lock, token):
                self._queues.lost(lock, token)
            case _:
                raise AssertionError(f"a participant does not tell {event}")

    def condition(self, asked: HowAreYou) -> Condition:
        """Say how we stand to a lock."""
        queue = self._queues.locks.get(asked.lock)
        me, local = self._attending.identity.name, len(queue.waiting) if queue else 0
        holder = queue.holder if queue else None
        if holder is not None and holder.valid():
            token = holder.granted.result() or 0
            return Condition(asked.route, asked.question, me, "held", token, holder.since, local)
        if queue and local:
            since = queue.waiting[0].since
            return Condition(asked.route, asked.question, me, "waiting", 0, since, local - 1)
        kept = asked.lock in self._attending.participant.cached
        return Condition(asked.route, asked.question, me, "kept" if kept else "nothing", 0, 0.0, 0)

    def learn(self, voter: ProcessId, answer: Concerned | Condition) -> None:
        """Take the answer to a question of ours; one that comes too late is of no use."""
        survey = self._surveys.get(answer.question)
        if survey is None:
            return
        if isinstance(answer, Concerned):
            survey.name(voter, answer)
        else:
            survey.hear(answer)

    # Questions

    async def holders(self, name: str) -> list[Party]:
        """Name who holds the lock."""
        return (await self._survey(name)).holders()

    async def waiters(self, name: str) -> list[Party]:
        """Name who waits for the lock, the next first."""
        return (await self._survey(name)).waiters()

    def watch(self, name: str) -> AsyncGenerator[Party | None, None]:
        """Follow the holder of a lock; changes are noticed within a fifth of a second."""
        return follow(partial(self.holders, name))

    async def _survey(self, lock: str) -> Survey:
        """Ask the voters; who does not answer in time is not counted."""
        settings = self._attending.membership.settings
        voters = self._attending.reachable()
        if not settings.quorums.contains_quorum(voters):
            raise self._no_quorum(lock)
        question = next(self._questions)
        survey = self._surveys[question] = Survey(lock, voters)
        try:
            for voter in voters:
                self._attending.ask(voter, Whose(question, lock))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(settings.hedge):
                    await survey.complete.wait()
        finally:
            del self._surveys[question]
        return survey

    # Locks that are to be had now or not at all

    async def _try(self, claim: ClusterClaim) -> None:
        """Give up as soon as somebody else is known to hold the lock, or to wait for it.

        A lock that is only kept by another process is free: it will come.
        """
        settings = self._attending.membership.settings
        deadline = clock.now() + settings.hedge
        me = self._attending.identity.name
        while clock.now() < deadline:
            await asyncio.wait({claim.granted}, timeout=GLANCE_SECONDS)
            if claim.granted.done():
                return
            with contextlib.suppress(NoQuorum):
                others = (await self._survey(claim.lock)).others(me)
                if "held" in others or "waiting" in others:
                    break
        if claim.granted.done():
            return
        cut_off = not settings.quorums.contains_quorum(self._attending.reachable())
        self._queues.end(claim)
        if cut_off:
            claim.granted.set_exception(self._no_quorum(claim.lock))
        else:
            claim.granted.set_result(None)

    def _run(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # No quorum

    def _check_quorum(self) -> None:
        """See to it that nobody waits for ever where no quorum is in reach.

        A claim fails when there has been none for a whole lease: by then a voter that only
        restarted would be back.
        """
        self._check = None
        waiting = self._queues.waiting()
        if not waiting:
            self._cut_off_since = None
            return
        settings = self._attending.membership.settings
        if settings.quorums.contains_quorum(self._attending.reachable()):
            self._cut_off_since = None
        elif self._cut_off_since is None:
            self._cut_off_since = clock.now()
        elif clock.now() - self._cut_off_since >= settings.lease:
            for claim in waiting:
                self._queues.fail(claim, self._no_quorum(claim.lock))
        self._arm_check()

    def _arm_check(self) -> None:
        if self._check is None:
            period = self._attending.membership.settings.hedge / CHECKS_PER_HEDGE
            self._check = asyncio.get_running_loop().call_later(period, self._check_quorum)

    def _obstacle(self, lock: str) -> NoQuorum | None:
        quorums = self._attending.membership.settings.quorums
        in_reach = quorums.contains_quorum(self._attending.reachable())
        return None if in_reach else self._no_quorum(lock)

    def _no_quorum(self, lock: str) -> NoQuorum:
        troubles = self._attending.troubles()
        return NoQuorum(
            f"lock {lock!r}: no quorum of cluster {self._attending.membership.cluster!r} can be"
            f" reached ({'; '.join(troubles) or 'nodes do not answer'})"
        )
