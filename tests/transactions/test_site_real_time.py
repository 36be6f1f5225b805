"""Strict serializability: what the checker says of real time, and which schemes keep to it."""

from __future__ import annotations

import pytest

from coterie.errors import UsageError
from coterie.lab.isolation import judge_levels
from coterie.lab.serializability import check
from coterie.transactions.history import History, HistoryEvent
from coterie.transactions.schemes.scheduler import Committed
from tests.transactions.site_storms import named_storm
from tests.transactions.site_world import key_at, world
from tests.transactions.test_two_phase_commit import SCHEMES


def history(*events: tuple[object, ...]) -> History:
    told = History()
    for event in events:
        told.add(HistoryEvent(*event))  # type: ignore[arg-type]  # as written below
    return told


STALE = (
    ("T1", "write", "x", "a", 2),
    ("T1", "commit"),
    ("T2", "read", "x", None, 0),
    ("T2", "commit"),
)


def test_a_stale_read_is_serializable_but_not_strictly() -> None:
    """T2 began after T1 had ended, and did not see what it wrote."""
    assert check(history(*STALE)).serializable
    report = check(history(*STALE), real_time=True)
    assert report.serializable is False
    assert report.order is None
    [anomaly] = report.anomalies
    assert anomaly.name == "G-single-realtime"
    assert [edge.kind for edge in anomaly.dependencies] == ["rt", "rw"]
    assert anomaly.dependencies[0].text == "T1 had ended before T2 began"


def test_transactions_that_overlap_may_stand_in_any_order() -> None:
    first, end, read, commit = STALE
    report = check(history(first, read, end, commit), real_time=True)
    assert report.serializable
    assert report.order == ("T2", "T1")


def test_the_order_agrees_with_real_time() -> None:
    """Blind writes of different keys leave a choice, which real time takes away."""
    events = []
    for number in range(20):
        events += [(f"T{number}", "write", f"k{number}", "v", number + 1), (f"T{number}", "commit")]
    report = check(history(*events), real_time=True)
    assert report.order == tuple(f"T{number}" for number in range(20))


def test_a_cycle_may_need_real_time_twice() -> None:
    """T1 ends before T2 begins, T3 before T4; T4 is read by T1 as not there, T2 by T3."""
    events = (
        ("T1", "read", "y", None, 0),
        ("T3", "read", "x", None, 0),
        ("T1", "commit"),
        ("T3", "commit"),
        ("T2", "write", "x", "a", 1),
        ("T4", "write", "y", "b", 1),
        ("T2", "commit"),
        ("T4", "commit"),
    )
    assert check(history(*events), real_time=True).serializable
    late = (
        ("T4", "write", "y", "b", 1),
        ("T2", "write", "x", "a", 1),
        ("T4", "commit"),
        ("T2", "commit"),
        ("T1", "read", "y", None, 0),
        ("T3", "read", "x", None, 0),
        ("T1", "commit"),
        ("T3", "commit"),
    )
    assert check(history(*late), real_time=True).serializable is False


def test_one_of_unknown_outcome_may_take_effect_late() -> None:
    events = (
        ("T1", "write", "x", "a", 1),
        *STALE[2:],
        ("T3", "read", "x", "a", 1),
        ("T3", "commit"),
    )
    report = check(history(*events), real_time=True)
    assert report.serializable
    assert report.presumed_committed == ("T1",)


def test_real_time_decides_an_order_of_versions_that_is_not_stated() -> None:
    events = (
        *(("T1", "write", "x", "a"), ("T1", "commit"), ("T2", "write", "x", "b"), ("T2", "commit")),
        *(("T3", "read", "x", "a"), ("T3", "commit")),
    )
    assert check(history(*events)).serializable
    report = check(history(*events), real_time=True)
    assert report.serializable is False
    assert report.anomalies[0].name == "G-single-realtime"


def test_sessions_are_kept_where_they_count() -> None:
    """A client writes x and then misses its own write: serializable, but not in its order."""
    told = History()
    for event in (
        HistoryEvent("T1", "write", "x", "a", session="ann"),
        HistoryEvent("T1", "commit"),
        HistoryEvent("T2", "read", "x", None, session="ann"),
        HistoryEvent("T2", "commit"),
    ):
        told.add(event)
    assert check(told).order == ("T2", "T1")
    report = check(told, sessions=True)
    assert [(a.name, a.meaning) for a in report.anomalies] == [
        ("G-single-session", "serializable, but not in the order of sessions")
    ]
    levels = judge_levels(told, sessions=True)
    assert not levels["read-your-writes"]
    assert levels["monotonic-reads"]


def test_a_cycle_is_found_behind_which_many_stand() -> None:
    """Hundreds that ended before read what a client wrote, which it misses itself."""
    told = history(("A", "write", "x", "a"))
    for name in range(301):
        told.add(HistoryEvent(name, "read", "x", "a"))
        told.add(HistoryEvent(name, "commit"))
    for event in (
        HistoryEvent("A", "commit", session="ann"),
        HistoryEvent("B", "read", "x", None, session="ann"),
        HistoryEvent("B", "commit"),
    ):
        told.add(event)
    (anomaly,) = check(told, sessions=True).anomalies
    assert (anomaly.name, set(anomaly.cycle)) == ("G-single-session", {"A", "B"})


def test_a_transaction_is_of_one_session() -> None:
    told = History()
    told.add(HistoryEvent("T1", "begin", session="ann"))
    with pytest.raises(UsageError, match="T1 is of session ann, not of bob"):
        told.add(HistoryEvent("T1", "commit", session="bob"))


def test_stamps_of_sites_that_have_not_met_need_not_agree_with_real_time() -> None:
    """2.0 j: a reader at a site whose clock is behind sees an old version, after the commit."""
    sites = world("multiversion", sites=3)
    key = key_at(2, 3)
    for _ in range(3):
        sites.call(2, "begin")  # its clock is ahead of site 1's
    writer = sites.write(2, {key: b"1"})
    sites.call(2, "commit", writer.name)
    assert isinstance(sites.answer(writer.name), Committed)
    reader = sites.call(1, "begin")
    sites.call(1, "read", reader.name, key)
    sites.run()
    found = sites.answer(reader.name)
    assert found.value is None
    told = history(
        (writer.name, "write", key, "1", writer.stamp),
        (writer.name, "commit"),
        (reader.name, "read", key, None, (0, 0)),
        (reader.name, "commit"),
    )
    assert check(told).serializable
    assert check(told, real_time=True).serializable is False


LATE = ("timestamp-ordering", "thomas-write-rule", "multiversion", "conservative")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "variant"), SCHEMES)
def test_locking_and_validation_keep_to_real_time_over_all_sites(
    name: str, variant: str | None
) -> None:
    """2.0 j: and at a single site every scheme does."""
    for seed in range(6):
        for sites in (1,) if name in LATE else (1, 3):
            outcome = named_storm(name, variant, sites, seed, trouble=False)
            assert outcome.history is not None
            report = check(outcome.history, real_time=True)
            assert report.serializable, report.anomalies


@pytest.mark.slow
def test_in_storms_some_multiversion_runs_do_not() -> None:
    """2.0 j: so the test above could fail."""
    late = 0
    for seed in range(30):
        outcome = named_storm("multiversion", None, 3, seed, trouble=False)
        assert outcome.history is not None
        assert check(outcome.history).serializable
        late += not check(outcome.history, real_time=True).serializable
    assert late > 0
