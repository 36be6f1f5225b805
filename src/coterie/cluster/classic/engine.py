"""The engine of a program that is a node of a classic algorithm.

At most one process is inside a lock as long as the algorithm's assumptions hold; there are no
leases, so a lock is never lost, and a process that dies inside may block all others. Tokens are
readings of this node's clock at the entry: they tell entries apart, and are no fence.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from coterie import system
from coterie.cluster.classic.node import CRASH, Classic, Program
from coterie.cluster.runtime import clock
from coterie.errors import MisuseError, Unavailable, UsageError
from coterie.locks.deadlocks.reports import Wanted
from coterie.locks.deadlocks.waits import Waits
from coterie.locks.engine import LockState, Party, follow
from coterie.process import Entered, MutexUser, Phase
from coterie.system.aio import to_the_end

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from coterie.cluster.membership.config import Config
    from coterie.errors import CoterieError
    from coterie.locks.lock import Owner
    from coterie.process import Event


class ClassicClaim:
    """One request of one task for one lock."""

    expires_at = math.inf
    lifelines: tuple[int, ...] = ()
    shared = False
    wakes_at_once = False

    def __init__(self, engine: ClassicEngine, lock: str, owner: Owner) -> None:
        """Prepare to wait."""
        self.owner = owner
        loop = asyncio.get_running_loop()
        self.token: int | None = None
        self.granted: asyncio.Future[int | None] = loop.create_future()
        self.lost: asyncio.Future[str] = loop.create_future()
        self.lock = lock
        self.awaits = Wanted(lock)
        self.asked_at = system.wall()
        self.entered_at: float | None = None
        self.note = ""
        self._engine = engine

    def annotate(self, note: str) -> None:
        """Let a note be read in this process: a node knows only of itself."""
        self.note = note

    def valid(self) -> bool:
        """Return whether the lock is ours."""
        return self._engine.holds(self)

    def obstacle(self) -> CoterieError | None:
        """Return which nodes are missing, if it is not just a holder."""
        return self._engine.obstacle(self.lock)

    def fail(self, error: CoterieError) -> None:
        """Give up waiting with this error."""
        self._engine.end(self)
        if not self.granted.done():
            self.granted.set_exception(error)

    async def release(self) -> None:
        """End the claim, whatever has become of it."""
        self._engine.end(self)


class ClassicEngine:
    """Grants locks to the tasks of this process, one node of an algorithm."""

    def __init__(self, config: Config, node: str) -> None:
        """Prepare; the node starts when the engine is opened."""
        self.node = Classic(
            config,
            node,
            Program(
                event=self._hear,
                failure=self._fail,
                ready=self._ask_all,
                lost=self._give_up_waiting,
                locks=self.locks,
            ),
        )
        self._holders: dict[str, ClassicClaim] = {}
        self._waiting: dict[str, deque[ClassicClaim]] = {}
        self._token = 0
        self._failure: Unavailable | None = None
        self.waits = Waits(system.secret(16).hex(), self._blockers)

    async def open(self) -> None:
        """Start the node; raise `Unavailable` if others refuse it, as they knew an earlier start of it."""
        await self.node.start()
        try:
            await self.node.settle()
        except BaseException:
            await to_the_end(self.close())
            raise
        if self._failure is not None:
            await self.close()
            raise self._failure

    async def close(self) -> None:
        """End all claims, and the node."""
        for queue in list(self._waiting.values()):
            for claim in list(queue):
                if not claim.granted.done():
                    error = MisuseError(f"lock {claim.lock!r}: the coordinator was closed")
                    claim.granted.set_exception(error)
        self._waiting.clear()
        for claim in list(self._holders.values()):
            claim.lost.set_result("the coordinator was closed")
            self.end(claim)
        await asyncio.sleep(0)
        await self.node.stop()

    def place(
        self, name: str, *, owner: Owner, shared: bool, lease: float | None, wait: bool
    ) -> ClassicClaim:
        """Ask for a lock; without `wait` it is granted only if that needs no message."""
        if shared:
            raise UsageError(f"lock {name!r}: classic algorithms have no shared mode")
        if self._failure is not None:
            raise Unavailable(f"lock {name!r}: {self._failure}")
        claim = ClassicClaim(self, name, owner)
        queue = self._waiting.setdefault(name, deque())
        queue.append(claim)
        self._ask(name)
        if not wait and not claim.granted.done():
            queue.remove(claim)
            claim.granted.set_result(None)
        elif not claim.granted.done() and self._is_in_doubt():
            lease = self.node.membership.settings.lease
            asyncio.get_running_loop().call_later(lease, self._give_up, claim)
        return claim

    # Nodes that are away

    def obstacle(self, name: str) -> Unavailable | None:
        """Return which nodes are missing for a lock to be granted."""
        if not self.node.is_ready:
            return Unavailable(
                f"lock {name!r}: {self.node.algorithm.name} grants locks when all nodes have met,"
                f" and {self.node.missing}; start all nodes"
            )
        if not self._is_in_doubt():
            return None
        return Unavailable(
            f"lock {name!r}: {', '.join(self.node.away)} cannot be reached, and"
            f" {self.node.algorithm.name} does not tolerate crashes; if a node has ended, restart"
            " all of them"
        )

    def _is_in_doubt(self) -> bool:
        """Return True if a node is away without which locks may never be granted."""
        return bool(self.node.lost) and not self.node.tolerates(CRASH)

    def _give_up_waiting(self, _: str) -> None:
        """End the claims that wait as a node is lost, unless the algorithm goes on without it."""
        if self._is_in_doubt():
            for claim in [claim for queue in self._waiting.values() for claim in queue]:
                self._give_up(claim)

    def _give_up(self, claim: ClassicClaim) -> None:
        error = self.obstacle(claim.lock)
        if error is not None and not claim.granted.done():
            claim.fail(error)

    def _fail(self, failure: Unavailable) -> None:
        """End all claims: the other nodes go on without this one."""
        self._failure = failure
        for queue in self._waiting.values():
            while queue:
                claim = queue.popleft()
                if not claim.granted.done():
                    error = Unavailable(f"lock {claim.lock!r}: {failure}")
                    claim.granted.set_exception(error)
        for claim in list(self._holders.values()):
            del self._holders[claim.lock]
            claim.lost.set_result(str(failure))

    def holds(self, claim: ClassicClaim) -> bool:
        """Return whether this claim holds its lock."""
        return self._holders.get(claim.lock) is claim

    def _blockers(self, wanted: Wanted) -> list[ClassicClaim]:
        holder = self._holders.get(wanted.lock)
        return [] if holder is None else [holder]

    def end(self, claim: ClassicClaim) -> None:
        """Take a claim away; a request that was made for it cannot be, and ends when it enters."""
        queue = self._waiting.get(claim.lock, deque())
        if claim in queue:
            queue.remove(claim)
        elif self.holds(claim):
            del self._holders[claim.lock]
            self.node.process(claim.lock).call("release")
            self._ask(claim.lock)

    def _ask(self, lock: str) -> None:
        """Ask for the claims that wait, unless a request of ours is under way or we are inside."""
        if not self.node.is_ready:
            return
        process = self.node.process(lock)
        user = process.seat.user
        assert isinstance(user, MutexUser), "only mutual exclusion algorithms are chosen"
        if self._waiting.get(lock) and user.phase is Phase.IDLE:
            process.call("acquire")

    def _ask_all(self) -> None:
        for lock in list(self._waiting):
            self._ask(lock)

    def _hear(self, lock: str, event: Event) -> None:
        if not isinstance(event, Entered):
            return
        queue = self._waiting.get(lock)
        if not queue:
            self.node.process(lock).call("release")
            return
        claim = self._holders[lock] = queue.popleft()
        self._token = max(self._token + 1, clock.number())
        claim.token = self._token
        claim.entered_at = system.wall()
        claim.granted.set_result(claim.token)

    # Questions: a node knows only of itself

    async def holders(self, name: str) -> list[Party]:
        """Return the holder if it is in this process; others are not known."""
        claim = self._holders.get(name)
        return [] if claim is None else [self._party(claim)]

    async def waiters(self, name: str) -> list[Party]:
        """Return the tasks of this process that wait."""
        return [self._party(claim) for claim in self._waiting.get(name, ())]

    def watch(self, name: str, check: Callable[[], None]) -> AsyncGenerator[Party | None, None]:
        """Follow the holder as far as it is in this process."""
        return follow(partial(self.holders, name), check)

    def locks(self) -> tuple[LockState, ...]:
        """Return what tasks of this process hold and wait for."""
        names = {*self._holders, *(name for name, queue in self._waiting.items() if queue)}
        return tuple(self._state(name) for name in sorted(names))

    def _state(self, name: str) -> LockState:
        holder, waiting = self._holders.get(name), self._waiting.get(name, ())
        holders = [] if holder is None else [self._party(holder)]
        return LockState(name, holders, [], [self._party(claim) for claim in waiting])

    def _party(self, claim: ClassicClaim) -> Party:
        owner = f"{system.host_name()}:{system.pid()}"
        if claim.entered_at is None:
            return Party(claim.lock, owner, claim.asked_at, None)
        waited = max(0.0, claim.entered_at - claim.asked_at)
        return Party(
            claim.lock, owner, claim.entered_at, claim.token, waited=waited, note=claim.note
        )
