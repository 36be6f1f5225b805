"""One process that gives out locks, under each strategy: every interleaving, and each rule broken."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from coterie.algorithms.deadlock.allocator import (
    Allocator,
    Client,
    Ended,
    Given,
    Job,
    Refused,
    Want,
)
from coterie.algorithms.deadlock.strategies import STRATEGIES, Table, WaitDie, WoundWait
from coterie.lab.explore import Always, CanAlwaysStill, Together, check
from coterie.process import Outbox, Process, Seat
from tests.harness import broken_class

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.lab.explore import Verdict

CROSSED = (((1, 2),), ((2, 1),))
RING = (((1, 2),), ((2, 3),), ((3, 1),))
HANG = "wait forever"


def clients(
    strategy: str, *jobs: Sequence[tuple[int, ...]], kind: type[Client] = Client
) -> list[Process[Any]]:
    allocator = len(jobs) + 1
    in_order = STRATEGIES[strategy].in_order
    return [
        kind(
            me,
            allocator,
            tuple(Job(1.0, tuple(sorted(locks) if in_order else locks), 1.0) for locks in mine),
        )
        for me, mine in enumerate(jobs, 1)
    ]


def explore(
    strategy: str, jobs: Sequence[Sequence[tuple[int, ...]]], max_states: int = 100_000
) -> Verdict:
    processes = [*clients(strategy, *jobs), Allocator(len(jobs) + 1, strategy)]
    return check(processes, properties=PROPERTIES, max_states=max_states)


def ended(seat: Seat) -> bool:
    return bool(getattr(seat.process, "finished", True))


def no_lock_has_two(seats: Sequence[Seat | None]) -> bool:
    """Clients know of no lock that two of them have: what is given back is given on only then."""
    processes: list[Any] = [seat.process for seat in seats if seat is not None]
    taken = [
        lock
        for client in processes
        if getattr(client, "trying", False)
        for lock in client.jobs[client.ended].locks[: client.taken]
    ]
    return len(taken) == len(set(taken))


PROPERTIES = (
    CanAlwaysStill("nobody hangs", ended, "end"),
    Always("no lock has two", (Together(no_lock_has_two),), "a lock has two"),
)


@pytest.mark.parametrize(
    ("strategy", "crossed", "ring"),
    [("detect", 99, 1062), ("avoid", 76, 982), ("order", 63, 783), ("wound-wait", 162, 4517)],
)
def test_nobody_hangs_in_any_interleaving(strategy: str, crossed: int, ring: int) -> None:
    for jobs, states in ((CROSSED, crossed), (RING, ring)):
        verdict = explore(strategy, jobs)
        assert (verdict.verdict, verdict.states) == ("verified", states), verdict.reason


def test_to_do_nothing_ends_in_a_deadlock() -> None:
    verdict = explore("nothing", CROSSED)
    assert verdict.verdict == "violated"
    assert HANG in verdict.reason


def test_a_young_job_dies_again_and_again_while_an_old_one_holds() -> None:
    """So attempts have no bound, and the search none: what it saw is sound."""
    verdict = explore("wait-die", CROSSED, max_states=20_000)
    assert verdict.verdict == "unfinished", verdict.reason


def test_to_search_from_time_to_time_leaves_nobody_behind() -> None:
    processes = [*clients("detect", *CROSSED), Allocator(3, "detect", 1.0)]
    verdict = check(processes, properties=PROPERTIES)
    assert (verdict.verdict, verdict.states) == ("verified", 129), verdict.reason


@pytest.mark.parametrize("strategy", ["wait-die", "wound-wait"])
def test_no_wait_is_in_the_direction_that_the_age_forbids(strategy: str) -> None:
    def sound(seats: Sequence[Seat | None]) -> bool:
        allocator = seats[-1]
        assert allocator is not None
        assert isinstance(allocator.process, Allocator)
        return all_waits_are_allowed(allocator.process, strategy)

    verdict = check(
        [*clients(strategy, *RING), Allocator(4, strategy)],
        properties=(Always("ages", (Together(sound),), "a wait that the age forbids"),),
        max_states=20_000,
    )
    assert verdict.verdict in ("verified", "unfinished"), verdict.reason


def all_waits_are_allowed(allocator: Allocator, strategy: str) -> bool:
    for asker in allocator.table.waiting():
        assert asker.wants is not None
        holder = allocator.table.holder(asker.wants)
        assert holder is not None
        older_waits = asker.age < holder.age
        ends = holder.client in allocator.refused
        if not ends and older_waits != (strategy == "wait-die"):
            return False
    return True


def test_a_lock_that_is_free_is_held_back_where_the_state_would_not_be_safe() -> None:
    allocator = Allocator(3, "avoid")
    first, second = Outbox[Any](3), Outbox[Any](3)
    allocator.receive(1, Want(1, 7, 0.0, (7, 8)), first)
    allocator.receive(2, Want(1, 8, 0.0, (7, 8)), second)
    assert first.sends == [(1, Given(1))]
    assert second.sends == []
    assert allocator.held_back == 1
    allocator.receive(1, Ended(1), out := Outbox[Any](3))
    assert out.sends == [(2, Given(1))]


def test_a_lock_goes_to_the_youngest_under_wait_die_and_to_the_oldest_under_wound_wait() -> None:
    table = Table()
    for client, born in ((1, 5.0), (2, 3.0), (3, 4.0)):
        table.ask(client, 1, 7, born, (7,))
    young = sorted(table.waiting(), key=WaitDie().turn)
    old = sorted(table.waiting(), key=WoundWait().turn)
    assert [each.client for each in young] == [1, 3, 2]
    assert [each.client for each in old] == [2, 3, 1]


def test_what_crosses_the_end_of_an_attempt_is_ignored() -> None:
    client = Client(1, 2, (Job(1.0, (7,), 1.0), Job(1.0, (8,), 1.0)))
    client.ring("next", Outbox(1))
    client.receive(2, Refused(1), out := Outbox[Any](1))
    assert out.sends == [(2, Ended(1))]
    client.receive(2, Given(1), late := Outbox[Any](1))
    client.receive(2, Refused(1), late)
    assert (late.sends, late.timers, client.taken) == ([], [], 0)


MUTANTS = (
    (Allocator, "self.table.forget(sender)", "pass"),
    (Allocator, "if self.table.holder(asker.wants) is None and strategy", "if strategy"),
    (Allocator, "victim.wants = None", "self.table.forget(victim.client)"),
    (Allocator, "self.refused.discard(sender)", "pass"),
    (Client, "out.set_timer(NEXT, self.pause)", "pass"),
    (Client, "return self.trying and attempt == self.attempt", "return True"),
)


@pytest.mark.parametrize(("kind", "old", "new"), MUTANTS)
def test_a_broken_rule_is_noticed(kind: type, old: str, new: str) -> None:
    module = sys.modules[broken_class(kind, old, new).__module__]  # with messages of its own
    for strategy in ("detect", "wound-wait"):
        jobs = clients(strategy, ((1, 2), (1, 2)), ((2, 1), (2, 1)), kind=module.Client)
        verdict = check(
            [*jobs, module.Allocator(3, strategy)], properties=PROPERTIES, max_states=20_000
        )
        if verdict.verdict == "violated":
            return
    pytest.fail("nothing noticed it")


def test_the_same_jobs_unbroken_are_not_objected_to() -> None:
    for strategy in ("detect", "wound-wait"):
        jobs = (((1, 2), (1, 2)), ((2, 1), (2, 1)))
        assert explore(strategy, jobs, max_states=20_000).verdict == "verified"
