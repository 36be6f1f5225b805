"""The commands of the laboratory, as a user types them."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from coterie.cli import run
from coterie.cli.root import COMMANDS
from coterie.trace import parse_trace

if TYPE_CHECKING:
    from pathlib import Path


def json_of(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> Any:
    assert run([*arguments, "-o", "json"]) == status
    return json.loads(capsys.readouterr().out)


FOUR = ("ricart-agrawala", "centralized", "maekawa", "suzuki-kasami")


def test_compare_measures_what_the_literature_says(capsys: pytest.CaptureFixture[str]) -> None:
    rows = json_of(capsys, "compare", *FOUR, "-N", "3,7,13")
    assert len(rows) == 4 * 3 * 2
    by_key = {(row["algorithm"], row["processes"], row["load"]): row for row in rows}
    for size, quorum in ((3, 2), (7, 3), (13, 4)):
        idle = {name: by_key[name, size, "idle"] for name in FOUR}
        messages = {name: row["messages_per_entry"] for name, row in idle.items()}
        assert messages == {
            "ricart-agrawala": 2 * (size - 1),
            "centralized": 3,
            "maekawa": 3 * (quorum - 1),
            "suzuki-kasami": size,
        }
        assert idle["suzuki-kasami"]["messages_per_entry_again"] == 0
        assert all(row["client_delay"] == 2 for row in idle.values())
        assert idle["ricart-agrawala"]["synchronisation_delay"] == 1
        assert idle["suzuki-kasami"]["synchronisation_delay"] == 1
        assert idle["centralized"]["synchronisation_delay"] == 2
        assert idle["maekawa"]["synchronisation_delay"] == (1 if size == 3 else 2)
    assert all(row["agrees"] for row in rows)


@pytest.mark.parametrize("name", FOUR)
def test_check_verifies(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    verdict = json_of(capsys, "check", name, "-N", "3")
    assert verdict["verdict"] == "verified"
    assert verdict["states"] > 0
    assert verdict["transitions"] > 0
    assert verdict["seconds"] >= 0


def test_check_refutes_with_the_shortest_way(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    picture = tmp_path / "deadlock.svg"
    assert run(["check", "maekawa", "--variant", "survey", "--trace", str(picture)]) == 1
    assert "deadlock" not in capsys.readouterr().err
    assert picture.read_text().startswith("<svg")


def test_check_stopped_by_its_budget_is_not_verified(capsys: pytest.CaptureFixture[str]) -> None:
    verdict = json_of(capsys, "check", "lamport", "-N", "3", "--max-states", "100", status=3)
    assert verdict["verdict"] == "unfinished"


def test_simulate_has_the_facts(capsys: pytest.CaptureFixture[str]) -> None:
    facts = json_of(capsys, "simulate", "maekawa", "-N", "7", "--entries", "3")
    assert facts["entries"] == 21
    assert facts["violations"] == []
    assert facts["unserved"] == 0
    assert facts["messages"] == sum(facts["messages_by_kind"].values())


def test_simulate_says_no_when_somebody_is_not_served(capsys: pytest.CaptureFixture[str]) -> None:
    facts = json_of(capsys, "simulate", "ricart-agrawala", "--fault", "crash 2 @ 5", status=1)
    assert facts["unserved"] == 4
    assert [violation["name"] for violation in facts["violations"]] == ["stuck"]


@pytest.mark.parametrize("suffix", [".jsonl", ".svg", ".shiviz", ".perfetto.json"])
def test_a_trace_is_written_in_the_format_of_its_name(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"run{suffix}"
    assert run(["simulate", "centralized", "-N", "3", "--entries", "1", "--trace", str(path)]) == 0
    text = path.read_text()
    assert text
    if suffix == ".jsonl":
        assert parse_trace(text).header.algorithm == "centralized"


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["simulate", "maekawaa"], 64, "did you mean 'maekawa'"),
        (["check", "maekawa", "-N", "0"], 64, "at least 1, got 0"),
        (["check", "maekawa", "-N", "43", "--coterie", "plane:6"], 64, "order 6"),
        (["check", "maekawa", "-N", "4", "--coterie", "1,2 3,4"], 78, "{1,2} and {3,4}"),
        (["simulate", "maekawa", "--fault", "crash 1 at 5"], 64, "crash"),
        (["simulate", "maekawa", "--fault", "crash 9 @ 5"], 78, "process 9"),
        (["simulate", "maekawa", "--latency", "slow"], 64, "latency"),
        (["simulate", "maekawa", "--workload", "lazy"], 64, "closed"),
        (["simulate", "raymond", "-N", "3", "--tree", "1-2,1-2"], 78, "1-2"),
        (["compare", "-N", "three"], 64, "three"),
        (["check"], 64, "--all"),
        (["check", "maekawa", "--frobnicate"], 64, "--frobnicate"),
    ],
)
def test_bad_input_is_one_line_that_names_the_problem(
    arguments: list[str], status: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == status
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("coterie: ")
    assert captured.err.count("\n") == 1
    assert words in captured.err


def test_the_same_seed_prints_the_same_whatever_the_hash_seed(tmp_path: Path) -> None:
    outputs = []
    for hash_seed in ("1", "2"):
        trace = tmp_path / f"{hash_seed}.jsonl"
        command = [sys.executable, "-m", "coterie", "simulate", "maekawa", "-N", "7", "--seed", "5"]
        command += ["--latency", "exponential:1", "--trace", str(trace), "-o", "json"]
        done = subprocess.run(
            command, env={"PYTHONHASHSEED": hash_seed}, capture_output=True, check=True
        )
        outputs.append((done.stdout, trace.read_bytes()))
    assert outputs[0] == outputs[1]


def test_the_tour_writes_a_page_with_pictures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "tour.html"
    assert run(["tour", "--report", str(page)]) == 0
    text = page.read_text()
    assert text.count("<svg") >= 4
    assert "2. Verified" in capsys.readouterr().out


def test_without_a_command_the_help_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 64
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("Usage: coterie ")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_shows_examples_as_written_and_no_summary_is_cut(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([name, "--help"]) == 0
    assert "\\b" not in capsys.readouterr().out
    assert run(["--help"]) == 0
    summary = next(line for line in capsys.readouterr().out.splitlines() if f"  {name} " in line)
    assert not summary.endswith("...")


def test_a_run_of_hundreds_of_moves_is_written_as_a_page(tmp_path: Path) -> None:
    page = tmp_path / "run.html"
    assert run(["simulate", "centralized", "-N", "3", "--entries", "25", "--trace", str(page)]) == 0
    assert 200 * 1024 < page.stat().st_size < 2 * 1024 * 1024
