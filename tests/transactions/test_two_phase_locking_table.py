"""The lock table alone: modes, lines, upgrades, ranges, and what it does not put up with."""

from __future__ import annotations

from itertools import product

import pytest

from coterie.errors import MisuseError
from coterie.transactions.schemes.span import Span
from coterie.transactions.schemes.two_phase_locking import (
    EXCLUSIVE,
    SHARED,
    UPDATE,
    LockTable,
    Mode,
)


def blockers(locks: LockTable, owner: str) -> list[str]:
    return list(dict.fromkeys(locks.blockers(locks.waiting[owner])))


def owners(locks: LockTable, leaving: str) -> list[str]:
    return [claim.owner for claim in locks.leave(leaving)]


@pytest.mark.parametrize(("held", "asked"), list(product(Mode, Mode)))
def test_shared_goes_with_shared_and_update_and_nothing_else_goes_together(
    held: Mode, asked: Mode
) -> None:
    """2.1 c: update is compatible with shared, but not with update or exclusive."""
    locks = LockTable()
    assert locks.acquire("T1", "x", held)
    together = {(SHARED, SHARED), (SHARED, UPDATE), (UPDATE, SHARED)}
    assert locks.acquire("T2", "x", asked) is ((held, asked) in together)


# 2.1 a: well-formed and two-phase, enforced


def test_access_without_a_lock_raises() -> None:
    locks = LockTable()
    with pytest.raises(MisuseError, match="T1 accesses x without a lock: shared"):
        locks.require("T1", "x", SHARED)
    locks.acquire("T1", "x", SHARED)
    locks.require("T1", "x", SHARED)
    with pytest.raises(MisuseError, match="T1 accesses x without a lock: exclusive"):
        locks.require("T1", "x", EXCLUSIVE)


def test_a_place_in_line_is_no_lock() -> None:
    locks = LockTable()
    locks.acquire("T1", "x", EXCLUSIVE)
    assert not locks.acquire("T2", "x", SHARED)
    with pytest.raises(MisuseError, match="without a lock"):
        locks.require("T2", "x", SHARED)


def test_a_lock_after_the_first_unlock_raises() -> None:
    locks = LockTable()
    locks.acquire("T1", "x", EXCLUSIVE)
    locks.acquire("T1", "y", EXCLUSIVE)
    locks.release("T1", "x")
    with pytest.raises(MisuseError, match="T1 asks for a lock on z after it has released one"):
        locks.acquire("T1", "z", SHARED)
    with pytest.raises(MisuseError, match="T1 asks for a lock on a range after"):
        locks.acquire_span("T1", Span("a", "b"))
    with pytest.raises(MisuseError, match="after it has released one"):
        locks.acquire("T1", "y", SHARED)  # not even one that it has


def test_a_double_release_raises() -> None:
    locks = LockTable()
    locks.acquire("T1", "x", EXCLUSIVE)
    locks.release("T1", "x")
    with pytest.raises(MisuseError, match="T1 releases x, but has not locked it"):
        locks.release("T1", "x")
    with pytest.raises(MisuseError, match="T2 releases x, but has not locked it"):
        locks.release("T2", "x")


def test_who_waits_for_one_lock_asks_for_no_other() -> None:
    locks = LockTable()
    locks.acquire("T1", "x", EXCLUSIVE)
    locks.acquire("T1", "y", SHARED)
    locks.acquire("T2", "x", SHARED)
    with pytest.raises(MisuseError, match="T2 waits for x and asks for another lock"):
        locks.acquire("T2", "y", EXCLUSIVE)


# 2.1 c: upgrades


def test_an_upgrade_is_granted_at_once_when_nobody_else_has_the_key() -> None:
    locks = LockTable()
    for mode in Mode:
        assert locks.acquire("T1", "x", mode)
    assert not locks.acquire("T2", "x", SHARED)


def test_an_upgrade_waits_for_the_other_holders_only() -> None:
    locks = LockTable()
    for owner in ("T1", "T2", "T3"):
        locks.acquire(owner, "x", SHARED)
    assert not locks.acquire("T2", "x", EXCLUSIVE)
    assert blockers(locks, "T2") == ["T1", "T3"]
    assert owners(locks, "T1") == []
    assert owners(locks, "T3") == ["T2"]
    locks.require("T2", "x", EXCLUSIVE)


def test_an_upgrade_stands_before_claims_that_came_earlier() -> None:
    """2.1 c: behind them it would wait for somebody who waits for it."""
    locks = LockTable()
    locks.acquire("T1", "x", SHARED)
    locks.acquire("T2", "x", SHARED)
    assert not locks.acquire("T3", "x", EXCLUSIVE)
    assert not locks.acquire("T4", "x", SHARED)
    assert not locks.acquire("T1", "x", EXCLUSIVE)
    assert blockers(locks, "T1") == ["T2"]
    assert blockers(locks, "T3") == ["T1", "T2"]
    assert blockers(locks, "T4") == ["T1", "T3"]
    assert owners(locks, "T2") == ["T1"]
    assert owners(locks, "T1") == ["T3"]
    assert owners(locks, "T3") == ["T4"]


def test_an_upgrade_of_the_only_holder_overtakes_who_waits() -> None:
    locks = LockTable()
    locks.acquire("T1", "x", SHARED)
    assert not locks.acquire("T2", "x", EXCLUSIVE)
    assert locks.acquire("T1", "x", EXCLUSIVE)


def test_an_update_lock_becomes_exclusive_when_the_readers_have_gone() -> None:
    locks = LockTable()
    locks.acquire("T1", "x", UPDATE)
    locks.acquire("T2", "x", SHARED)
    assert not locks.acquire("T3", "x", UPDATE)
    assert not locks.acquire("T1", "x", EXCLUSIVE)
    assert not locks.acquire("T4", "x", SHARED)  # does not slip in before the upgrade
    assert owners(locks, "T2") == ["T1"]
    assert owners(locks, "T1") == ["T3", "T4"]


# 2.1 d: queue edges


def test_a_reader_behind_a_writer_in_line_waits_for_that_writer() -> None:
    """2.1 d: the writer is not starved, and whoever looks for deadlocks must know."""
    locks = LockTable()
    locks.acquire("T1", "x", SHARED)
    locks.acquire("T2", "x", EXCLUSIVE)
    assert not locks.acquire("T3", "x", SHARED)
    assert blockers(locks, "T3") == ["T2"]


def test_readers_cannot_starve_a_writer() -> None:
    """However many readers follow each other, a writer waits for those before it only."""
    locks = LockTable()
    locks.acquire("R0", "x", SHARED)
    locks.acquire("W", "x", EXCLUSIVE)
    for number in range(1, 50):
        assert not locks.acquire(f"R{number}", "x", SHARED)
        assert blockers(locks, "W") == ["R0"]
    assert owners(locks, "R0") == ["W"]
    assert len(owners(locks, "W")) == 49


# 2.1 e: re-entry


@pytest.mark.parametrize(
    ("first", "second"),
    [(SHARED, SHARED), (UPDATE, SHARED), (EXCLUSIVE, SHARED), (EXCLUSIVE, EXCLUSIVE)],
)
def test_what_is_locked_already_is_not_locked_again(first: Mode, second: Mode) -> None:
    """2.1 e: even while others stand in line, and nothing is left over at the end."""
    locks = LockTable()
    locks.acquire("T1", "x", first)
    locks.acquire("T2", "x", EXCLUSIVE)
    for _ in range(3):
        assert locks.acquire("T1", "x", second)
    assert locks.held == {"x": {"T1": first}}
    assert locks.keys == {"T1": ["x"]}
    assert owners(locks, "T1") == ["T2"]
    assert owners(locks, "T2") == []
    assert locks == LockTable(tickets=1)


# 2.1 f: waking up


def test_all_who_can_go_on_are_granted_at_once() -> None:
    locks = LockTable()
    locks.acquire("T1", "x", EXCLUSIVE)
    asked = [SHARED, SHARED, UPDATE, SHARED, UPDATE, SHARED, EXCLUSIVE, SHARED]
    for number, mode in enumerate(asked, start=2):
        assert not locks.acquire(f"T{number}", "x", mode)
    # T6 has to wait for T4's update lock; T7 conflicts with neither.
    assert owners(locks, "T1") == ["T2", "T3", "T4", "T5", "T7"]


def test_a_waiter_that_leaves_lets_those_behind_it_go_on() -> None:
    """2.1 f: a writer in line between two groups of readers is cancelled."""
    locks = LockTable()
    locks.acquire("T1", "x", SHARED)
    locks.acquire("T2", "x", EXCLUSIVE)
    locks.acquire("T3", "x", SHARED)
    locks.acquire("T4", "x", SHARED)
    assert owners(locks, "T2") == ["T3", "T4"]
    assert not locks.queues


def test_one_who_leaves_before_it_has_anything_leaves_no_trace() -> None:
    locks = LockTable()
    locks.acquire("T1", "x", EXCLUSIVE)
    locks.acquire("T2", "x", EXCLUSIVE)
    locks.acquire_span("T3", Span("a", "z"))
    for owner in ("T2", "T3", "T1"):
        assert owners(locks, owner) == []
    assert locks == LockTable(tickets=2)


# 2.1 g: ranges


def test_a_range_keeps_writers_out_of_it_and_lets_readers_in() -> None:
    locks = LockTable()
    assert locks.acquire_span("T1", Span("b", "d"))
    assert locks.acquire("T2", "b", UPDATE)
    assert locks.acquire("T2", "a", EXCLUSIVE)
    assert locks.acquire("T2", "d", EXCLUSIVE)
    assert not locks.acquire("T2", "c", EXCLUSIVE)  # a key that nobody has ever seen
    assert blockers(locks, "T2") == ["T1"]
    assert owners(locks, "T1") == ["T2"]


def test_a_range_waits_for_every_writer_within_and_no_other() -> None:
    locks = LockTable()
    locks.acquire("T1", "b", EXCLUSIVE)
    locks.acquire("T2", "c", EXCLUSIVE)
    locks.acquire("T3", "d", EXCLUSIVE)
    locks.acquire("T4", "c1", UPDATE)
    assert not locks.acquire_span("T5", Span("b", "d"))
    assert blockers(locks, "T5") == ["T1", "T2"]
    assert owners(locks, "T1") == []
    assert owners(locks, "T2") == ["T5"]


def test_a_range_stands_behind_writers_that_came_before_it_and_before_later_ones() -> None:
    """Neither scans nor writers overtake each other for ever."""
    locks = LockTable()
    locks.acquire_span("T1", Span("a", "c"))
    locks.acquire("T2", "b", EXCLUSIVE)
    locks.acquire("T3", "z", EXCLUSIVE)
    assert not locks.acquire_span("T4", Span("a"))
    assert not locks.acquire("T5", "y", EXCLUSIVE)
    assert blockers(locks, "T4") == ["T3", "T2"]
    assert blockers(locks, "T5") == ["T4"]
    assert owners(locks, "T1") == ["T2"]
    assert owners(locks, "T2") == []
    assert owners(locks, "T3") == ["T4"]
    assert owners(locks, "T4") == ["T5"]


def test_a_range_that_leaves_the_line_lets_writers_within_go_on() -> None:
    """2.1 f, with ranges."""
    locks = LockTable()
    locks.acquire("T1", "b", EXCLUSIVE)
    locks.acquire_span("T2", Span("a", "d"))
    assert not locks.acquire("T3", "c", EXCLUSIVE)
    assert owners(locks, "T2") == ["T3"]


def test_a_writer_does_not_stand_behind_a_range_that_waits_for_it() -> None:
    locks = LockTable()
    locks.acquire("T1", "b", EXCLUSIVE)
    assert not locks.acquire_span("T2", Span("a", "d"))
    assert locks.acquire("T1", "c", EXCLUSIVE)
    assert blockers(locks, "T2") == ["T1"]


def test_a_range_passes_writers_that_wait_for_its_owner() -> None:
    locks = LockTable()
    locks.acquire("T1", "b", SHARED)
    assert not locks.acquire("T2", "b", EXCLUSIVE)
    assert locks.acquire_span("T1", Span("a", "d"))


def test_within_its_own_range_a_reader_needs_no_lock_and_a_writer_upgrades() -> None:
    locks = LockTable()
    locks.acquire_span("T1", Span("a", "d"))
    assert not locks.acquire("T2", "b", EXCLUSIVE)
    assert locks.acquire("T1", "b", SHARED)
    assert locks.acquire_span("T1", Span("b", "c"))
    assert locks.spans == {"T1": [Span("a", "d")]}
    locks.require("T1", "b", SHARED)
    with pytest.raises(MisuseError):
        locks.require("T1", "b", UPDATE)
    assert locks.acquire("T1", "b", EXCLUSIVE)
    assert blockers(locks, "T2") == ["T1"]


def test_an_upgrade_also_stands_before_ranges_behind_the_claims_that_it_overtakes() -> None:
    """T3 waits for T2, who waits for T1: behind T3, T1 would wait for itself."""
    locks = LockTable()
    locks.acquire("T1", "b", SHARED)
    assert not locks.acquire("T2", "b", EXCLUSIVE)
    assert not locks.acquire_span("T3", Span("a", "d"))
    assert locks.acquire("T1", "b", EXCLUSIVE)
    assert blockers(locks, "T3") == ["T1", "T2"]


def test_an_upgrade_does_not_overtake_a_range_that_does_not_wait_for_it() -> None:
    """A stream of reads that become writes would starve it."""
    locks = LockTable()
    locks.acquire("T1", "c", EXCLUSIVE)
    assert not locks.acquire_span("T2", Span("a", "d"))
    assert locks.acquire("T3", "b", SHARED)
    assert not locks.acquire("T3", "b", EXCLUSIVE)
    assert blockers(locks, "T3") == ["T2"]
    assert owners(locks, "T1") == ["T2"]
    assert owners(locks, "T2") == ["T3"]


def test_shared_locks_and_ranges_can_go_before_exclusive_ones() -> None:
    locks = LockTable()
    locks.acquire("T1", "x", SHARED)
    locks.acquire("T1", "y", EXCLUSIVE)
    locks.acquire_span("T1", Span("a", "d"))
    locks.acquire("T2", "x", EXCLUSIVE)
    locks.acquire("T3", "y", EXCLUSIVE)
    locks.acquire("T4", "b", EXCLUSIVE)
    assert [claim.owner for claim in locks.release_shared("T1")] == ["T2", "T4"]
    with pytest.raises(MisuseError, match="after it has released one"):
        locks.acquire("T1", "z", SHARED)
    assert owners(locks, "T1") == ["T3"]
