"""The rules of optimistic concurrency control, one by one; the letters are those of the rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from coterie.clocks import Stamp
from coterie.errors import MisuseError
from coterie.lab.serializability import check
from coterie.lab.trials.trial import Trial
from coterie.transactions.schemes.optimistic import SCHEME, Optimistic
from coterie.transactions.schemes.optimistic.validation import OPPOSED, OVERWRITTEN, TOO_OLD
from coterie.transactions.schemes.scheduler import (
    Accepted,
    Attempt,
    Committed,
    Found,
    Item,
    Listed,
    Prepared,
    Refused,
)
from coterie.transactions.schemes.span import Span
from tests.transactions.desk import Desk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.transactions.schemes.scheduler import Answer


@pytest.fixture(params=["parallel", "serial"])
def desk(request: pytest.FixtureRequest) -> Desk:
    return Desk(SCHEME.build(request.param))


def refused(answers: Sequence[Answer], rule: str, *keys: str) -> bool:
    """Tell whether the only answer is a refusal by that rule because of these keys."""
    return [(a.rule, a.keys) for a in answers if isinstance(a, Refused)] == [(rule, keys)]


# Read sets: a, b, and 2.0


def test_a_read_before_anothers_commit_is_validated_against_it(desk: Desk) -> None:
    """2.6 a: the start number is taken before the first read, so what commits after it counts."""
    desk.begin("T1")
    desk.read("T1", "x")
    desk.put("T2", x=b"2")
    assert refused(desk.prepare("T1"), OVERWRITTEN, "x")
    with pytest.raises(MisuseError, match="T1 is not under way here"):
        desk.read("T1", "x")


def test_a_commit_that_was_read_or_not_touched_is_no_obstacle(desk: Desk) -> None:
    """2.6 a: write sets must miss the read set; what is read after a commit shows it."""
    desk.begin("T1")
    desk.put("T2", x=b"2")
    assert desk.read("T1", "x") == [Found("T1", "x", b"2", Stamp(1, 1))]
    desk.put("T3", y=b"3")
    assert desk.read("T1", "y") == [Found("T1", "y", b"3", Stamp(2, 1))]
    assert isinstance(desk.finish("T1")[0], Committed)


def test_read_modify_writes_belong_to_both_sets(desk: Desk) -> None:
    """2.6 b: both read x, T1 commits completely, then T2 must fail."""
    desk.begin("T1", "T2")
    for name in ("T1", "T2"):
        desk.read(name, "x", update=True)
        desk.write(name, "x", name.encode())
    assert isinstance(desk.finish("T1")[0], Committed)
    assert refused(desk.prepare("T2"), OVERWRITTEN, "x")


def test_absent_keys_are_read_like_others(desk: Desk) -> None:
    """2.0 h: two see that k is missing and insert it; one commits."""
    desk.begin("T1", "T2")
    for name in ("T1", "T2"):
        assert desk.read(name, "k") == [Found(name, "k", None, None)]
        desk.write(name, "k", b"mine")
    assert isinstance(desk.finish("T1")[0], Committed)
    assert isinstance(desk.finish("T2")[0], Refused)


def test_own_writes_are_seen_and_are_not_in_the_read_set(desk: Desk) -> None:
    """2.0 b: own writes and deletes show in reads and scans, and nobody else's matter there."""
    desk.begin("T1")
    desk.write("T1", "b", b"mine")
    desk.write("T1", "c", None)
    assert desk.read("T1", "b") == [Found("T1", "b", b"mine", Stamp(1, 1))]
    [listed] = desk.scan("T1", Span("a", "d"))
    assert isinstance(listed, Listed)
    assert [(found.key, found.value) for found in listed.items] == [("b", b"mine"), ("c", None)]
    desk.put("T2", b=b"2", c=b"2")
    assert isinstance(desk.finish("T1")[0], Committed)
    assert dict(desk.scheduler.latest())["b"].value == b"mine"


def test_beside_own_writes_a_scan_is_in_the_read_set(desk: Desk) -> None:
    """2.6 j: the keys on both sides of an own write were read."""
    for other in ("a", "bb"):
        desk.begin(f"T{other}")
        desk.write(f"T{other}", "b", b"mine")
        desk.scan(f"T{other}", Span("a", "d"))
        desk.put(f"U{other}", **{other: b"2"})
        assert refused(desk.prepare(f"T{other}"), OVERWRITTEN, other)


# The write phase: c, d, e


def test_serial_validation_admits_one_write_phase_at_a_time() -> None:
    """2.6 c: whatever comes between prepare and commit of one waits, and is judged after it."""
    desk = Desk(SCHEME.build("serial"))
    desk.begin("T1", "T2", "T3")
    desk.write("T1", "x", b"1")
    desk.read("T2", "x")
    desk.write("T3", "y", b"3")
    [prepared] = desk.prepare("T1")
    assert isinstance(prepared, Prepared)
    assert desk.prepare("T2") == []
    assert desk.prepare("T3") == []
    assert desk.scheduler.waits() == {"T2": ("T1",), "T3": ("T1",)}
    committed, second, third = desk.commit("T1", prepared.number)
    assert isinstance(committed, Committed)
    assert refused([second], OVERWRITTEN, "x")
    assert isinstance(third, Prepared)


def test_a_waiter_that_gives_up_leaves_the_queue_and_wakes_nobody_wrongly() -> None:
    """2.0 d: cancelled while it waits, it is forgotten; the next in line gets its turn."""
    desk = Desk(SCHEME.build("serial"))
    desk.begin("T1", "T2", "T3")
    for name in ("T1", "T2", "T3"):
        desk.write(name, name, b"")
    [prepared] = desk.prepare("T1")
    assert desk.prepare("T2") == desk.prepare("T3") == []
    assert desk.abort("T2") == []
    answers = desk.abort("T1")
    assert [type(answer) for answer in answers] == [Prepared]
    assert answers[0].transaction == "T3"
    assert isinstance(prepared, Prepared)
    assert desk.scheduler.waits() == {}


def test_two_write_phases_on_the_same_keys_do_not_interleave() -> None:
    """2.6 d: the write-write test against the active set; the second is refused."""
    desk = Desk(SCHEME.build("parallel"))
    desk.begin("T1", "T2")
    for name in ("T1", "T2"):
        desk.write(name, "x", name.encode())
        desk.write(name, "y", name.encode())
    [prepared] = desk.prepare("T1")
    assert isinstance(prepared, Prepared)
    assert refused(desk.prepare("T2"), OPPOSED, "x", "y")
    desk.commit("T1", prepared.number)
    assert {item.value for _, item in desk.scheduler.latest()} == {b"T1"}


def test_a_reader_of_what_is_being_written_is_refused_and_others_are_not() -> None:
    """2.6 d: writes of the active set against reads. What it reads may be written, for it is first."""
    desk = Desk(SCHEME.build("parallel"))
    desk.begin("T1", "T2", "T3")
    desk.read("T1", "y")
    desk.write("T1", "x", b"1")
    [prepared] = desk.prepare("T1")
    desk.scan("T2", Span("w", "z"))
    assert refused(desk.prepare("T2"), OPPOSED, "x")
    desk.write("T3", "y", b"3")
    assert isinstance(desk.finish("T3")[0], Committed)
    assert isinstance(prepared, Prepared)
    assert isinstance(desk.commit("T1", prepared.number)[0], Committed)


def test_whoever_fails_or_aborts_leaves_nothing_behind(desk: Desk) -> None:
    """2.6 d: on failure leave the active set as well."""
    scheduler = desk.scheduler
    assert isinstance(scheduler, Optimistic)
    desk.begin("T1", "T2", "T3", "T4")
    for name in ("T1", "T2", "T3", "T4"):
        desk.read(name, "x")
        desk.write(name, "x", b"")
    desk.prepare("T1")
    desk.prepare("T2")  # fails, or waits
    desk.abort("T1")  # validated
    if "T2" in scheduler.active:
        desk.abort("T2")
    desk.abort("T3")  # in its read phase
    assert isinstance(desk.finish("T4")[0], Committed)
    assert not scheduler.active
    assert not scheduler.validated
    assert not scheduler.read_sets
    assert not scheduler.waiting


def test_the_number_is_assigned_after_the_write_phase(desk: Desk) -> None:
    """2.6 e: a reader that began in the middle of a write phase sees that commit as later."""
    desk.begin("T1")
    desk.write("T1", "x", b"1")
    desk.write("T1", "y", b"1")
    [prepared] = desk.prepare("T1")
    assert isinstance(prepared, Prepared)
    desk.begin("T2")
    assert desk.read("T2", "x") == [Found("T2", "x", None, None)]
    desk.commit("T1", prepared.number)
    assert refused(desk.read("T2", "y"), OVERWRITTEN, "x")


def test_numbers_grow_past_all_that_were_seen(desk: Desk) -> None:
    """The number given to commit is taken over, and the next proposal is above it."""
    desk.begin("T1", "T2")
    desk.write("T1", "x", b"1")
    desk.prepare("T1")
    assert desk.commit("T1", Stamp(7, 3)) == [Committed("T1", Stamp(7, 3))]
    assert desk.prepare("T2") == [Prepared("T2", Stamp(8, 1), {})]


# What is seen in the read phase, and how long that is good: f, g


def test_no_transaction_sees_a_mix_of_states(desk: Desk) -> None:
    """2.6 f: whoever would see the new y beside the old x is refused instead."""
    desk.put("T1", x=b"1", y=b"1")
    desk.begin("T2")
    desk.read("T2", "x")
    assert desk.scheduler.valid("T2")
    desk.put("T3", x=b"3", y=b"3")
    assert not desk.scheduler.valid("T2")
    assert refused(desk.scan("T2", Span("y")), OVERWRITTEN, "x")


def test_only_who_is_known_can_be_valid(desk: Desk) -> None:
    with pytest.raises(MisuseError, match="T1 is not under way here"):
        desk.scheduler.valid("T1")


@pytest.mark.slow
@pytest.mark.parametrize("bound", [10, 10_000])
def test_a_sleeper_that_missed_more_than_is_remembered_is_refused(bound: int) -> None:
    """2.6 g: too old is a failure, never a pass; and the history is bounded."""
    desk = Desk(Optimistic(history_max=bound))
    desk.begin("T0")
    desk.read("T0", "x")
    desk.put("T1", x=b"1")
    for number in range(2, 100_002 if bound == 10_000 else 40):
        desk.put(f"T{number}", y=b"")
    assert len(desk.scheduler.finished) <= 2 * bound  # type: ignore[attr-defined]  # of Optimistic
    assert refused(desk.prepare("T0"), TOO_OLD)


def test_a_sleeper_is_judged_truly_by_what_is_remembered() -> None:
    """2.6 g: as many commits as the bound may be slept through."""
    for key, outcome in (("x", Committed), ("y", Refused)):
        desk = Desk(Optimistic(history_max=10))
        for number in range(100):
            desk.put(f"before {number}", y=b"")
        desk.begin("T0")
        desk.read("T0", key)
        for number in range(10):
            desk.put(f"after {number}", y=b"")
        assert isinstance(desk.finish("T0")[0], outcome)


def test_a_sleeper_that_has_read_nothing_has_nothing_to_fear() -> None:
    """2.6 g: without reads there is nothing that could have changed."""
    desk = Desk(Optimistic(history_max=1))
    desk.begin("T0")
    desk.write("T0", "x", b"0")
    for number in range(1, 10):
        desk.put(f"T{number}", x=b"")
    assert isinstance(desk.finish("T0")[0], Committed)


# Starvation, rule h


def test_whoever_has_failed_often_runs_alone_and_cannot_fail(desk: Desk) -> None:
    """2.6 h: from its first request others wait with their prepares, and then are judged."""
    desk.begin("T1", "T2", "T3")
    desk.read("T1", "x")
    desk.read("T2", "y")
    desk.begin("T0", failures=5)
    assert isinstance(desk.read("T0", "x")[0], Found)
    desk.write("T1", "x", b"1")
    assert desk.prepare("T1") == []
    assert desk.prepare("T2") == []
    assert desk.scheduler.waits() == {"T1": ("T0",), "T2": ("T0",)}
    desk.write("T0", "x", b"0")
    committed, first, second = desk.finish("T0")
    assert isinstance(committed, Committed)
    assert refused([first], OVERWRITTEN, "x")
    assert isinstance(second, Prepared)


def test_running_alone_begins_when_all_write_phases_have_ended(desk: Desk) -> None:
    """2.6 h: those already validated may still write what it will read; nobody else is validated."""
    desk.begin("T1", "T2")
    desk.write("T1", "x", b"1")
    desk.write("T2", "z", b"2")
    [prepared] = desk.prepare("T1")
    assert isinstance(prepared, Prepared)
    desk.begin("T0", failures=5)
    assert desk.scan("T0", Span("x", "y")) == []
    assert desk.prepare("T2") == []
    assert desk.scheduler.waits() == {"T0": ("T1",), "T2": ("T0",)}
    _, listed = desk.commit("T1", prepared.number)
    assert isinstance(listed, Listed)
    assert [found.value for found in listed.items] == [b"1"]
    first, second = desk.abort("T0"), desk.scheduler.waits()
    assert isinstance(first[0], Prepared)
    assert second == {}


def test_several_who_have_failed_often_run_one_after_the_other(desk: Desk) -> None:
    """2.6 h: whoever comes second waits with its first request, whichever that is."""
    desk.begin("T1", "T2", "T3", failures=5)
    assert isinstance(desk.write("T1", "x", b"1")[0], Accepted)
    assert desk.read("T2", "x") == []
    assert desk.write("T3", "y", b"3") == []
    committed, found = desk.finish("T1")
    assert isinstance(committed, Committed)
    assert isinstance(found, Found)
    assert found.value == b"1"
    assert isinstance(desk.abort("T2")[0], Accepted)
    assert isinstance(desk.finish("T3")[0], Committed)


def test_a_long_transaction_among_short_writers_fails_no_more_often_than_is_bearable() -> None:
    """2.6 h: 50 keys are read and written while writers of each key come and go."""
    trial = Trial(Optimistic(), tuple(f"k{number:02}" for number in range(50)))
    long = "s(k,) " + " ".join(f"w({key})" for key in trial.universe)
    failures = writers = 0
    trial.add("L0", 1, long)
    while trial.runners[f"L{failures}"].state != "committed":
        if trial.runners[f"L{failures}"].state == "refused":
            failures += 1
            trial.add(f"L{failures}", 1000 * failures, long, age=1, failures=failures)
        trial.move(f"L{failures}")
        if not trial.waiting():
            writers += 1
            trial.add(f"W{writers}", 10_000 + writers, f"w(k{writers % 50:02})")
            while f"W{writers}" in trial.movable():
                trial.move(f"W{writers}")
    assert failures == 5
    assert check(trial.history()).serializable


# Readers and ranges: i, j


def test_readers_are_validated_too() -> None:
    """2.6 i: T1 goes before T2, whom T3 has read; so T3 must not have missed T1."""
    desk = Desk(SCHEME.build("parallel"))
    desk.begin("T1", "T2", "T3")
    desk.read("T1", "a")
    desk.write("T1", "x", b"1")
    assert isinstance(desk.prepare("T1")[0], Prepared)
    desk.write("T2", "a", b"2")
    assert isinstance(desk.finish("T2")[0], Committed)
    assert desk.read("T3", "x") == [Found("T3", "x", None, None)]
    assert desk.read("T3", "a") == [Found("T3", "a", b"2", Stamp(2, 1))]
    assert refused(desk.prepare("T3"), OPPOSED, "x")


def test_read_skew_is_refused(desk: Desk) -> None:
    """2.6 i: reads x before and y after a commit that wrote both."""
    desk.begin("T1")
    desk.read("T1", "x")
    desk.put("T2", x=b"2", y=b"2")
    assert isinstance(desk.read("T1", "y")[0], Refused)


@pytest.mark.parametrize("value", [b"2", None], ids=["insert", "delete"])
def test_ranges_are_read_whether_anything_is_there_or_not(desk: Desk, value: bytes | None) -> None:
    """2.6 j: compare write keys, deletes included; an empty result is still a range."""
    if value is None:
        desk.put("T0", b=b"0")
    desk.begin("T1")
    desk.scan("T1", Span("a", "c"))
    desk.put("T2", b=value)
    assert refused(desk.prepare("T1"), OVERWRITTEN, "b")


def test_of_a_limited_scan_only_the_part_that_was_looked_at_is_read(desk: Desk) -> None:
    """2.6 j: what comes behind the last key listed may change, what comes before must not."""
    desk.put("T0", b=b"0", d=b"0", f=b"0")
    for key, outcome in (("e", Committed), ("c", Refused), ("d", Refused)):
        desk.begin(f"T{key}")
        [listed] = desk.scan(f"T{key}", Span("a", "z"), 2)
        assert isinstance(listed, Listed)
        assert listed.covered == Span("a", "d\0")
        desk.put(f"U{key}", **{key: b"2"})
        assert isinstance(desk.finish(f"T{key}")[0], outcome)
        desk.put(f"V{key}", c=None, e=None)


# Recovery


def test_after_a_restart_numbers_go_on_above_what_was(desk: Desk) -> None:
    desk.scheduler.restore(
        [("x", Item(b"1", Stamp(9, 2))), ("y", Item(None, Stamp(3, 1)))], Stamp(5, 1)
    )
    assert dict(desk.scheduler.latest()) == {
        "x": Item(b"1", Stamp(9, 2)),
        "y": Item(None, Stamp(3, 1)),
    }
    desk.begin("T1")
    assert desk.read("T1", "y") == [Found("T1", "y", None, Stamp(3, 1))]
    [prepared] = desk.prepare("T1")
    assert isinstance(prepared, Prepared)
    assert prepared.number == Stamp(10, 1)


def test_who_was_prepared_when_the_site_ended_is_in_its_write_phase_again() -> None:
    """2.6 k: undecided, it stays in the active set with its reads and its writes."""
    scheduler = Optimistic(site=1, sites=2)
    desk = Desk(scheduler)
    desk.begin("T1")
    desk.read("T1", "x")
    desk.write("T1", "y", b"1")
    [prepared] = desk.prepare("T1")
    assert isinstance(prepared, Prepared)
    again = Desk(Optimistic(site=1, sites=2))
    again.scheduler.restore(desk.scheduler.latest(), Stamp(1, 1))
    attempt = Attempt("T1", Stamp(1, 1), Stamp(1, 1))
    again.scheduler.reinstate(attempt, prepared.number, prepared.writes, prepared.reads)
    again.begin("T2", "T3")
    again.write("T2", "x", b"2")
    assert refused(again.prepare("T2"), OPPOSED, "x")
    again.read("T3", "y")
    assert refused(again.prepare("T3"), OPPOSED, "y")
    assert again.commit("T1", Stamp(4, 2)) == [Committed("T1", Stamp(4, 2))]
    assert dict(again.scheduler.latest()) == {"y": Item(b"1", Stamp(4, 2))}
