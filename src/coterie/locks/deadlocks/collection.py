"""Deadlocks among the owners of locks, found by a double collect.

The first pass follows the waits: which owners hold the locks that are waited for, what they wait
for, which owners hold that, and so on. A lock about which nothing is said is taken to be free, and an owner
about which nothing is said is taken to run. If a deadlock shows, all its holds are asked about once
more. Neither waits nor holds recur, since each has a number or a token of its own.

Another program may say anything: that it waits for a million locks, each of which it holds in the name of an owner
that waits for a million others. So a search takes in so much of it and no more. What is left out counts as not said,
which can hide a deadlock and never makes one up.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from coterie.algorithms.deadlock.condition import Condition, all_of
from coterie.algorithms.deadlock.double_collect import core_of
from coterie.algorithms.deadlock.explanation import Explanation, explain
from coterie.algorithms.deadlock.wait_for import Graph
from coterie.errors import DeadlockDetected, DeadlockMember
from coterie.locks.deadlocks.reports import (
    Hold,
    LockOwner,
    Node,
    OwnerId,
    Wanted,
    choose_victim,
    clock_time,
    names,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from coterie.algorithms.deadlock.double_collect import Core


class Collection:
    """One pass: what has been said so far, and which locks are still to be asked about."""

    def __init__(self, roots: Iterable[LockOwner], limit: float = math.inf) -> None:
        """Begin with the owners whose waits are in question; take in so many holds and parts of waits."""
        self._left = limit
        self.holds: dict[Wanted, tuple[Hold, ...]] = {}
        self.owners: dict[OwnerId, LockOwner] = {}
        self._wanted: dict[Wanted, None] = {}
        for owner in roots:
            self._meet(owner)

    def wanted(self) -> list[Wanted]:
        """List what is waited for and nothing was said about yet."""
        return list(self._wanted)

    def hear(self, wanted: Wanted, holds: Sequence[Hold] = ()) -> None:
        """Take what is said about a lock; nothing means that it is free, or that its holder is unknown."""
        self._wanted.pop(wanted, None)
        told = tuple(holds) if len(holds) <= self._left else ()
        self._left -= len(told)
        self.holds[wanted] = told
        for hold in told:
            self._meet(hold.owner)

    def _meet(self, owner: LockOwner) -> None:
        known = self.owners.get(owner.id)
        if known is None:
            self.owners[owner.id] = self._taken_in(owner)
        elif known.wait != owner.wait:
            # Two waits of one owner are reported in one pass: so it has gone on in between.
            self.owners[owner.id] = _running(owner)

    def _taken_in(self, owner: LockOwner) -> LockOwner:
        """Note what an owner waits for; if that is too much, it is taken to run."""
        if owner.wait is None:
            return owner
        size = owner.wait.size
        if size > self._left or math.isinf(size):
            return _running(owner)
        self._left -= size
        new = [lock for lock in owner.wait.condition.targets() if lock not in self.holds]
        self._wanted |= dict.fromkeys(new)
        return owner

    def graph(self) -> Graph[Node]:
        """Return all that was said as one graph; its order does not depend on the order of the answers."""
        waits: dict[Node, Condition[Node]] = {}
        for owner in sorted(self.owners):
            wait = self.owners[owner].wait
            if wait is not None:
                waits[owner] = _of_nodes(wait.condition)
        for lock in sorted(self.holds):
            if self.holds[lock]:
                waits[lock] = all_of(*sorted(hold.owner.id for hold in self.holds[lock]))
        return Graph(waits, resources=frozenset(self.holds))

    def suspicions(self) -> list[Suspicion]:
        """List the deadlocks that show: one for each end of the waits."""
        order = {lock: place for place, lock in enumerate(self.holds)}
        found = []
        for nodes in self.graph().cores():
            locks = sorted((n for n in nodes if isinstance(n, Wanted)), key=order.__getitem__)
            core = core_of(nodes, [hold for lock in locks for hold in self.holds[lock]])
            owners = [self.owners[node] for node in nodes if isinstance(node, OwnerId)]
            found.append(Suspicion(core, owners))
        return found


def _running(owner: LockOwner) -> LockOwner:
    return LockOwner(owner.id, owner.process, owner.task, None)


def _of_nodes(condition: Condition[Wanted]) -> Condition[Node]:
    """Return the same condition, as one over owners and locks."""
    return Condition(condition.needed, condition.nodes, tuple(map(_of_nodes, condition.groups)))


class Suspicion:
    """A deadlock as one pass shows it: a smallest set of owners that wait for each other's locks."""

    def __init__(self, core: Core[Node, Hold], owners: Sequence[LockOwner]) -> None:
        """Take the owners of a core; each of them holds a lock of it, or is ahead of a sharer.

        An owner that is only ahead waits for holders itself. It cannot be the victim, since an
        owner that holds nothing does not search.
        """
        self.owners = tuple(owners)
        self.holds = core.reports
        holding = {hold.owner.id for hold in self.holds if hold.token}
        self.victim = choose_victim(owner for owner in owners if owner.id in holding)
        self._core = core

    def locks(self) -> list[Wanted]:
        """List the locks that are to be asked about once more."""
        return list(dict.fromkeys(hold.wanted for hold in self.holds))

    def stands(self, again: Mapping[Wanted, Sequence[Hold]]) -> bool:
        """Return True if the second pass confirms every hold, with the wait of its owner."""
        return self._core.stands([hold for holds in again.values() for hold in holds])

    def error(self, wanted: Wanted) -> DeadlockDetected:
        """Make the error for the victim, which waits for that lock."""
        assert self.victim is not None, "one of them gives way"
        name = names(self.owners)
        explanation = explain(self._graph(name), name[self.victim.id])
        return DeadlockDetected(
            f"lock {wanted.lock!r} can never be granted: {_kind(explanation)} in which"
            f" {'; '.join(explanation.text)}. {name[self.victim.id]} gives way, {self._reason()}:"
            " release what you hold, then try again",
            lock=wanted.lock,
            kind=explanation.kind,
            members=tuple(self._member(owner, name[owner.id]) for owner in self.owners),
        )

    def _reason(self) -> str:
        ages = {owner.id: owner.wait.age for owner in self.owners if owner.wait is not None}
        if self.victim is not None and ages[self.victim.id] == max(ages.values()):
            return "since its request is the youngest"
        return "since younger ones cannot or have done so often"

    def _graph(self, name: Mapping[OwnerId, str]) -> Graph[str]:
        waits: dict[str, Condition[str]] = {}
        since = {}
        for owner in self.owners:
            assert owner.wait is not None, "members of a deadlock wait"
            waits[name[owner.id]] = shown(owner.wait.condition)
            since[name[owner.id]] = clock_time(owner.wait.since)
        locks = {wanted: str(wanted) for wanted in self.locks()}
        for lock in locks.values():
            inside = [h.owner.id for h in self.holds if locks[h.wanted] == lock]
            waits[lock] = all_of(*dict.fromkeys(name[owner] for owner in inside))
        return Graph(waits, since, frozenset(locks.values()))

    def _member(self, owner: LockOwner, name: str) -> DeadlockMember:
        assert owner.wait is not None, "members of a deadlock wait"
        return DeadlockMember(
            owner=name,
            waits_for=shown(owner.wait.condition).targets(),
            since=owner.wait.since,
            holds={
                hold.wanted.lock: hold.token
                for hold in self.holds
                if hold.owner.id == owner.id and hold.token
            },
        )


def shown(condition: Condition[Wanted]) -> Condition[str]:
    """Return a condition for people, without the requesters of shares."""
    nodes = tuple(dict.fromkeys(map(str, condition.nodes)))
    return Condition(condition.needed, nodes, tuple(map(shown, condition.groups)))


def _kind(explanation: Explanation[str]) -> str:
    return f"a deadlock ({explanation.kind})"
