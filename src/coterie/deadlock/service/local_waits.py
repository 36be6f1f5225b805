"""Which tasks and threads of this process wait for which locks, and do any of them wait in a circle?

An owner makes one attempt at a time, or several beside each other where one of several locks will
do. It is blocked when every attempt of it waits. As it asks for locks that it needs together one
after the other, what a blocked owner waits for is always any one of the locks it stands in line for.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import time
import weakref
from typing import TYPE_CHECKING

from coterie.deadlock.condition import any_of
from coterie.deadlock.service.lock_waits import Hold, LockOwner, LockWait, OwnerId

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from coterie.deadlock.service.lock_collection import Suspicion
    from coterie.deadlock.service.lock_waits import Wanted
    from coterie.errors import DeadlockDetected
    from coterie.locks.engine import Claim
    from coterie.locks.session import Owner


class Waiter:
    """An owner that waits, as long as one of its claims does."""

    __slots__ = ("age", "claims", "since", "wait")

    def __init__(self, age: int) -> None:
        """Begin to wait."""
        self.claims: dict[Claim, Wanted] = {}
        self.age = age
        self.since = time.time()
        self.wait: LockWait | None = None  # made when somebody asks, for as long as nothing changes


class Waits:
    """All waits of the owners of one coordinator.

    Waits among them that can never end are noticed when the last one begins, and the youngest fails
    with `DeadlockDetected`. To see further, an engine is told of owners that stay blocked.
    """

    def __init__(self, in_the_way: Callable[[Wanted], Sequence[Claim]]) -> None:
        """Begin with nobody; `in_the_way` gives the claims of this process that hold a lock.

        Of a request to share one it also gives who comes before that and wants the lock alone.
        """
        self.participant = ""  # whose owners these are, where there are others
        self.process = f"{socket.gethostname()}:{os.getpid()}"
        self.detects = True
        self.searches = 0  # among other processes
        self.victims = 0
        self.picks: weakref.WeakKeyDictionary[Owner, dict[str, int]] = weakref.WeakKeyDictionary()
        self.on_block: Callable[[Owner], None] = _go_on
        self.on_change: Callable[[Owner], None] = _go_on  # of a wait that has been described
        self.clock: Callable[[], int] = time.time_ns
        self._in_the_way = in_the_way
        self._waiters: dict[Owner, Waiter] = {}
        self._attempts: dict[Owner, int] = {}  # made beside each other; 1 where nothing is said
        self._numbers: weakref.WeakKeyDictionary[Owner, int] = weakref.WeakKeyDictionary()
        self._count = itertools.count(1)

    # What those who acquire say

    @contextlib.contextmanager
    def side_by_side(self, owner: Owner, attempts: int) -> Iterator[None]:
        """Count that so many attempts take the place of one; any of them will do."""
        self._attempts[owner] = self._attempts.get(owner, 1) + attempts - 1
        try:
            yield
        finally:
            after = self._attempts.pop(owner, 1) - attempts + 1
            if after > 1:
                self._attempts[owner] = after

    def begin(self, owner: Owner, claim: Claim, wanted: Wanted) -> None:
        """Take note of a claim that is not granted at once; it may fail within this call."""
        waiter = self._waiters.get(owner)
        if waiter is None:
            waiter = self._waiters[owner] = Waiter(self.clock())
        self._change(owner, waiter)
        waiter.claims[claim] = wanted
        if not self.detects or not self.is_blocked(owner):
            return
        # Where something that would do is not held here, this owner is not stuck among ours.
        if all(map(self._in_the_way, waiter.claims.values())):
            self._search(owner)
            if not self.is_blocked(owner):
                return
        self.on_block(owner)

    def end(self, owner: Owner, claim: Claim) -> None:
        """Take note that the wait of a claim is over, however it ended."""
        waiter = self._waiters.get(owner)
        if waiter is None or claim not in waiter.claims:
            return
        self._change(owner, waiter)
        del waiter.claims[claim]
        if not waiter.claims:
            del self._waiters[owner]

    def obtained(self, owner: Owner, lock: str) -> None:
        """Forget that the owner has been a victim: it has got now what it wanted then."""
        if lock in self.picks.get(owner, ()):
            del self.picks[owner]

    # What detection asks

    def blocked(self) -> list[Owner]:
        """List the owners that cannot go on by themselves."""
        return [owner for owner in self._waiters if self.is_blocked(owner)]

    def is_blocked(self, owner: Owner) -> bool:
        """Tell whether all attempts of an owner wait; one that is granted is about to go on."""
        waiter = self._waiters.get(owner)
        if waiter is None or len(waiter.claims) < self._attempts.get(owner, 1):
            return False
        return not any(claim.granted.done() for claim in waiter.claims)

    def describe(self, owner: Owner) -> LockOwner:
        """Say what an owner waits for now, if it does."""
        wait = self._wait(owner) if self.is_blocked(owner) else None
        return LockOwner(self.name(owner), self.process, task_name(owner), wait)

    def name(self, owner: Owner) -> OwnerId:
        """Name an owner as no other is named."""
        number = self._numbers.get(owner)
        if number is None:
            number = self._numbers[owner] = next(self._count)
        return OwnerId(self.participant, number)

    def holds(self, wanted: Wanted) -> list[Hold]:
        """Say which owners of this process are in the way of a request, and what they wait for."""
        return [
            Hold(wanted, claim.token or 0, self.describe(claim.owner), claim.shared)
            for claim in self._in_the_way(wanted)
        ]

    def give_way(self, suspicion: Suspicion) -> DeadlockDetected | None:
        """Let the victim's wait fail, if it is one of ours and still in that wait; give the error."""
        victim = suspicion.victim
        for owner, waiter in self._waiters.items():
            if victim is None or victim.id != self.name(owner) or waiter.wait != victim.wait:
                continue
            if not self.is_blocked(owner):
                return None
            claim, first = next(iter(waiter.claims.items()))
            picks = self.picks.setdefault(owner, {})
            for wanted in waiter.claims.values():
                picks[wanted.lock] = picks.get(wanted.lock, 0) + 1
            self.victims += 1
            error = suspicion.error(first)
            claim.fail(error)
            claim.granted.exception()  # a caller that is cancelled just now does not look at it
            return error
        return None

    # Rules

    def _change(self, owner: Owner, waiter: Waiter) -> None:
        """End the wait that was told of, if any: with another set of claims it is another wait."""
        if waiter.wait is not None:
            waiter.wait = None
            self.on_change(owner)

    def _wait(self, owner: Owner) -> LockWait:
        waiter = self._waiters[owner]
        if waiter.wait is None:
            waiter.wait = LockWait(
                next(self._count),
                any_of(*waiter.claims.values()),
                waiter.age,
                waiter.since,
                max(self.picks.get(owner, {}).values(), default=0),
                self.detects,
            )
        return waiter.wait

    def _search(self, owner: Owner) -> None:
        """Look for a deadlock among the owners of this process, which is all known at one moment."""
        from coterie.deadlock.service.lock_collection import Collection  # noqa: PLC0415 - seldom needed

        collection = Collection([self.describe(owner)])
        while wanted := collection.wanted():
            for lock in wanted:
                collection.hear(lock, self.holds(lock))
        for suspicion in collection.suspicions():
            self.give_way(suspicion)


def task_name(owner: Owner) -> str:
    """Name a task or thread as its program does."""
    get_name = getattr(owner, "get_name", None)
    return str(get_name() if get_name is not None else getattr(owner, "name", owner))


def _go_on(_: Owner) -> None:
    """Look no further than this process."""
