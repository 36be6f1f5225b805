"""Histories of appends to lists: the lists that were read show the order of versions."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from coterie.errors import UsageError
from coterie.lab.isolation import judge_levels
from coterie.lab.serializability import Report, check
from coterie.transactions.history import History, HistoryEvent
from tests.transactions.serial_oracle import explains, serializable


def history(*events: tuple[Any, ...]) -> History:
    told = History()
    for event in events:
        told.add(HistoryEvent(*event))
    return told


def appended(*numbers: int) -> list[tuple[Any, ...]]:
    """Let transactions append their own number to x, one after the other."""
    return [e for n in numbers for e in ((f"T{n}", "append", "x", n), (f"T{n}", "commit"))]


def read(name: str, *lists: list[int] | None) -> list[tuple[Any, ...]]:
    return [*((name, "read", "x", seen) for seen in lists), (name, "commit")]


def anomalies(report: Report) -> list[tuple[str, str]]:
    return [(anomaly.name, anomaly.meaning) for anomaly in report.anomalies]


def test_the_longest_list_shows_the_order_of_versions() -> None:
    report = check(history(*appended(1, 2, 3), *read("R", [2, 1]), *read("S", [2, 1, 3])))
    assert report.serializable
    assert report.versions == "stated"
    assert report.order == ("T2", "T1", "R", "T3", "S")


def test_an_element_that_no_list_shows_stands_behind_all_that_do() -> None:
    report = check(history(*appended(1, 2), *read("R", [2])))
    assert report.order == ("T2", "R", "T1")


@pytest.mark.parametrize(
    ("lists", "name"),
    [
        ([[1, 2], [2, 1]], "incompatible order"),
        ([[1, 2, 3], [1, 3]], "incompatible order"),
        ([[1, 1]], "duplicate elements"),
        ([[1, 7]], "garbage read"),
    ],
)
def test_lists_that_no_order_explains_are_anomalies_of_their_own(
    lists: list[list[int]], name: str
) -> None:
    reads = [event for n, seen in enumerate(lists) for event in read(f"R{n}", seen)]
    told = history(*appended(1, 2, 3), *reads)
    report = check(told)
    assert [anomaly.name for anomaly in report.anomalies] == [name]
    assert report.serializable is False
    assert set(judge_levels(told).values()) == {False}


def test_a_lost_append_is_a_lost_update() -> None:
    """Both have read the empty list and appended; only one element is there in the end."""
    told = history(
        *(("T1", "read", "x", []), ("T2", "read", "x", None)),
        *appended(1, 2),
        *read("R", [2]),
    )
    report = check(told)
    assert ("G-single", "lost append") in anomalies(report)
    assert not judge_levels(told)["snapshot-isolation"]
    assert judge_levels(told)["causal"]


def test_a_blind_append_that_a_later_list_misses_is_lost_in_real_time() -> None:
    told = history(*appended(1), *read("R", []))
    assert check(told).order == ("R", "T1")
    report = check(told, real_time=True)
    assert [anomaly.name for anomaly in report.anomalies] == ["lost append"]


def test_elements_of_an_aborted_transaction_are_dirty() -> None:
    report = check(history(("T1", "append", "x", 1), ("T1", "abort"), *read("R", [1])))
    assert anomalies(report) == [("G1a", "aborted read")]


def test_part_of_what_a_transaction_appends_is_intermediate() -> None:
    twice = [("T1", "append", "x", 1), ("T1", "append", "x", 2), ("T1", "commit")]
    assert anomalies(check(history(*twice, *read("R", [1])))) == [("G1b", "intermediate read")]
    assert check(history(*twice, *read("R", [1, 2]))).serializable
    reversed_lists = check(history(*twice, *read("R", [2, 1])))
    assert [name for name, _ in anomalies(reversed_lists)][:1] in (["G1b"], ["incompatible order"])


def test_appends_of_two_that_interleave_are_a_dirty_write() -> None:
    told = history(
        *(("T1", "append", "x", 1), ("T2", "append", "x", 2), ("T1", "append", "x", 3)),
        *(("T1", "commit"), ("T2", "commit")),
        *read("R", [1, 2, 3]),
    )
    assert ("G0", "dirty write") in anomalies(check(told))


def test_a_transaction_sees_its_own_appends() -> None:
    own = [("T1", "append", "x", 1), ("T1", "read", "x", [1]), ("T1", "commit")]
    assert check(history(*own)).serializable
    missed = [("T1", "append", "x", 1), ("T1", "read", "x", []), ("T1", "commit")]
    assert anomalies(check(history(*missed)))[0][0] == "internal"


def test_one_of_unknown_outcome_counts_if_any_element_of_it_was_read() -> None:
    told = history(("T1", "append", "x", 1), *appended(2), *read("R", [1, 2]))
    assert check(told).presumed_committed == ("T1",)


@pytest.mark.parametrize(
    ("events", "complaint"),
    [
        ([("T1", "append", "x", 1, 5)], "states no version"),
        ([("T1", "append", "x", 1), ("T2", "write", "x", 2)], "both written and appended"),
        ([*appended(1), ("T2", "read", "x", 1), ("T2", "commit")], "sees a list or null, got 1"),
        ([*appended(1), ("T2", "append", "x", 1)], "values of a key must differ"),
        ([("T1", "append", "x")], "an? append needs a value"),
    ],
)
def test_what_makes_no_sense_is_refused(events: list[tuple[Any, ...]], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        check(history(*events))


def drawn(seed: int) -> History:
    """Append to lists in a drawn order, and let others see beginnings of them, now and then wrong ones."""
    random = Random(seed)
    names = range(random.randint(2, 5))
    told = History()
    for key in "xy"[: random.randint(1, 2)]:
        owners = [name for name in names for _ in range(random.choice((0, 1, 1, 2)))]
        random.shuffle(owners)
        if random.random() < 0.7:
            ranks = random.sample(names, len(names))
            owners.sort(key=ranks.index)
        told_elements = list(enumerate(owners))
        for name in names:
            for _ in range(random.choice((0, 0, 1))):
                seen = [place for place, owner in told_elements if owner != name]
                seen = seen[: random.randint(0, len(seen))]
                if seen and random.random() < 0.1:
                    seen[random.randrange(len(seen))] = random.choice(seen)
                told.add(HistoryEvent(name, "read", key, seen))
        for place, name in told_elements:
            told.add(HistoryEvent(name, "append", key, place))
    for name in random.sample(names, len(names)):
        if random.random() < 0.95 and name in told.transactions:
            told.add(HistoryEvent(name, "commit" if random.random() < 0.95 else "abort"))
    return told


@pytest.mark.parametrize("hundred", range(10))
def test_lists_are_judged_as_every_serial_order_would(hundred: int) -> None:
    judged = set()
    for seed in range(hundred * 100, hundred * 100 + 100):
        told = drawn(seed)
        report = check(told)
        assert report.serializable == serializable(told), f"seed {seed}"
        if report.serializable:
            assert explains([told.transactions[name] for name in report.order or ()])
        judged.add(report.serializable)
    assert judged == {True, False}
