"""`coterie doctor`: what it looks at, and how it judges."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from coterie.cli import run
from coterie.cli.doctor.machine import judge_rate, look_at_disk
from coterie.cli.doctor.reach import judge_call, judge_certificate
from coterie.cluster.wire.address import Address

if TYPE_CHECKING:
    from pathlib import Path

    from coterie.testing import LocalCluster

ADDRESS = Address("10.0.0.1", 7420)
NOW = 1_800_000_000.0  # 15 January 2027


def diagnose(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, str]]:
    status = run(["doctor", "-o", "json", *arguments])
    diagnoses = json.loads(capsys.readouterr().out)
    return status, {each["what"]: each["state"] for each in diagnoses}


def test_a_lock_directory_and_this_machine(
    coterie_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, found = diagnose(capsys)
    assert status == 0
    assert found[coterie_file] == "good"
    assert {"clock rate", "pauses", "descriptors"} <= set(found)


def test_each_node_is_asked_and_one_that_is_down_is_bad(
    coterie_cluster: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    addresses = coterie_cluster.url.removeprefix("coterie://").split(",")
    status, found = diagnose(capsys)
    assert status == 0
    assert found["secret and TLS"] == "look"
    assert [found[f"n{number} at {each}"] for number, each in enumerate(addresses, 1)] == [
        "good"
    ] * 3
    assert found[f"line to {addresses[0]}"] == "good"
    coterie_cluster.stop("n3")
    status, found = diagnose(capsys)
    assert status == 1
    assert found[f"n3 at {addresses[2]}"] == "bad"
    assert found[f"line to {addresses[2]}"] == "bad"


def test_a_service_that_cannot_be_reached_is_bad(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--url", "coterie://127.0.0.1:1"]) == 1
    printed = capsys.readouterr()
    assert "connection refused" in printed.out
    assert "start it, or look at addresses and firewalls" in printed.err


@pytest.mark.parametrize(
    ("error", "state"), [(0.0, "good"), (-0.0005, "good"), (0.002, "look"), (-0.006, "bad")]
)
def test_the_rate_of_a_clock(error: float, state: str) -> None:
    assert judge_rate(error).state == state


def test_the_length_of_a_call() -> None:
    assert [judge_call(ADDRESS, seconds).state for seconds in (0.001, 0.5)] == ["good", "look"]


@pytest.mark.parametrize(
    ("ends", "state", "days"),
    [("Jan 15 08:00:00 2028 GMT", "good", "365"), ("Jan 20 08:00:00 2027 GMT", "look", "5")],
)
def test_the_end_of_a_certificate(ends: str, state: str, days: str) -> None:
    diagnosis = judge_certificate("certificate", {"notAfter": ends}, NOW)
    assert diagnosis.state == state
    assert f"in {days} days" in diagnosis.found


def test_a_disk_is_tried_and_nothing_is_left_there(tmp_path: Path) -> None:
    assert "a sync takes" in look_at_disk(tmp_path).found
    assert list(tmp_path.iterdir()) == []
    assert look_at_disk(tmp_path / "missing").state == "bad"
