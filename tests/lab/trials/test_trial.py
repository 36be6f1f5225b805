"""Trials find fault with a scheduler that controls nothing, and tell truly what happened."""

from __future__ import annotations

import pytest

from coterie.errors import UsageError
from coterie.lab.serializability import check
from coterie.lab.trials.trial import Trial, explore, program
from tests.transactions.anarchy import Anarchy
from tests.transactions.storms import storm


def test_a_script_is_read_as_the_literature_writes_it() -> None:
    requests = program("r(x) w(y) s(a,m) s(a,) d(x) a")
    assert [request.op for request in requests] == ["r", "w", "s", "s", "d", "a"]
    assert requests[2].span.high == "m"
    assert requests[3].span.high is None
    with pytest.raises(UsageError, match=r"'read\(x\)' is not one of"):
        program("read(x)")


def test_all_interleavings_of_two_increments_are_seen_and_most_lose_an_update() -> None:
    """Each makes four moves: read, write, prepare and commit, so there are 70 orders."""
    trial = Trial(Anarchy(), ("x",))
    trial.add("T1", 1, "r(x) w(x)")
    trial.add("T2", 2, "r(x) w(x)")
    reports = [check(end.history()) for end in explore(trial)]
    assert len(reports) == 70
    serial = [report for report in reports if report.serializable]
    assert len(serial) == 2  # one before the other, entirely


def test_a_scan_sees_what_is_not_there_so_a_phantom_is_noticed() -> None:
    trial = Trial(Anarchy(), ("a", "b"))
    trial.add("T1", 1, "s(a,c) w(a)")
    trial.add("T2", 2, "s(a,c) w(b)")
    for name in ("T1", "T2") * 4:
        trial.move(name)
    report = check(trial.history())
    assert report.serializable is False


def test_reads_of_deleted_keys_and_own_writes_are_told_truly() -> None:
    trial = Trial(Anarchy(), ("x",))
    trial.add("T1", 1, "w(x) r(x) d(x) r(x) w(x)")
    trial.add("T2", 2, "d(x)")
    trial.add("T3", 3, "r(x) s(,)")
    for name in ("T1", "T2", "T3"):
        while not trial.runners[name].over:
            trial.move(name)
    report = check(trial.history())
    assert report.serializable
    assert report.order == ("T1", "T2", "T3")


def test_storms_of_a_scheduler_that_controls_nothing_are_refuted() -> None:
    refuted = [not check(storm(Anarchy(), seed).history()).serializable for seed in range(20)]
    assert all(refuted)
