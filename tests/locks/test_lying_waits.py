"""What another program says that it waits for: a search for deadlocks takes in so much of it and no more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from coterie.algorithms.deadlock import wait_for
from coterie.algorithms.deadlock.condition import Condition, all_of, any_of
from coterie.algorithms.deadlock.wait_for import Graph
from coterie.locks.deadlocks.collection import Collection
from coterie.locks.deadlocks.reports import DEPTH_MAX, Hold, LockOwner, LockWait, OwnerId, Wanted
from coterie.locks.deadlocks.search import TAKEN_IN_MAX

if TYPE_CHECKING:
    from collections.abc import Callable

A = Wanted("a")
ME = OwnerId("me", 1)


def owner(participant: str, condition: Condition[Wanted]) -> LockOwner:
    wait = LockWait(1, condition, 0, 0.0)
    return LockOwner(OwnerId(participant, 1), "host:1", "task", wait)


def nested(depth: int) -> Condition[Wanted]:
    condition = any_of(A)
    for _ in range(depth):
        condition = any_of(condition)
    return condition


def rounds_with(liar: Callable[[Wanted], list[Hold]]) -> int:
    """Ask a liar until nothing more is wanted; return how often."""
    collection = Collection([owner("me", all_of(A))], TAKEN_IN_MAX)
    count = 0
    while wanted := collection.wanted():
        count += 1
        for lock in wanted:
            collection.hear(lock, liar(lock))
    assert len(collection.owners) <= TAKEN_IN_MAX + 1
    assert len(collection.holds) <= TAKEN_IN_MAX + 1
    return count


def test_a_chain_of_waits_without_an_end_is_followed_only_so_far() -> None:
    def counted(lock: Wanted) -> list[Hold]:
        number = int(lock.lock[1:] or "0")
        return [Hold(lock, 1, owner(f"liar {number}", all_of(Wanted(f"a{number + 1}"))))]

    assert rounds_with(counted) <= TAKEN_IN_MAX


def test_a_wait_for_any_number_of_locks_is_left_out() -> None:
    many = any_of(*(Wanted(str(number)) for number in range(TAKEN_IN_MAX + 1)))
    assert rounds_with(lambda lock: [Hold(lock, 1, owner("liar", many))]) == 1


def test_any_number_of_holders_is_left_out() -> None:
    many = [
        Hold(A, 1, LockOwner(OwnerId("liar", number), "host:1", "task", None), shared=True)
        for number in range(TAKEN_IN_MAX + 1)
    ]
    assert rounds_with(lambda _: many) == 1


@pytest.mark.parametrize(
    "condition", [nested(DEPTH_MAX), nested(900), any_of(*[any_of()] * 99_999)]
)
def test_a_wait_that_no_program_has_is_left_out(condition: Condition[Wanted]) -> None:
    assert rounds_with(lambda lock: [Hold(lock, 1, owner("liar", condition))]) == 1


def test_what_a_program_can_wait_for_is_taken_in() -> None:
    """Any of several sets of locks, of which each is needed as a whole."""
    inner: Condition[Wanted] = any_of(all_of(Wanted("c")))
    both: Condition[Wanted] = any_of(all_of(A, Wanted("b")), inner)
    collection = Collection([owner("me", all_of(A))], TAKEN_IN_MAX)
    collection.hear(A, [Hold(A, 1, owner("other", both))])
    assert collection.wanted() == [Wanted("b"), Wanted("c")]


def test_a_deadlock_of_our_own_tasks_is_found_whatever_its_size() -> None:
    """What this process knows of itself needs no limit."""
    many = [Wanted(str(number)) for number in range(TAKEN_IN_MAX + 1)]
    me = owner("me", any_of(*many))
    collection = Collection([me])
    for lock in many:
        collection.hear(lock, [Hold(lock, 1, me)])
    (suspicion,) = collection.suspicions()
    assert len(suspicion.locks()) == len(many)


def test_a_large_deadlock_is_shrunk_only_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    size = 3000
    ring: dict[int, Condition[int]] = {node: all_of((node + 1) % size) for node in range(size)}
    looks = []
    stuck = Graph.stuck

    def count(self: Graph[Any], within: Any) -> tuple[Any, ...]:
        looks.append(1)
        return stuck(self, within)

    monkeypatch.setattr(Graph, "stuck", count)
    (core,) = Graph(ring).cores()
    assert set(core) == set(ring)
    assert len(looks) * size <= 2 * wait_for.SHRINKING_STEPS_MAX
