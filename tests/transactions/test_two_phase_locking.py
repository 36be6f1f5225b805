"""Two-phase locking, rule by rule: what is granted, what waits, and who is refused in a deadlock."""

from __future__ import annotations

import pytest

from coterie.clocks import Stamp
from coterie.errors import MisuseError
from coterie.lab.serializability import check
from coterie.lab.trials.trial import Trial
from coterie.transactions.schemes.scheduler import (
    Accepted,
    Answer,
    Attempt,
    Committed,
    Found,
    Item,
    Listed,
    Prepared,
    Refused,
)
from coterie.transactions.schemes.span import Span
from coterie.transactions.schemes.two_phase_locking import SCHEME, Detection
from coterie.transactions.schemes.two_phase_locking.rules import DELETIONS_MAX
from tests.transactions.desk import Desk
from tests.transactions.leftovers import leftovers

VARIANTS = [variant.name for variant in SCHEME.variants]


def desk(*names: str) -> Desk:
    counter = Desk(Detection())
    counter.begin(*names)
    return counter


def found(answers: list[Answer]) -> list[tuple[str, bytes | None]]:
    """Name who has read what."""
    return [(a.transaction, a.value) for a in answers if isinstance(a, Found)]


# 2.0: common to all schemes


def test_a_waiter_that_is_cancelled_leaves_the_line_and_wakes_the_next() -> None:
    """2.0 d, 2.1 f: the one in the middle kept the last one waiting."""
    at = desk("T1", "T2", "T3")
    at.read("T1", "x")
    assert at.write("T2", "x", b"2") == []
    assert at.read("T3", "x") == []
    assert found(at.abort("T2")) == [("T3", None)]
    at.abort("T1")
    at.abort("T3")
    assert not leftovers(at.scheduler)


def test_a_grant_that_nobody_takes_up_is_returned() -> None:
    """2.0 d: the lock is granted, then its owner is cancelled before it hears of it."""
    at = desk("T1", "T2", "T3")
    at.write("T1", "x", b"1")
    at.write("T2", "x", b"2")
    at.read("T3", "x")
    assert Accepted("T2") in at.finish("T1")
    assert found(at.abort("T2")) == [("T3", b"1")]


def test_who_waits_for_a_lock_is_not_prepared() -> None:
    at = desk("T1", "T2")
    at.write("T1", "x", b"1")
    at.write("T2", "x", b"2")
    with pytest.raises(MisuseError, match="T2 waits for a lock and cannot be prepared"):
        at.prepare("T2")


# 2.1: locks


def test_readers_share_and_a_writer_waits_for_all_of_them() -> None:
    at = desk("T1", "T2", "T3")
    assert len(at.read("T1", "x")) == len(at.read("T2", "x")) == 1
    assert at.write("T3", "x", b"3") == []
    assert at.scheduler.waits() == {"T3": ("T1", "T2")}
    assert at.abort("T1") == []
    assert at.abort("T2") == [Accepted("T3")]


def test_exclusive_locks_stay_until_the_commit_is_applied() -> None:
    """2.1 b: a prepared transaction is not decided yet, so nobody reads what it writes."""
    at = desk("T1", "T2")
    at.write("T1", "x", b"1")
    assert at.read("T2", "x") == []
    [prepared] = at.prepare("T1")
    assert isinstance(prepared, Prepared)
    assert prepared.writes == {"x": b"1"}
    committed, read = at.commit("T1", prepared.number)
    assert isinstance(committed, Committed)
    assert read == Found("T2", "x", b"1", prepared.number)


@pytest.mark.parametrize("prepared", [False, True])
def test_a_reader_is_kept_waiting_until_an_abort_is_over_and_sees_the_old_value(
    prepared: bool,
) -> None:
    """2.1 b."""
    at = desk()
    at.put("T1", x=b"old")
    at.begin("T2", "T3")
    at.write("T2", "x", b"new")
    assert at.read("T3", "x") == []
    if prepared:
        assert len(at.prepare("T2")) == 1
    assert found(at.abort("T2")) == [("T3", b"old")]


def test_shared_locks_go_when_the_transaction_is_prepared() -> None:
    """2.1 b: nothing more is asked for then, at any site."""
    at = desk("T1", "T2", "T3")
    at.read("T1", "x")
    at.scan("T1", Span("a", "c"))
    at.write("T1", "y", b"1")
    assert at.write("T2", "x", b"2") == []
    assert at.write("T3", "b", b"3") == []
    assert at.prepare("T1")[1:] == [Accepted("T2"), Accepted("T3")]
    assert at.read("T2", "y") == []


def test_of_two_upgraders_exactly_one_gives_way_at_once() -> None:
    """2.1 c, 2.7 h: within the request that closes the deadlock."""
    at = desk("T1", "T2")
    at.read("T1", "x")
    at.read("T2", "x")
    assert at.write("T1", "x", b"1") == []
    assert at.write("T2", "x", b"2") == [
        Refused("T2", "deadlock", ("x",), ("T1",)),
        Accepted("T1"),
    ]


def test_an_upgrader_gets_its_lock_before_a_writer_in_line() -> None:
    """2.1 c."""
    at = desk("T1", "T2", "T3")
    at.read("T1", "x")
    at.read("T3", "x")
    assert at.write("T2", "x", b"2") == []
    assert at.write("T1", "x", b"1") == []
    assert at.abort("T3") == [Accepted("T1")]
    assert at.finish("T1")[1:] == [Accepted("T2")]


def test_reads_for_update_do_not_deadlock_as_reads_do() -> None:
    """2.1 c: the second waits instead, while plain readers come and go."""
    at = desk("T1", "T2", "T3")
    at.read("T1", "x", update=True)
    assert at.read("T2", "x", update=True) == []
    assert found(at.read("T3", "x")) == [("T3", None)]
    assert at.write("T1", "x", b"1") == []
    assert at.finish("T3")[1:] == []
    assert at.scheduler.waits() == {"T2": ("T1",)}
    assert found(at.finish("T1")) == [("T2", b"1")]


def test_a_deadlock_through_a_place_in_line_is_found() -> None:
    """2.1 d: T1 waits for T3, who stands behind T2, who waits for T1."""
    at = desk("T1", "T2", "T3")
    at.read("T1", "a")
    at.write("T3", "b", b"3")
    assert at.write("T2", "a", b"2") == []
    assert at.read("T3", "a") == []
    assert at.scheduler.waits() == {"T2": ("T1",), "T3": ("T2",)}
    answers = at.read("T1", "b")
    assert answers[0] == Refused("T3", "deadlock", ("b", "a"), ("T2", "T1"))
    assert found(answers) == [("T1", None)]


# 2.1 g: phantoms


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_scan_sees_the_same_twice_in_spite_of_an_insert(variant: str) -> None:
    """2.1 g: the insert waits, or gives way."""
    at = Desk(SCHEME.build(variant))
    at.put("T1", a=b"1", c=b"3")
    at.begin("T2", "T3")
    [before] = at.scan("T2", Span("a", "d"))
    assert Accepted("T3") not in at.write("T3", "b", b"2")
    assert at.scan("T2", Span("a", "d")) == [before]
    at.finish("T2")


def test_deletes_are_kept_out_of_a_range_and_an_empty_range_is_locked() -> None:
    at = desk()
    at.put("T1", b=b"1")
    at.begin("T2", "T3", "T4")
    at.scan("T2", Span("a", "c"))
    assert at.scan("T2", Span("m", "n")) == [Listed("T2", (), Span("m", "n"))]
    assert at.write("T3", "b", None) == []
    assert at.write("T4", "m", b"4") == []
    assert at.scheduler.waits() == {"T3": ("T2",), "T4": ("T2",)}


def test_a_scan_with_a_limit_locks_as_far_as_it_looked() -> None:
    at = desk()
    at.put("T1", a=b"1", b=b"2", c=b"3")
    at.begin("T2", "T3", "T4")
    [listed] = at.scan("T2", Span(), 2)
    assert isinstance(listed, Listed)
    assert [item.key for item in listed.items] == ["a", "b"]
    assert at.write("T3", "c", b"3") == [Accepted("T3")]
    assert at.write("T4", "aa", b"4") == []


def test_a_scan_that_has_waited_looks_and_locks_anew() -> None:
    """The keys that it was to end with are gone, so it gets farther, and waits once more."""
    at = desk()
    at.put("T1", a=b"1", b=b"2", c=b"3")
    at.begin("T2", "T3", "T4")
    at.write("T2", "a", None)
    at.write("T3", "b", b"new")
    assert at.scan("T4", Span(), 1) == []
    assert at.scheduler.waits() == {"T4": ("T2",)}
    assert len(at.finish("T2")) == 1
    assert at.scheduler.waits() == {"T4": ("T3",)}
    *_, listed = at.finish("T3")
    assert isinstance(listed, Listed)
    assert [(item.key, item.value) for item in listed.items] == [("a", None), ("b", b"new")]


# 2.7: deadlocks


def test_whoever_has_to_end_before_is_named_whatever_it_has() -> None:
    """2.7 a: every edge of a wait counts, of holders, of those in line and of ranges."""
    at = desk("T1", "T2", "T3", "T4", "T5")
    at.read("T1", "x")
    at.read("T2", "x")
    at.scan("T3", Span("w", "y"))
    assert at.write("T4", "x", b"4") == []
    assert at.read("T5", "x", update=True) == []
    assert at.scheduler.waits() == {"T4": ("T1", "T2", "T3"), "T5": ("T4",)}


def test_a_wait_that_closes_two_cycles_ends_in_none() -> None:
    """2.7 a: T3 waits for both others, who wait for it; both are older."""
    at = desk("T1", "T2", "T3")
    at.read("T1", "x")
    at.read("T2", "x")
    at.write("T3", "y", b"3")
    at.write("T3", "z", b"3")
    assert at.read("T1", "y") == []
    assert at.read("T2", "z") == []
    answers = at.write("T3", "x", b"3")
    assert [a.transaction for a in answers if isinstance(a, Refused)] == ["T3"]
    assert found(answers) == [("T1", None), ("T2", None)]


def test_two_victims_if_one_does_not_free_the_other() -> None:
    """The same, but who waits for both is the oldest: each of the others is in a cycle of its own."""
    at = desk("T1", "T2", "T3")
    at.write("T1", "y", b"1")
    at.write("T1", "z", b"1")
    at.read("T2", "x")
    at.read("T3", "x")
    assert at.read("T2", "y") == []
    assert at.read("T3", "z") == []
    answers = at.write("T1", "x", b"1")
    assert {a.transaction for a in answers if isinstance(a, Refused)} == {"T2", "T3"}
    assert answers[-1] == Accepted("T1")


def test_a_lock_that_changes_hands_is_waited_for_at_its_new_holder() -> None:
    """2.7 f: and a cycle through the new holder is found."""
    at = desk("T1", "T2", "T3")
    at.write("T1", "x", b"1")
    at.write("T3", "y", b"3")
    at.write("T2", "x", b"2")
    at.write("T3", "x", b"3")
    assert at.scheduler.waits() == {"T2": ("T1",), "T3": ("T1", "T2")}
    at.finish("T1")
    assert at.scheduler.waits() == {"T3": ("T2",)}
    answers = at.write("T2", "y", b"2")
    assert answers == [Refused("T3", "deadlock", ("y", "x"), ("T2",)), Accepted("T2")]


def test_nobody_is_refused_for_a_cycle_that_is_over() -> None:
    """2.7 e: T2's wait ended with T1, though T1 waited for T2's lock a moment ago."""
    at = desk("T1", "T2", "T3")
    at.write("T1", "x", b"1")
    at.write("T2", "y", b"2")
    at.write("T1", "y", b"1")
    at.abort("T1")
    assert at.write("T2", "x", b"2") == [Accepted("T2")]
    assert at.write("T3", "y", b"3") == []
    assert not any(isinstance(answer, Refused) for answer in at.finish("T2"))


def test_the_victim_is_the_youngest_whoever_closes_the_cycle() -> None:
    """2.7 g: and a further attempt is as old as the first."""
    for closing in ("T1", "T2"):
        at = Desk(Detection())
        at.scheduler.begin(Attempt("T1", Stamp(8, 1), Stamp(7, 1)), [])
        at.scheduler.begin(Attempt("T2", Stamp(9, 1), Stamp(5, 1)), [])  # first tried before T1
        at.write("T1", "x", b"1")
        at.write("T2", "y", b"2")
        asks = {"T1": "y", "T2": "x"}
        first = "T2" if closing == "T1" else "T1"
        assert at.write(first, asks[first], b"") == []
        answers = at.write(closing, asks[closing], b"")
        assert [a.transaction for a in answers if isinstance(a, Refused)] == ["T1"]


def test_one_that_has_been_a_victim_often_is_spared_for_another() -> None:
    """2.7 g: the bound on repeated picks; among equals the youngest goes all the same."""
    for failures, victim in ((2, "T2"), (3, "T1")):
        at = Desk(Detection())
        at.begin("T1")
        at.scheduler.begin(Attempt("T2", Stamp(9, 1), Stamp(9, 1), failures), [])
        at.write("T1", "x", b"1")
        at.write("T2", "y", b"2")
        at.write("T1", "y", b"1")
        answers = at.write("T2", "x", b"2")
        assert [a.transaction for a in answers if isinstance(a, Refused)] == [victim]


def test_a_victim_of_another_sites_detector_is_refused_and_told() -> None:
    at = desk("T1", "T2")
    at.write("T1", "x", b"1")
    at.write("T2", "x", b"2")
    out: list[Answer] = []
    at.scheduler.refuse("T1", "deadlock", ["x", "y at site 2"], ["T2"], out)
    assert out == [Refused("T1", "deadlock", ("x", "y at site 2"), ("T2",)), Accepted("T2")]


def test_only_detection_needs_a_detector_across_sites() -> None:
    needs = [SCHEME.build(variant).may_deadlock() for variant in VARIANTS]
    assert needs == [True, False, False]


# Numbers, recovery, deleted keys


def test_numbers_are_above_every_number_seen() -> None:
    at = desk("T1", "T2")
    at.write("T1", "x", b"1")
    [first] = at.prepare("T1")
    assert isinstance(first, Prepared)
    assert first.number == Stamp(1, 1)
    at.commit("T1", Stamp(40, 2))  # another site proposed a larger one
    at.write("T2", "x", b"2")
    [second] = at.prepare("T2")
    assert isinstance(second, Prepared)
    assert second.number == Stamp(41, 1)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_transaction_in_doubt_has_its_exclusive_locks_again_after_a_restart(variant: str) -> None:
    scheduler = SCHEME.build(variant, site=2)
    scheduler.restore([("x", Item(b"old", Stamp(5, 1)))], Stamp(7, 2))
    attempt = Attempt("T9", Stamp(6, 2), Stamp(6, 2))
    scheduler.reinstate(attempt, Stamp(8, 2), {"x": b"new", "y": None}, ())
    at = Desk(scheduler)
    at.begin("T1")  # older than T9, so by age it would not wait; but T9 is prepared
    assert at.read("T1", "x") == []
    answers = at.commit("T9", Stamp(8, 2))
    assert answers == [Committed("T9", Stamp(8, 2)), Found("T1", "x", b"new", Stamp(8, 2))]
    [prepared] = at.prepare("T1")
    assert isinstance(prepared, Prepared)
    assert prepared.number == Stamp(9, 2)


def test_deleted_keys_are_remembered_until_there_are_many() -> None:
    at = desk()
    at.put("T0", stays=b"0")
    for number in range(DELETIONS_MAX // 2):
        at.put(f"A{number}", **{f"k{number}": b"", f"l{number}": b""})
        at.put(f"B{number}", **{f"k{number}": None, f"l{number}": None})
    assert len(dict(at.scheduler.latest())) == DELETIONS_MAX + 1
    at.begin("R")
    first = at.read("R", "k1")
    at.scan("R", Span("k2", "k3"))
    for number in range(DELETIONS_MAX + 3):
        at.put(f"C{number}", gone=None)
    left = [key for key, _ in at.scheduler.latest()]
    locked = [key for key in left if key.startswith("k")]
    assert locked == ["k1", *sorted(f"k{number}" for number in range(500) if str(number)[0] == "2")]
    assert "stays" in left
    assert at.read("R", "k1") == first


def test_keys_that_are_deleted_once_and_never_come_back_are_forgotten() -> None:
    at = desk()
    for number in range(2 * DELETIONS_MAX):
        at.put(f"A{number}", **{f"k{number}": b""})
        at.put(f"B{number}", **{f"k{number}": None})
    assert len(dict(at.scheduler.latest())) <= DELETIONS_MAX


def test_what_happened_is_serializable_in_the_order_of_the_last_locks() -> None:
    trial = Trial(Detection(), ("x", "y"))
    trial.add("T1", 1, "r(x) w(y)")
    trial.add("T2", 2, "w(x)")
    for name in ("T1", "T2", "T1", "T1", "T1", "T2", "T2"):
        trial.move(name)
    report = check(trial.history())
    assert report.serializable
    assert report.order == ("T1", "T2")
