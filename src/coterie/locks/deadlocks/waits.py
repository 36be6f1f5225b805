"""Which tasks and threads of this process wait for which locks, and the search for waits in a circle.

An owner makes one attempt at a time, or several beside each other where one of several locks will
do. It is blocked when every attempt of it waits. As it asks for locks that it needs together one
after the other, what a blocked owner waits for is always any one of the locks it stands in line for.

Circles within this process show at once, since all is known at one moment. For circles through other
processes see `search.py`.
"""

from __future__ import annotations

import contextlib
import itertools
import weakref
from typing import TYPE_CHECKING

from coterie import system
from coterie.algorithms.deadlock.condition import any_of
from coterie.locks.deadlocks.reports import (
    NAME_LENGTH_MAX,
    Hold,
    LockOwner,
    LockWait,
    OwnerId,
    Wanted,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from coterie.errors import DeadlockDetected
    from coterie.locks.deadlocks.collection import Suspicion
    from coterie.locks.engine import Claim
    from coterie.locks.lock import Owner


class WaitingOwner:
    """An owner that waits, as long as one of its claims does."""

    __slots__ = ("age", "claims", "since", "wait")

    def __init__(self, age: int) -> None:
        """Begin to wait."""
        self.claims: dict[Claim, Wanted] = {}
        self.age = age
        self.since = system.wall()
        self.wait: LockWait | None = None  # made on first use, for as long as nothing changes


class Waits:
    """All waits of the owners of one coordinator.

    Waits among them that can never end are noticed when the last one begins, and the youngest fails
    with `DeadlockDetected`. To see further, `on_block` is told of owners that stay blocked.
    """

    def __init__(
        self,
        participant: str,
        blockers: Callable[[Wanted], Sequence[Claim]],
        *,
        clock: Callable[[], int] = lambda: int(system.wall() * 1e9),
        is_in_the_way: Callable[[Owner], bool] = lambda _: True,
        on_block: Callable[[Owner], None] | None = None,
        on_change: Callable[[Owner], None] | None = None,
        detects: bool = True,
    ) -> None:
        """Begin without waits.

        Args:
            participant: A name that no other coordinator of any process has.
            blockers: Returns the claims of this process that block a request: those that hold the
                lock and, of a request to share it, those before it that want the lock alone.
            clock: Tells the age of a wait, on a clock by which processes agree roughly.
            is_in_the_way: Returns False for an owner that blocks no other, if the engine knows: such a
                one is in no circle.
            on_block: Called with an owner that cannot go on by itself, to look further.
            on_change: Called with an owner when a wait of it that was described is over.
            detects: Whether owners of this process may be victims.
        """
        self.participant = participant
        self.process = f"{system.host_name()}:{system.pid()}"
        self.detects = detects
        self.clock = clock
        self.searches = 0  # among other processes
        self.victims = 0
        self.picks: weakref.WeakKeyDictionary[Owner, dict[str, int]] = weakref.WeakKeyDictionary()
        self._blockers = blockers
        self._is_in_the_way = is_in_the_way
        self._on_block = on_block
        self._on_change = on_change
        self.registered: set[Claim] = set()  # that wait
        self._waiters: dict[Owner, WaitingOwner] = {}
        self._attempts: dict[Owner, int] = {}  # made beside each other; 1 where nothing is said
        self._numbers: weakref.WeakKeyDictionary[Owner, int] = weakref.WeakKeyDictionary()
        self._count = itertools.count(1)

    # What tasks that acquire say

    @contextlib.contextmanager
    def side_by_side(self, owner: Owner, attempts: int) -> Iterator[None]:
        """Count that many attempts in the place of one; any of them will do."""
        self._attempts[owner] = self._attempts.get(owner, 1) + attempts - 1
        try:
            yield
        finally:
            after = self._attempts.pop(owner, 1) - attempts + 1
            if after > 1:
                self._attempts[owner] = after

    def begin(self, owner: Owner, claim: Claim) -> None:
        """Take note of a claim that has waited for a while; it may fail within this call.

        The caller ends each wait whose claim is `registered`.
        """
        waiter = self._waiters.get(owner)
        if waiter is None:
            # Not where one of several will do: another attempt may get a lock meanwhile.
            if owner not in self._attempts and not self._is_in_the_way(owner):
                return
            waiter = self._waiters[owner] = WaitingOwner(self.clock())
        self._change(owner, waiter)
        waiter.claims[claim] = claim.awaits
        self.registered.add(claim)
        if not self.detects or not self.is_blocked(owner):
            return
        # If one of the locks that would do is not held here, no circle closes in this process.
        if all(map(self._blockers, waiter.claims.values())):
            self._search(owner)
            if not self.is_blocked(owner):
                return
        if self._on_block is not None:
            self._on_block(owner)

    def end(self, owner: Owner, claim: Claim) -> None:
        """Take note that the wait of a claim is over, however it ended."""
        self.registered.remove(claim)
        waiter = self._waiters[owner]
        self._change(owner, waiter)
        del waiter.claims[claim]
        if not waiter.claims:
            del self._waiters[owner]

    def obtained(self, owner: Owner, lock: str) -> None:
        """Forget that the owner has been a victim: it has got now what it wanted then."""
        if lock in self.picks.get(owner, ()):
            del self.picks[owner]

    # What detection asks

    @property
    def is_empty(self) -> bool:
        """Whether no owner waits, or has begun attempts beside each other."""
        return not self._waiters and not self._attempts

    def blocked(self) -> list[Owner]:
        """List the owners that cannot go on by themselves."""
        return [owner for owner in self._waiters if self.is_blocked(owner)]

    def is_blocked(self, owner: Owner) -> bool:
        """Return True if all attempts of an owner wait; one that is granted is about to go on."""
        waiter = self._waiters.get(owner)
        if waiter is None or len(waiter.claims) < self._attempts.get(owner, 1):
            return False
        return not any(claim.granted.done() for claim in waiter.claims)

    def describe(self, owner: Owner) -> LockOwner:
        """Describe an owner, with what it waits for now."""
        wait = self._wait(owner) if self.is_blocked(owner) else None
        task = task_name(owner)[:NAME_LENGTH_MAX]
        return LockOwner(self.name(owner), self.process, task, wait)

    def name(self, owner: Owner) -> OwnerId:
        """Return the name of an owner, which no other has."""
        return OwnerId(self.participant, self.number(owner))

    def number(self, owner: Owner) -> int:
        """Return the number of an owner, which no other of this participant has."""
        number = self._numbers.get(owner)
        if number is None:
            number = self._numbers[owner] = next(self._count)
        return number

    def holds(self, wanted: Wanted) -> list[Hold]:
        """List the owners of this process that block a request, with what they wait for."""
        return [
            Hold(wanted, claim.token or 0, self.describe(claim.owner), claim.shared)
            for claim in self._blockers(wanted)
        ]

    def give_way(self, suspicion: Suspicion) -> DeadlockDetected | None:
        """Let the victim's wait fail, if it is one of ours and still in that wait; return the error."""
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

    def _change(self, owner: Owner, waiter: WaitingOwner) -> None:
        """End the wait that was described, if any: with another set of claims it is another wait."""
        if waiter.wait is not None:
            waiter.wait = None
            if self._on_change is not None:
                self._on_change(owner)

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
        from coterie.locks.deadlocks.collection import Collection  # noqa: PLC0415 - seldom needed

        collection = Collection([self.describe(owner)])
        while wanted := collection.wanted():
            for lock in wanted:
                collection.hear(lock, self.holds(lock))
        for suspicion in collection.suspicions():
            self.give_way(suspicion)


def task_name(owner: Owner) -> str:
    """Return the name that its program gave a task or thread."""
    get_name = getattr(owner, "get_name", None)
    return str(get_name() if get_name is not None else getattr(owner, "name", owner))
