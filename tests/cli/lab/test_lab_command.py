"""`coterie lab` and the pages of `coterie serve`, as a shell sees them."""

from __future__ import annotations

import importlib.util
import signal
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urljoin, urlsplit

import msgspec
import pytest

from coterie.cli import run
from coterie.lab.play.exercises.challenge import (
    BUDGET_MILLISECONDS,
    ChallengeQuestion,
    challenges,
    hint,
)
from coterie.lab.play.laboratory import Laboratory
from coterie.lab.play.runs.address import RunAddress, code_of, write_address
from coterie.lab.web.exports import ExportQuestion, export
from tests.processes import BOUND_SECONDS, Directory, directory, line

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Directory]:
    with directory(tmp_path / "locks") as opened:
        yield opened


def fetch(address: str, **headers: str) -> tuple[int, str]:
    parts = urlsplit(address)
    connection = HTTPConnection(parts.netloc, timeout=BOUND_SECONDS)
    try:
        connection.request("GET", parts.path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


@pytest.mark.parametrize("kind", ["first line", "scenario", "trace"])
def test_it_opens_a_line_a_scenario_or_a_trace(shell: Directory, tmp_path: Path, kind: str) -> None:
    scenario, trace = tmp_path / "run.txt", tmp_path / "run.jsonl"
    scenario.write_text("# Two ask\nmaekawa 3\nacquire 1\n  1 > 2  Request(1.1)\nacquire 2\nshow\n")
    if kind == "trace":
        assert run(["check", "maekawa", "--variant", "basic", "--trace", str(trace)]) == 1
    named = {"first line": "maekawa 3", "scenario": str(scenario), "trace": str(trace)}[kind]
    serving = shell.start("lab", named, "--port", "0", "--no-open")
    address = line(serving)
    moves = {"first line": 0, "scenario": 2, "trace": 6}[kind]
    assert address.endswith(f"@{moves}")
    status, page = fetch(address)
    assert status == 200
    assert "coterie lab" in page
    serving.send_signal(signal.SIGINT)
    assert serving.wait(BOUND_SECONDS) == 0


def test_a_file_with_a_proof_and_no_algorithm_opens_its_clauses(
    shell: Directory, tmp_path: Path
) -> None:
    path = tmp_path / "lamp.py"
    path.write_text("from coterie.lab.prove import Page\n\nPAGE = Page('lamp')\n", encoding="utf-8")
    serving = shell.start("lab", str(path), "--port", "0", "--no-open")
    address = line(serving)
    assert unquote(address).endswith(f"/#/prove/{path}")
    assert str(path) in fetch(urljoin(address, "/api/proofs"))[1]
    serving.send_signal(signal.SIGINT)
    assert serving.wait(BOUND_SECONDS) == 0


@pytest.mark.parametrize(
    ("argument", "text"),
    [
        ("nonsense", "no such file"),
        ("nonsense 3", "nonsense"),
        ("maekawa 99", "99"),
        ("maekawa three", "expected an algorithm and a size"),
    ],
)
def test_a_run_that_cannot_be_played_is_refused_before_a_page_is_served(
    argument: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["lab", argument, "--no-open"]) == 64
    assert text in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "library", "extras"),
    [
        (["lab"], "uvicorn", "web,explore"),
        (["lab"], "numpy", "web,explore"),
        (["status", "--web"], "uvicorn", "web"),
    ],
)
def test_a_missing_library_is_named_with_what_to_install(
    arguments: list[str],
    library: str,
    extras: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    find = importlib.util.find_spec

    def without(name: str, *rest: Any) -> Any:
        return None if name == library else find(name, *rest)

    monkeypatch.setattr(importlib.util, "find_spec", without)
    assert run(arguments) == 78
    assert f"need {library}: pip install 'coterie[{extras}]'" in capsys.readouterr().err


def test_a_node_serves_the_dashboard_beside_its_votes(shell: Directory) -> None:
    serving = shell.start("serve", "--dev", "3", "--port", "0", "--web", "0")
    assert line(serving).startswith("coterie://")
    assert serving.stderr is not None
    told = next(text for text in serving.stderr if "dashboard at" in text)
    address, file = told.split("dashboard at ")[1].strip().split(", with the token in ")
    assert "token" not in address  # a log is read by others
    assert Path(file).parent.stat().st_mode & 0o077 == 0
    token = Path(file).read_text().split("#token=")[1].split('"')[0]
    assert "cluster.js" in fetch(address)[1]
    jobs = address.replace("/cluster", "/api/cluster/jobs")
    assert fetch(jobs)[0] == 401
    assert fetch(jobs, Authorization=f"Bearer {token}") == (200, "[]")
    assert fetch(address, Host="example.org")[0] == 403
    serving.terminate()
    assert serving.wait(BOUND_SECONDS) == 0
    assert not Path(file).exists()


def test_a_port_that_is_taken_is_passed_over(shell: Directory) -> None:
    first = shell.start("lab", "--port", "0", "--no-open")
    port = line(first).split(":")[2].split("/")[0]
    second = shell.start("lab", "--port", port, "--no-open")
    assert line(second) != f"http://127.0.0.1:{port}/"
    assert second.stderr is not None
    assert f"port {port} is taken" in second.stderr.readline()


def test_a_simulated_run_is_stepped_through(shell: Directory) -> None:
    command = ("simulate", "maekawa", "-N", "3", "--entries", "1", "--open")
    serving = shell.start(*command)
    assert serving.stdout is not None
    address = next(text for text in serving.stdout if text.startswith("http"))
    assert "#/run/maekawa" in address
    serving.send_signal(signal.SIGINT)
    assert serving.wait(BOUND_SECONDS) == 0


def test_only_one_run_can_be_opened(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "maekawa", "--seeds", "2", "--open"]) == 64
    assert "--open shows one run" in capsys.readouterr().err


DEADLOCK = "#/break/deadlock/a1/a2/a3/d1.2/d2.3/d3.1"


def test_answers_are_graded_from_addresses_and_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answers, scenario, trace = (tmp_path / name for name in ("anna.txt", "ben.txt", "eve.jsonl"))
    answers.write_text(f"{DEADLOCK} # 2 hints\nhttp://127.0.0.1:8421/{DEADLOCK}@6\n")
    scenario.write_text(
        "maekawa 3 variant=basic\nacquire 1\n  1 > 2  Request(1.1)\nacquire 2\nacquire 3\nrun\n"
    )
    assert run(["check", "maekawa", "--variant", "basic", "--trace", str(trace)]) == 1
    capsys.readouterr()
    named = [str(answers), str(scenario), str(trace), "#/break/two-inside/a1/a2/s2.1/d2.3/d3.2"]
    assert run(["lab", "--grade", *named, "-o", "json"]) == 0
    grades = msgspec.json.decode(capsys.readouterr().out)
    assert [each["challenge"] for each in grades] == [*["deadlock"] * 4, "two-inside"]
    assert {each["score"] for each in grades} == {1.0}
    assert [each["faults"] for each in grades] == [0, 0, 0, 0, 1]
    assert grades[1]["answer"] == "anna.txt:2"


def test_every_challenge_can_be_handed_in_in_every_form(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An exported violation ends with `show`, which is no move."""
    laboratory = Laboratory(BUDGET_MILLISECONDS)
    handed_in = []
    for name, page in challenges().items():
        asked = ChallengeQuestion(name, page.moves, budget_ms=BUDGET_MILLISECONDS)
        way = hint(laboratory, asked)
        moves = [*page.moves, *way]
        handed_in.append((name, f"#/break/{name}/{'/'.join(map(code_of, way))}"))
        handed_in.append((name, write_address(RunAddress(page.first, moves))))
        for form in ("scenario", "jsonl"):
            written = export(ExportQuestion(page.first, form, moves), lambda: False)
            path = tmp_path / f"{name}.{form}"
            path.write_text(written.content)
            handed_in.append((name, str(path)))
    assert run(["lab", "--grade", *(answer for _, answer in handed_in), "-o", "json"]) == 0
    grades = msgspec.json.decode(capsys.readouterr().out)
    assert [each["challenge"] for each in grades] == [name for name, _ in handed_in]
    assert {each["score"] for each in grades} == {1.0}


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("#/break/deadlock/a1", "the goal is not reached"),
        ("#/break/deadlock/c1", "outside the bound"),
        ("#/break/no-answer/a2/d2.1/a1/c2", "the goal is not reached"),  # process 2 is dead
        ("#/break/starve-3/a2/a3/d2.1/d3.2", "the goal is not reached"),  # process 1 may ask
        ("#/break/nothing/a1", "there is no challenge"),
        ("#/break/deadlock/what", "no move is written"),
        ("#/run/raymond%203/d1.2", "cannot"),
        ("#/run/lamport%203/a1", "no challenge begins with"),
    ],
)
def test_an_answer_that_does_not_reach_its_goal_is_said_to(
    answer: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["lab", "--grade", DEADLOCK, answer]) == 1
    written = capsys.readouterr().out
    assert text in written
    assert "1 of 2 reached" in written


@pytest.mark.parametrize("arguments", [["--grade"], ["--grade", "no such file"], ["a 3", "b 3"]])
def test_what_cannot_be_graded_or_opened_is_refused(arguments: list[str]) -> None:
    assert run(["lab", *arguments, "--no-open"]) == 64


def test_all_runs_of_a_small_system_are_written_as_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "maekawa.html"
    assert run(["lab", "maekawa 3 variant=basic", "--export", str(path)]) == 0
    assert path.stat().st_size < 200_000
    assert run(["lab", "lamport 3 channel=unordered", "--export", str(path)]) == 64
    assert "at most 20,000 states" in capsys.readouterr().err
    for arguments in ([], ["maekawa 3", "x 3"], ["fault-tolerant 3"]):
        assert run(["lab", *arguments, "--export", str(path)]) == 64
