"""Schedules: what textbooks say of them, and what each scheme would have done."""

from __future__ import annotations

import contextlib
import random
import string

import pytest

from coterie.errors import UsageError
from coterie.lab.play.exercises.schedule import ScheduleAnswer, judge_schedule
from coterie.transactions.catalogue import schemes


def judged(text: str) -> ScheduleAnswer:
    return judge_schedule(text)


def outcomes(text: str) -> dict[str, str]:
    return {each.name: each.outcome for each in judged(text).schemes}


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("r1(x) r2(x) w1(x) w2(x) c1 c2", "lost update"),
        ("r1(y) r2(x) w1(x) w2(y) c1 c2", "write skew"),
        ("w1(x) r2(x) a1 c2", "aborted read"),
    ],
)
def test_anomalies_have_the_names_of_the_literature(text: str, meaning: str) -> None:
    found = judged(text)
    assert found.serializable is False
    assert [each.meaning for each in found.findings] == [meaning]


def test_a_serial_schedule_is_allowed_by_every_scheme() -> None:
    found = judged("r1(x) w1(x) c1 r2(x) w2(x) c2")
    assert found.serializable is True
    assert found.order == ["T1", "T2"]
    assert {each.outcome for each in found.schemes} == {"as written"}
    assert [each.name for each in found.schemes] == list(schemes())
    kinds = [(each.source, each.target, each.kind) for each in found.conflicts]
    assert kinds == [("T1", "T2", "rw"), ("T1", "T2", "wr"), ("T1", "T2", "ww")]


def test_schemes_differ() -> None:
    found = outcomes("r1(x) w2(x) c2 r1(y) w1(y) c1")
    assert judged("r1(x) w2(x) c2 r1(y) w1(y) c1").serializable is True
    assert found["two-phase-locking"] == "otherwise"  # it delays the write
    assert found["timestamp-ordering"] == "as written"
    assert outcomes("w1(x) w2(x) c2 c1")["optimistic"] == "reordered"  # by commits


def test_thomas_and_multiversion_put_a_late_write_where_its_stamp_is() -> None:
    found = outcomes("r1(y) w2(x) c2 w1(x) c1")
    assert found["timestamp-ordering"] == "otherwise"
    assert found["thomas-write-rule"] == "reordered"
    assert found["multiversion"] == "reordered"


def test_commits_that_are_not_written_are_assumed_and_aborts_conflict_with_nothing() -> None:
    found = judged("r1(x), w2(x); a2")
    assert found.assumed == ["c1"]
    assert found.conflicts == []
    assert found.serializable is True


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "needs an operation"),
        ("r1", "expected an operation"),
        ("r1(x) c1 w1(x)", "has ended before"),
        (" ".join(f"r{n}(x)" for n in range(1, 14)), "at most 12 transactions"),
        ("r1(x) " * 400, "at most 2,000 characters"),
    ],
)
def test_what_is_no_schedule_is_refused(text: str, error: str) -> None:
    with pytest.raises(UsageError, match=error):
        judge_schedule(text)


def test_random_schedules_are_judged_and_a_scheme_that_allows_one_is_right() -> None:
    chance = random.Random(1987)
    for _ in range(150):
        words = [
            f"{chance.choice('rw')}{chance.randint(1, 3)}({chance.choice('xy')})"
            for _ in range(chance.randint(2, 9))
        ]
        found = judged(" ".join(words))
        if any(each.outcome == "as written" for each in found.schemes):
            assert found.serializable, words


def test_any_text_is_judged_or_refused() -> None:
    chance = random.Random(7)
    for length in (1, 30, 2_000):
        text = "".join(chance.choices(string.printable + "é☃", k=length))
        with contextlib.suppress(UsageError):
            judge_schedule(text)
