"""Deadlocks among owners of locks, by asking twice: rules, random services, and the rules broken."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import pytest

import tests.algorithms.deadlock.lock_service
from coterie.algorithms.deadlock.condition import Condition, all_of, any_of
from coterie.algorithms.deadlock.double_collect import Core, cores
from coterie.algorithms.deadlock.wait_for import Graph
from coterie.errors import DeadlockDetected
from coterie.locks.deadlocks.collection import Collection
from coterie.locks.deadlocks.graph import lasting_graph
from coterie.locks.deadlocks.reports import (
    Hold,
    LockOwner,
    LockWait,
    OwnerId,
    Requester,
    Wanted,
    choose_victim,
    names,
)
from tests.algorithms.deadlock.lock_service import Service, search
from tests.harness import broken_class

if TYPE_CHECKING:
    from collections.abc import Container

ANN, BOB, EVE = OwnerId("p", 1), OwnerId("q", 1), OwnerId("r", 1)
A, B, C, D, X, HOT = map(Wanted, ("a", "b", "c", "d", "x", "hot"))


def owner(
    who: OwnerId, wanted: Condition[Wanted] | Wanted | None = None, number: int = 1, **facts: Any
) -> LockOwner:
    condition = all_of(wanted) if isinstance(wanted, Wanted) else wanted
    facts = {"age": 0, "since": 0.0} | facts
    wait = None if condition is None else LockWait(number, condition, **facts)
    return LockOwner(who, f"host-{who.participant}:7", f"task-{who.number}", wait)


def crossed(**changes: Any) -> Collection:
    """Ann holds a and wants b, which Bob holds, who wants a and is the younger."""
    collection = Collection([owner(ANN, B)])
    collection.hear(B, [Hold(B, 20, owner(BOB, A, age=1))])
    collection.hear(A, [Hold(A, 10, owner(ANN, B, **changes))])
    return collection


# Rules


def test_the_first_pass_follows_the_waits_and_ends_where_somebody_runs() -> None:
    collection = Collection([owner(ANN, any_of(A, B))])
    assert collection.wanted() == [A, B]
    collection.hear(A, [Hold(A, 1, owner(BOB, C))])
    assert collection.wanted() == [B, C]
    collection.hear(B, [Hold(B, 1, owner(EVE))])
    collection.hear(C)
    assert collection.wanted() == []
    assert not collection.suspicions()


def test_two_who_wait_for_each_others_lock_are_a_deadlock_and_the_youngest_gives_way() -> None:
    (suspicion,) = crossed().suspicions()
    assert suspicion.victim is not None
    assert suspicion.victim.id == BOB
    assert sorted(suspicion.locks()) == [A, B]


def test_silence_about_a_lock_is_no_deadlock() -> None:
    collection = Collection([owner(ANN, B)])
    collection.hear(B, [Hold(B, 20, owner(BOB, A))])
    assert not collection.suspicions(), "nothing was said about a"


def test_who_is_told_to_be_in_two_waits_in_one_pass_has_gone_on() -> None:
    """The second report neither replaces the first nor is it dropped."""
    assert not crossed(number=2).suspicions()


def test_who_is_told_to_wait_and_then_to_run_has_gone_on_and_stays_so() -> None:
    collection = crossed()
    collection.hear(C, [Hold(C, 30, owner(BOB))])
    collection.hear(D, [Hold(D, 40, owner(BOB, A, age=1))])
    assert not collection.suspicions()


def test_a_waiter_at_two_places_is_caught_by_a_cycle_through_either() -> None:
    """Both waits of one owner count, whichever was reported last."""
    for closing in (A, B):
        collection = Collection([owner(ANN, all_of(A, B))])
        for lock in (A, B):
            holder = owner(BOB, X) if lock == closing else owner(EVE)
            collection.hear(lock, [Hold(lock, 1, holder)])
        collection.hear(X, [Hold(X, 2, owner(ANN, all_of(A, B)))])
        assert len(collection.suspicions()) == 1


def test_a_lock_that_a_thousand_wait_for_has_a_thousand_and_one_edges() -> None:
    crowd = [owner(OwnerId("p", number), HOT) for number in range(1000)]
    collection = Collection(crowd)
    assert collection.wanted() == [HOT]
    collection.hear(HOT, [Hold(HOT, 1, owner(BOB))])
    assert sum(map(len, collection.graph().edges().values())) == 1001


def test_of_several_that_will_do_one_that_can_be_had_is_an_escape() -> None:
    def found(escape: LockOwner) -> int:
        collection = Collection([owner(ANN, any_of(B, C))])
        collection.hear(B, [Hold(B, 1, owner(BOB, A))])
        collection.hear(A, [Hold(A, 2, owner(ANN, any_of(B, C)))])
        collection.hear(C, [Hold(C, 3, escape)])
        return len(collection.suspicions())

    assert found(owner(EVE)) == 0
    assert found(owner(EVE, A)) == 1


@pytest.mark.parametrize(
    ("changed", "stands"),
    [
        (Hold(A, 10, owner(ANN, B)), True),
        (Hold(A, 11, owner(ANN, B)), False),
        (Hold(A, 10, owner(EVE, B)), False),
        (Hold(A, 10, owner(ANN, B, 2)), False),
        (Hold(A, 10, owner(ANN)), False),
        (None, False),
    ],
    ids=["the same", "another token", "another owner", "another wait", "runs", "free"],
)
def test_what_has_changed_between_the_passes_is_no_deadlock(
    changed: Hold | None, stands: bool
) -> None:
    (suspicion,) = crossed().suspicions()
    again = {B: [Hold(B, 20, owner(BOB, A))], A: [changed] if changed else []}
    assert suspicion.stands(again) is stands


def test_everyone_names_the_same_victim_whoever_asks_and_in_whatever_order() -> None:
    ring = {A: ANN, B: BOB, C: EVE}
    wants = {ANN: B, BOB: C, EVE: A}
    victims, cores = set(), set()
    for first in ring.values():
        collection = Collection([owner(first, wants[first], age=3)])
        while wanted := collection.wanted():
            holder = ring[wanted[0]]
            collection.hear(wanted[0], [Hold(wanted[0], 1, owner(holder, wants[holder], age=3))])
        (suspicion,) = collection.suspicions()
        assert suspicion.victim is not None
        victims.add(suspicion.victim.id)
        cores.add(suspicion.owners)
    assert victims == {EVE}, "of the same age, the highest name"
    assert len(cores) == 1


def test_who_was_picked_often_is_spared_while_another_was_picked_less() -> None:
    often, seldom = owner(ANN, B, age=9, picked=3), owner(BOB, A, age=1, picked=2)
    assert choose_victim([often, seldom]) == seldom
    all_often = [owner(ANN, B, age=9, picked=3), owner(BOB, A, age=1, picked=4)]
    assert choose_victim(all_often) == all_often[0]


def test_who_does_not_detect_cannot_give_way() -> None:
    deaf = owner(BOB, A, age=9, gives_way=False)
    assert choose_victim([owner(ANN, B), deaf]) == owner(ANN, B)
    assert choose_victim([deaf]) is None


def test_the_error_names_owners_locks_tokens_and_times() -> None:
    (suspicion,) = crossed().suspicions()
    error = suspicion.error(A)
    assert isinstance(error, DeadlockDetected)
    assert str(error) == (
        "lock 'a' can never be granted: a deadlock (cycle) in which host-q:7 waits for lock a since"
        " 1970-01-01T00:00:00Z; a is held by host-p:7; host-p:7 waits for lock b since"
        " 1970-01-01T00:00:00Z; b is held by host-q:7. host-q:7 gives way, since its request is the"
        " youngest: release what you hold, then try again"
    )
    assert error.kind == "cycle"
    assert [(m.owner, m.waits_for, m.holds) for m in error.members] == [
        ("host-p:7", ("b",), {"a": 10}),
        ("host-q:7", ("a",), {"b": 20}),
    ]


def test_the_error_says_if_an_older_one_gives_way() -> None:
    collection = Collection([owner(ANN, B)])
    collection.hear(B, [Hold(B, 20, owner(BOB, A, age=1, gives_way=False))])
    collection.hear(A, [Hold(A, 10, owner(ANN, B))])
    (suspicion,) = collection.suspicions()
    assert "host-p:7 gives way, since younger ones cannot" in str(suspicion.error(B))


def test_tasks_are_named_where_the_process_is_not_enough() -> None:
    other = LockOwner(OwnerId("p", 2), "host-p:7", "task-2", None)
    twin = LockOwner(OwnerId("p", 3), "host-p:7", "task-2", None)
    assert list(names([owner(ANN), owner(BOB), other, twin]).values()) == [
        "host-p:7 task-1",
        "host-q:7",
        "host-p:7 task-2",
        "host-p:7 task-2 #3",
    ]


def test_what_is_said_survives_the_wire() -> None:
    shared = Wanted("b", shared=True, requester=Requester("p", 1))
    hold = Hold(A, 10, owner(ANN, any_of(shared, all_of(C, D)), age=5, picked=1))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(hold), type=Hold) == hold


def test_people_are_shown_the_lock_and_the_mode_that_is_wanted() -> None:
    assert str(A) == "a"
    assert str(Wanted("a", shared=True, requester=Requester("p", 1))) == "a (shared)"


def test_the_graph_for_people_shows_what_lasted_between_two_passes() -> None:
    graph = lasting_graph(crossed(), crossed())
    assert graph.deadlocked() == ("host-p:7", "host-q:7", "a", "b")
    assert graph.since["host-p:7"] == "1970-01-01T00:00:00Z"
    moved = Collection([owner(ANN, B)])
    moved.hear(B, [Hold(B, 20, owner(BOB, A, age=1))])
    moved.hear(A, [Hold(A, 11, owner(ANN, B))])
    assert not lasting_graph(crossed(), moved).deadlocked(), "a has changed hands meanwhile"


# Random services


def verdicts(lock_service: Any, seed: int) -> list[str]:
    """Let somebody search again and again in a restless service; give the objections of a referee.

    They are empty where there is nothing to object to.
    """
    service = lock_service.Service(Random(seed))
    found = []
    for _ in range(5):
        service.go_on()
        if service.waits:
            root = service.random.choice(sorted(service.waits))
            for suspicion, truth in lock_service.search(service, [root]):
                found.append(lock_service.object_to(suspicion, truth))
    return found


@pytest.mark.slow
def test_no_verdict_is_a_phantom_while_locks_change_hands() -> None:
    count = 0
    for seed in range(2000):
        found = verdicts(tests.algorithms.deadlock.lock_service, seed)
        assert not any(found), f"seed {seed}: {found}"
        count += len(found)
    assert count > 500, "there is something to be wrong about"


@pytest.mark.slow
def test_once_it_is_quiet_every_deadlock_is_found_and_broken_by_one_victim_each() -> None:
    broken_off = 0
    for seed in range(1000):
        service = Service(Random(seed))
        for _ in range(30):
            service.go_on()
        service.restless = 0.0
        while stuck := [n for n in service.truth().graph().deadlocked() if isinstance(n, OwnerId)]:
            cores = service.truth().graph().cores()
            victims = set()
            for owner in sorted(service.waits):
                for suspicion, _ in search(service, [owner]):
                    assert suspicion.victim is not None
                    assert suspicion.victim.id in stuck, f"seed {seed}: it can go on"
                    if suspicion.victim.id == owner:
                        victims.add(owner)
            assert len(victims) == len(cores), f"seed {seed}"
            for victim in sorted(victims):
                service.give_up(victim)
            broken_off += len(victims)
    assert broken_off > 300, "there is something to be found"


# Another user of the double collect: transactions that wait for transactions, reported by sites


class Waiter(NamedTuple):
    """A transaction that waits at a site; the number tells this wait from all others."""

    site: int
    name: str
    number: int
    targets: tuple[str, ...]

    def within(self, members: Container[str]) -> Waiter | None:
        targets = tuple(name for name in self.targets if name in members)
        return self._replace(targets=targets) if self.name in members and targets else None

    def is_still(self, before: Waiter) -> bool:
        return self[:3] == before[:3] and set(before.targets) <= set(self.targets)


FIRST, SECOND = Waiter(1, "t", 1, ("u", "v")), Waiter(2, "u", 1, ("t",))


def waiting(*waiters: Waiter) -> Graph[str]:
    return Graph({waiter.name: all_of(*waiter.targets) for waiter in waiters})


def test_a_core_consists_of_what_the_reports_say_of_its_members() -> None:
    third = Waiter(2, "w", 1, ("t",))
    (core,) = cores(waiting(FIRST, SECOND, third), [FIRST, SECOND, third])
    assert core.nodes == ("t", "u")
    assert core.reports == (FIRST._replace(targets=("u",)), SECOND)
    assert not cores(waiting(FIRST, third), [FIRST, third])


@pytest.mark.parametrize(
    ("again", "stands"),
    [
        ([FIRST, SECOND], True),
        ([FIRST._replace(targets=("u",)), SECOND], True),
        ([FIRST._replace(targets=("v",)), SECOND], False),
        ([FIRST._replace(number=2), SECOND], False),
        ([FIRST], False),
    ],
    ids=["the same", "another has ended", "it waits for others", "it waits again", "one has ended"],
)
def test_a_core_stands_if_the_second_pass_reports_all_of_it(
    again: list[Waiter], stands: bool
) -> None:
    (core,) = cores(waiting(FIRST, SECOND), [FIRST, SECOND])
    assert core.stands(again) is stands


# The rules broken: classes with a method of theirs, and a piece of it that is replaced

MUTANTS: dict[str, tuple[type[Any], str, str, str]] = {
    "a single pass is enough": (
        Core,
        "stands",
        "any(now.is_still(report) for now",
        "any(now for now",
    ),
    "one confirmed hold is enough": (Core, "stands", "return all(any(", "return any(any("),
    "waits are not compared": (Hold, "is_still", "and mine.number == its.number", ""),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_rule_makes_phantoms(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, method, old, new = MUTANTS[name]
    monkeypatch.setattr(kind, method, getattr(broken_class(kind, old, new), method))
    assert any(any(verdicts(tests.algorithms.deadlock.lock_service, seed)) for seed in range(1000))
