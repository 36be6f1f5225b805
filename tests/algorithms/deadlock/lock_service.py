"""A lock service without messages: owners take, keep and give back locks at random moments.

Whoever collects is told about one lock at a time, and everybody goes on meanwhile. A referee sees
the whole state at the moment between the passes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.algorithms.deadlock.condition import Condition, all_of, any_of, some_of
from coterie.locks.deadlocks.collection import Collection
from coterie.locks.deadlocks.reports import Hold, LockOwner, LockWait, OwnerId, Wanted

if TYPE_CHECKING:
    from random import Random

    from coterie.locks.deadlocks.collection import Suspicion

MODELS = ("one", "or", "and", "and-or", "k-of-n")


class Service:
    """Some owners and some locks."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.model = random.choice(MODELS)
        self.locks = [Wanted(f"l{number}") for number in range(random.randint(2, 5))]
        self.owners = [OwnerId(f"p{number % 3}", number) for number in range(random.randint(2, 6))]
        self.waits: dict[OwnerId, LockWait] = {}
        self.held: dict[Wanted, tuple[OwnerId, int]] = {}  # by whom, with which token
        self.restless = random.choice((0.3, 1.0, 3.0))  # steps of others between two answers
        self._numbers = iter(range(1, 1_000_000))

    # What happens

    def go_on(self) -> None:
        """Let some of them do something."""
        while self.random.random() < self.restless / (1 + self.restless):
            self._step(self.random.choice(self.owners))

    def _step(self, owner: OwnerId) -> None:
        mine = self._locks_of(owner)
        if owner in self.waits:
            if self.random.random() < 0.05:  # its user's patience is at its end
                del self.waits[owner]
        elif mine and self.random.random() < 0.2:
            del self.held[self.random.choice(mine)]
        elif len(mine) < len(self.locks):
            wanted = self._wanted([lock for lock in self.locks if lock not in mine])
            self.waits[owner] = LockWait(
                next(self._numbers), wanted, self.random.randint(0, 3), 0.0
            )
        self._grant()

    def _wanted(self, others: list[Wanted]) -> Condition[Wanted]:
        names = self.random.sample(others, min(len(others), self.random.randint(1, 3)))
        match self.model:
            case "one":
                return all_of(names[0])
            case "or":
                return any_of(*names)
            case "and":
                return all_of(*names)
            case "k-of-n":
                return some_of(self.random.randint(1, len(names)), *names)
            case _:
                return all_of(names[0], any_of(*names[1:])) if len(names) > 1 else all_of(*names)

    def _grant(self) -> None:
        """Give what is free to those whose condition it meets, in any order."""
        for owner in self.random.sample(sorted(self.waits), len(self.waits)):
            condition = self.waits[owner].condition
            free = [lock for lock in condition.targets() if lock not in self.held]
            if condition.holds(free):
                del self.waits[owner]
                for lock in free:
                    self.held[lock] = owner, next(self._numbers)

    def give_up(self, owner: OwnerId) -> None:
        """End a wait; whoever gives way gives back what it has."""
        self.waits.pop(owner, None)
        for lock in self._locks_of(owner):
            del self.held[lock]
        self._grant()

    def _locks_of(self, owner: OwnerId) -> list[Wanted]:
        return [lock for lock, (holder, _) in self.held.items() if holder == owner]

    # What is told

    def tell(self, owner: OwnerId) -> LockOwner:
        return LockOwner(owner, f"{owner.participant}:1", "task", self.waits.get(owner))

    def answer(self, lock: Wanted) -> list[Hold]:
        """Ask a voter, who names the holder, who answers a moment later."""
        named = self.held.get(lock)
        self.go_on()
        found = self.held.get(lock)
        if named is None or found is None or named[0] != found[0]:
            return []
        return [Hold(lock, found[1], self.tell(found[0]))]

    def truth(self) -> Collection:
        """Everything at this moment."""
        collection = Collection(self.tell(owner) for owner in sorted(self.waits))
        for lock, (owner, token) in self.held.items():
            collection.hear(lock, [Hold(lock, token, self.tell(owner))])
        return collection


def search(service: Service, roots: list[OwnerId]) -> list[tuple[Suspicion, Collection]]:
    """Collect twice; give the deadlocks that stand, each with the truth between the passes."""
    collection = Collection([service.tell(owner) for owner in roots])
    while wanted := collection.wanted():
        lock = service.random.choice(wanted)
        collection.hear(lock, service.answer(lock))
        service.go_on()
    found = []
    for suspicion in collection.suspicions():
        between = service.truth()
        again = {}
        locks = suspicion.locks()
        for lock in service.random.sample(locks, len(locks)):
            service.go_on()
            again[lock] = service.answer(lock)
        if suspicion.stands(again):
            found.append((suspicion, between))
    return found


def object_to(suspicion: Suspicion, truth: Collection) -> str:
    """Say what is wrong with a verdict; nothing if it was so at that moment."""
    for hold in suspicion.holds:
        if not any(real == hold for real in truth.holds.get(hold.wanted, ())):
            return f"{hold} was not so"
    stuck = truth.graph().deadlocked()
    free = [owner.id for owner in suspicion.owners if owner.id not in stuck]
    return f"{free} could have gone on" if free else ""
