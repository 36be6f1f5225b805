"""`coterie simulate` with crashes that an algorithm bears, once and by the hundred."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import shlex
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from coterie.cli import run
from tests.processes import (
    BOUND_SECONDS,
    COTERIE,
    children,
    interrupted,
    is_running,
    kill,
    until,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Executor
    from pathlib import Path
    from typing import Self

FIGURE_5C = {(2, 3), (2, 4, 6), (3, 6), (2, 6, 7), (3, 4, 7)}


def facts(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> dict[str, Any]:
    assert run(["simulate", *arguments, "-o", "json"]) == status
    printed: dict[str, Any] = json.loads(capsys.readouterr().out)
    return printed


@pytest.mark.parametrize(("first", "second"), [(10, 30), (0, 0), (25, 3)])
def test_after_two_crashes_all_are_served_and_the_coterie_is_figure_5c(
    capsys: pytest.CaptureFixture[str], first: int, second: int
) -> None:
    faults = ["--fault", f"crash 1 @ {first}", "--fault", f"crash 5 @ {second}"]
    told = facts(capsys, "fault-tolerant", "-N", "7", *faults)
    assert told["unserved"] == 0
    assert told["violations"] == []
    assert told["late"] == 0
    assert {tuple(quorum) for quorum in told["coterie"]} == FIGURE_5C
    assert len(told["coterie"]) == len(FIGURE_5C)


def test_a_campaign_of_random_faults_finds_nothing_wrong_with_the_repair(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    chart = tmp_path / "outages.svg"
    options = ["-N", "5", "--random-faults", "--seeds", "60", "--entries", "2", "--hold", "3"]
    told = facts(capsys, "fault-tolerant", *options, "--chart", str(chart))
    assert (told["runs"], told["failures"], told["late"]) == (60, [], 0)
    assert told["outage"]["count"] == told["crashes"] > 60
    assert chart.read_text(encoding="utf-8").startswith("<svg")


def test_a_campaign_shows_the_seeds_that_fail_and_how_to_see_one_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["fault-tolerant", "--variant", "published", "-N", "7", "--random-faults"]
    words += ["--hold", "uniform:0,80", "--latency", "uniform:0,2", "--entries", "2", "--fifo"]
    assert run(["simulate", *words, "--seeds", "30", "--jobs=2"]) == 1
    printed = capsys.readouterr().out
    assert "safety: processes" in printed
    again = printed.splitlines()[-1]
    command = shlex.split(again.removeprefix("see again"))
    given = command[: command.index("--seed")]
    assert sorted(given) == sorted(["coterie", "simulate", *words])
    seed = command[command.index("--seed") + 1]
    assert facts(capsys, *words, "--seed", seed, status=1)["violations"]


def test_messages_later_than_sigma_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    run(["simulate", "fault-tolerant", "-N", "3", "--latency", "uniform:0,9"])
    assert "which breaks an assumption" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "status", "text"),
    [
        (["--t-max", "5"], 78, "T_max must be longer than T_d"),
        (["--table", "1>2,2>1,3>4,4>3", "-N", "4"], 78, "replace only each other"),
        (["--coterie", "1,2 2,9"], 78, "names 9, which is not a member"),
        (["--random-faults", "5"], 64, "0 to 4 may crash, got 5"),
        (["--seeds", "0"], 64, "0"),
    ],
)
def test_what_makes_no_sense_is_refused(
    capsys: pytest.CaptureFixture[str], options: list[str], status: int, text: str
) -> None:
    assert run(["simulate", "fault-tolerant", *options]) == status
    assert text in capsys.readouterr().err


def rows(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, str]]:
    assert run(["simulate", *arguments, "-o", "csv"]) == 0
    return list(csv.DictReader(io.StringIO(capsys.readouterr().out)))


MAEKAWA = ("maekawa", "-N", "7", "--entries", "2", "--hold", "1", "--latency", "uniform:0.5,1.5")


def test_csv_has_a_line_for_each_seed_that_is_the_line_of_that_seed_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = rows(capsys, *MAEKAWA, "--seed", "3", "--seeds", "4")
    assert [row["seed"] for row in found] == ["3", "4", "5", "6"]
    assert {(row["algorithm"], row["variant"]) for row in found} == {("maekawa", "eager")}
    (alone,) = rows(capsys, *MAEKAWA, "--seed", "5")
    assert {name: found[2][name] for name in alone} == alone


@pytest.mark.parametrize("output", ["csv", "json", "table"])
def test_processes_change_no_byte_of_the_report(
    capsys: pytest.CaptureFixture[str], output: str
) -> None:
    words = ["simulate", *MAEKAWA, "--seeds", "15", "-o", output]
    assert run(words) == 0
    here = capsys.readouterr().out
    assert run([*words, "--jobs", "2"]) == 0
    assert capsys.readouterr().out == here


def test_json_has_rows_and_totals_with_intervals(capsys: pytest.CaptureFixture[str]) -> None:
    told = facts(capsys, *MAEKAWA, "--seeds", "8")
    assert len(told["rows"]) == told["runs"] == 8
    assert told["confidence"] == 0.95
    total = told["totals"]["messages_per_entry"]
    assert total["count"] == 8
    assert total["min"] <= total["mean"] <= total["max"]
    assert total["half_width"] > 0


def test_a_table_shows_few_seeds_one_by_one_and_many_by_their_means(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run(["simulate", *MAEKAWA, "--seeds", "20"])
    few = capsys.readouterr().out
    assert "seed  entries" in few
    assert "over 20 runs" in few
    assert "± (95%)" in few
    run(["simulate", *MAEKAWA, "--seeds", "21"])
    many = capsys.readouterr().out
    assert "seed  entries" not in many
    assert "over 21 runs" in many


def test_a_table_of_very_many_seeds_keeps_none_of_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coterie.cli.lab.campaign.ROWS_MAX", 10)
    run(["simulate", *MAEKAWA, "--seeds", "11"])
    printed = capsys.readouterr().out
    assert "means         not of more than 10 seeds; -o csv has a line for each" in printed
    assert "over 11 runs" not in printed
    assert len(rows(capsys, *MAEKAWA, "--seeds", "11")) == 11


def test_delays_come_from_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "delays.csv"
    file.write_text("1,10\n10,1\n")
    options = ["centralized", "-N", "4", "--workload", "one-at-a-time", "--latency"]
    told = facts(capsys, *options, str(file))
    assert told["client_delay"]["max"] == 20
    wobbly = facts(capsys, *options, f"{file}~0.2")["client_delay"]["max"]
    assert 20 < wobbly < 24
    assert run(["simulate", *options, str(tmp_path / "nowhere.csv")]) == 64
    assert "nowhere.csv: No such file or directory" in capsys.readouterr().err


LONG = ("simulate", "ricart-agrawala", "-N", "5", "--seeds", "1000000")


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_an_interrupt_leaves_a_report_on_what_is_done(jobs: str) -> None:
    """The line that tells of progress shows that some runs are done, where stderr is a terminal."""
    report = json.loads(interrupted([*LONG, "--jobs", jobs, "-o", "json"], " of 1,000,000 runs"))
    assert 0 < report["runs"] == len(report["rows"]) < 1_000_000
    seeds = [row["seed"] for row in report["rows"]]
    assert seeds == sorted(seeds)


@contextlib.contextmanager
def long_campaign() -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """Start a campaign that takes hours, and wait for its two workers."""
    words = [*LONG, "--jobs", "2"]
    process = subprocess.Popen(
        [*COTERIE, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True
    )
    workers: list[int] = []
    try:
        until(lambda: len(children(process)) == 2)
        workers = children(process)
        yield process, workers
    finally:
        kill(process)
        for worker in workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)


def test_an_interrupt_ends_a_campaign_and_its_workers() -> None:
    with long_campaign() as (process, workers):
        process.send_signal(signal.SIGINT)
        assert process.wait(BOUND_SECONDS) == 130
        assert not any(is_running(worker) for worker in workers)


def test_the_workers_of_a_campaign_end_when_it_is_killed() -> None:
    with long_campaign() as (process, workers):
        kill(process)
        until(lambda: not any(is_running(worker) for worker in workers))


class FakeClient:
    """Plays the client of Dask, with two workers in threads."""

    version = version("coterie")
    workers = ("tcp://a:1", "tcp://b:1")
    addresses: list[str] = []

    def __init__(self, address: str, **_: Any) -> None:
        if address == "tcp://nowhere:8786":
            raise OSError("timed out")
        self.addresses.append(address)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def run(self, *_: Any, on_error: str) -> dict[str, Any]:
        assert on_error == "return"
        return dict.fromkeys(self.workers, self.version)

    def nthreads(self) -> dict[str, int]:
        return dict.fromkeys(self.workers, 1)

    def get_executor(self, *, pure: bool) -> Executor:
        assert not pure
        return ThreadPoolExecutor(2)


def dask(monkeypatch: pytest.MonkeyPatch, **attributes: Any) -> None:
    module = ModuleType("distributed")
    module.Client = type("Client", (FakeClient,), attributes)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "distributed", module)


CAMPAIGN = ("ricart-agrawala", "-N", "3", "--seeds", "100", "--latency", "uniform:0,2")


def test_a_cluster_of_dask_gives_the_same_report(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    addresses: list[str] = []
    dask(monkeypatch, addresses=addresses)
    there = facts(capsys, *CAMPAIGN, "--executor", "dask://host:8786")
    assert addresses == ["tcp://host:8786"]
    assert there == facts(capsys, *CAMPAIGN)


@pytest.mark.parametrize(
    ("attributes", "url", "status", "text"),
    [
        ({"version": "0.0.9"}, "dask://host:8786", 78, "tcp://a:1 has coterie 0.0.9"),
        ({"version": ImportError("coterie")}, "dask://host:8786", 78, "tcp://a:1 has no coterie"),
        ({"workers": ()}, "dask://host:8786", 69, "no workers"),
        ({}, "dask://nowhere:8786", 69, "dask at nowhere:8786: timed out"),
        ({}, "spark://host", 64, "expected dask://host:8786, got 'spark://host'"),
    ],
)
def test_a_cluster_that_cannot_be_used_is_refused_with_a_reason(
    *,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    attributes: dict[str, Any],
    url: str,
    status: int,
    text: str,
) -> None:
    dask(monkeypatch, **attributes)
    assert run(["simulate", *CAMPAIGN, "--executor", url]) == status
    assert text in capsys.readouterr().err


def test_a_missing_dask_is_named_with_its_extra(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert run(["simulate", *CAMPAIGN, "--executor", "dask://host:8786"]) == 78
    assert "coterie[dask]" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [[*CAMPAIGN, "--jobs", "2"], ["ricart-agrawala"]], ids=["with jobs", "without seeds"]
)
def test_an_executor_is_for_campaigns_and_instead_of_jobs(words: list[str]) -> None:
    assert run(["simulate", *words, "--executor", "dask://host:8786"]) == 64
