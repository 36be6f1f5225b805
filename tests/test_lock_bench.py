"""The benchmark of locks judges rightly; what it measures is no matter for a test."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import numpy as np
import pytest

from benchmarks.locks import judge
from benchmarks.locks.measure import Result, layout
from benchmarks.locks.peers import PEERS, make
from benchmarks.locks.peers.etcd import find, varint
from benchmarks.locks.report import Report, markdown, plain
from benchmarks.locks.worker import Run, names
from benchmarks.locks.workload import WORKLOADS

ROOT = Path(__file__).parent.parent
MEASURED = ("measured.json", "measured_servers.json")  # in the folder of the benchmark


def samples(*rows: tuple[float, ...]) -> judge.Samples:
    return np.array(rows, dtype=float)


def holds(*spans: tuple[float, float], lock: int = 0) -> list[tuple[float, ...]]:
    return [(client, lock, 0.0, enter, leave, leave) for client, (enter, leave) in enumerate(spans)]


# Exclusion


def test_holds_of_one_lock_that_touch_do_not_overlap() -> None:
    assert judge.overlaps(samples(*holds((2, 3), (0, 1), (1, 2)))) == 0


def test_a_hold_inside_another_is_found() -> None:
    assert judge.overlaps(samples(*holds((0, 9), (1, 2), (10, 11)))) == 1


def test_holds_of_two_locks_may_overlap() -> None:
    assert judge.overlaps(samples(*holds((0, 9)), *holds((1, 2), lock=1))) == 0


def test_among_many_holds_the_one_that_came_too_early_is_found() -> None:
    dice = random.Random(3)  # any seed: the order of the rows is all that it decides
    rows = holds(*((float(n), n + 1.0) for n in range(200)), (99.5, 99.75))
    dice.shuffle(rows)
    assert judge.overlaps(samples(*rows)) > 0


# Service and gaps


def test_a_handoff_is_an_entry_by_another_than_the_one_before() -> None:
    order = [0, 0, 1, 0, 1, 1]
    rows = [(who, 0, 0.0, float(time), 0.0, 0.0) for time, who in enumerate(order)]
    assert judge.service(samples(*rows), clients=2) == (3, 1.0)
    assert judge.service(samples(*rows[:3]), clients=3) == (1, 0.0)


def test_the_gap_begins_with_the_last_entry_before_the_kill() -> None:
    rows = samples(*[(0, 0, 0.0, time, 0.0, 0.0) for time in (1.0, 2.0, 2.5, 4.0, 4.1)])
    assert judge.longest_gap(rows, since=2.6, until=9.0) == 1.5
    assert judge.longest_gap(rows, since=4.2, until=9.0) == pytest.approx(4.9)


def test_operations_count_in_the_window_in_which_they_end() -> None:
    rows = samples(*[(0, 0, 0.0, 0.0, 0.0, time) for time in (0.9, 1.0, 1.5, 2.1)])
    assert len(judge.within(rows, 1.0, 2.0)) == 2


# Clients


def test_clients_are_spread_over_as_many_processes_as_the_peer_needs() -> None:
    ours, embedded, zookeeper = map(make, ("coterie-3", "coterie-embedded", "zookeeper-3"))
    assert layout(ours, WORKLOADS["W3"]) == [8]
    assert layout(zookeeper, WORKLOADS["W3"]) == [1] * 8
    assert layout(embedded, WORKLOADS["W3"]) == [3, 3, 2]
    assert layout(embedded, WORKLOADS["W1"]) == [1, 0, 0]
    assert layout(ours, WORKLOADS["W4p"]) == [16] * 4


def test_each_client_takes_the_locks_that_its_workload_says() -> None:
    def first(how_many: int | None) -> list[tuple[int, str]]:
        run = Run("r", how_many, 0.0, None, False, "", None)
        locks = names(run, 7)
        return [next(locks) for _ in range(3)]

    assert first(None) == [(0, "r-7-0"), (1, "r-7-1"), (2, "r-7-2")]
    assert first(1) == [(0, "r-0")] * 3
    assert all(0 <= number < 5 and name == f"r-{number}" for number, name in first(5))


@pytest.mark.parametrize("number", [0, 1, 127, 128, 300, 1 << 40])
def test_numbers_are_read_as_etcd_writes_them(number: int) -> None:
    assert find(b"\x0a" + varint(2) + b"xy" + b"\x10" + varint(number), 0x10) == number
    assert find(b"\x10" + varint(number), 0x12) is None


# The report


def test_medians_are_shown_and_a_broken_lock_is_named() -> None:
    results = [
        Result(peer="redis", workload="W2", operations=rate, cpu_seconds=0.5)
        for rate in (1.0, 3.0, 100.0)
    ]
    results += [
        Result(peer="coterie-3", workload="W2", operations=150.0, cpu_seconds=0.1),
        Result(peer="coterie-3", workload="W3", violations=2),
    ]
    report = Report("today", "here", {}, {}, results)
    assert report.middle("redis", "W2", "operations") == 3.0
    for text in (plain(report), markdown(report)):
        assert "3.00" in text
        assert "coterie-3 W3: EXCLUSION BROKEN 2 times" in text
        assert "50.0 times as many a second; CPU 0.10 against 0.50" in text


def test_every_peer_says_what_it_is_and_needs() -> None:
    for key in PEERS:
        peer = make(key)
        assert peer.label
        assert peer.servers_label in ("1", "2 of 3")
        for need in peer.needs:
            assert need.is_met() in (True, False)


@pytest.mark.parametrize("name", MEASURED)
def test_the_page_shows_what_was_measured(name: str) -> None:
    written = (ROOT / "benchmarks" / "locks" / name).read_bytes()
    report = msgspec.json.decode(written, type=Report)
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert markdown(report) in page
