"""`coterie compare` over seeds, in several processes, and under conditions of the user's choice."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from coterie.cli import run
from tests.processes import interrupted

EXAMPLE = Path(__file__).parents[3] / "examples" / "delays.csv"
POISSON = ("compare", "maekawa", "raymond", "-N", "7", "--workload", "poisson", "--rate", "0.3")


def printed(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> str:
    assert run(list(words)) == status
    return capsys.readouterr().out


def test_every_measure_that_is_judged_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    header, row, *_ = printed(capsys, "compare", "suzuki-kasami", "-N", "5").splitlines()
    assert [header.split()[place] for place in (2, 4, 6, 8, 10)] == [
        "idle",
        "again",
        "saturated",
        "client",
        "sync",
    ]
    assert row.split()[:5] == ["suzuki-kasami", "5", "5", "N", "="]


def test_intervals_stand_beside_the_formulas(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, *POISSON, "--seeds", "4", "--latency", "exponential:1", "--hold", "1")
    row = next(line for line in text.splitlines() if line.startswith("maekawa"))
    assert row.count(" ± ") == 7
    assert "3(K - 1) to 6(K - 1) = 6…12" in row
    assert "95 % interval of a mean over seeds, by Student's t" in text
    assert "nothing is judged" in text


@pytest.mark.parametrize("output", ["csv", "json", "table"])
def test_processes_change_no_byte(capsys: pytest.CaptureFixture[str], output: str) -> None:
    words = (*POISSON, "--seeds", "3", "-o", output)
    assert printed(capsys, *words, "--jobs", "2") == printed(capsys, *words)


def test_csv_has_a_line_for_each_cost(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "compare", "maekawa", "bully", "-N", "3,7", "-o", "csv")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == 2 * 5 + 2 * 3
    assert rows[0]["cost"] == "messages_idle"
    assert {row["agrees"] for row in rows} == {"True"}


def test_json_has_the_intervals(capsys: pytest.CaptureFixture[str]) -> None:
    (row, _) = json.loads(printed(capsys, *POISSON, "--seeds", "4", "-o", "json"))
    assert row["load"] == "poisson"
    assert row["half_widths"]["messages_per_entry"] > 0
    assert row["waiting"]["count"] == 4
    assert row["agrees"] is None


def test_delays_of_a_file_serve_all_sizes_that_they_fit(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("compare", "centralized", "--latency", f"{EXAMPLE}~0.1", "-o", "csv", "-N")
    rows = list(csv.DictReader(io.StringIO(printed(capsys, *words, "5,10"))))
    delays = [float(row["measured"]) for row in rows if row["cost"] == "client_delay"]
    assert all(50 < delay < 150 for delay in delays)
    assert run([*words, "5,7"]) == 64
    assert "delays for 5 places" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--workload", "sometimes"], "unknown workload: 'sometimes'"),
        (["--workload", "poisson", "--rate", "0"], "the rate must be positive, got 0"),
        (["--workload", "poisson", "--plot", "x.svg"], "leave out --workload"),
        (["--latency", "fast"], "expected a number of time units"),
        (["--hold", "-1"], "at least 0"),
        (["bully", "--workload", "closed"], "bully elects"),
        (["bully", "--multicast"], "--multicast is for mutual exclusion, and bully elects"),
        (["--seeds", "0"], "0"),
    ],
)
def test_what_makes_no_sense_is_refused(
    capsys: pytest.CaptureFixture[str], options: list[str], text: str
) -> None:
    assert run(["compare", "maekawa", *options]) == 64
    assert text in capsys.readouterr().err


def test_all_means_all_mutexes_where_there_is_a_workload(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = printed(capsys, "compare", "-N", "3", "--workload", "burst", "--entries", "1")
    assert "naimi-trehel" in text
    assert "bully" not in text


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_an_interrupt_leaves_what_is_compared(jobs: str) -> None:
    """The first is done at once, the second would take minutes."""
    sizes = ["-N", "3,300", "--seeds", "300", "--workload", "closed", "--entries", "1"]
    words = ["compare", "ricart-agrawala", *sizes, "--jobs", jobs, "-o", "csv"]
    out = interrupted(words, "N = 300")
    assert {row["processes"] for row in csv.DictReader(io.StringIO(out))} == {"3"}
