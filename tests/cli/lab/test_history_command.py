"""`coterie history` from outside."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import pytest

from coterie.cli import run

DOCS = Path(__file__).parents[3] / "docs"
HISTORIES = DOCS / "histories"
PAGES = "".join(
    (DOCS / name).read_text(encoding="utf-8") for name in ("history.md", "history-versions.md")
)
SVG = "{http://www.w3.org/2000/svg}"


def texts(picture: str) -> list[str]:
    root = ET.fromstring(picture)  # noqa: S314 - our own output
    return [element.text or "" for element in root.iter(f"{SVG}text")]


def test_an_order_is_given_for_a_serializable_history(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["history", str(HISTORIES / "thomas.jsonl"), "-o", "json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["serializable"] is True
    assert facts["order"] == ["T10", "T20"]
    assert facts["anomalies"] == []


def test_the_anomaly_of_another_is_named_with_its_cycle(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["history", str(HISTORIES / "on-call.jsonl"), "-o", "json"]) == 1
    facts = json.loads(capsys.readouterr().out)
    assert facts["serializable"] is False
    (anomaly,) = facts["anomalies"]
    assert (anomaly["name"], anomaly["meaning"]) == ("G2-item", "write skew")
    assert anomaly["cycle"] == ["T1", "T2"]
    assert facts["order"] is None


def test_a_history_may_come_from_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    content = (HISTORIES / "transfer.jsonl").read_bytes()
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(content)))
    assert run(["history", "-"]) == 1
    assert "G-single (lost update): rent, food" in capsys.readouterr().out


def test_a_bad_line_ends_with_64_and_its_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_text('{"transaction": 1, "op": "commit"}\n{"transaction": 2, "op": "stop"}\n')
    assert run(["history", str(file)]) == 64
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == (
        f"coterie: {file}: line 2: op must be one of begin, read, write, append, commit, abort, got"
        " 'stop'; see coterie history --help\n"
    )


def test_a_file_that_is_not_there_ends_with_64(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["history", "nowhere.jsonl"]) == 64
    assert "nowhere.jsonl" in capsys.readouterr().err


def test_what_was_too_hard_ends_with_3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("coterie.lab.serializability.checker.LARGEST", 2)
    accesses = [
        *(("w1", "write", "x", 1), ("w1", "write", "y", 1), ("w2", "write", "x", 2)),
        *(("w2", "write", "y", 2), ("r", "read", "x", 1), ("r", "read", "y", 2)),
    ]
    lines = [{"transaction": t, "op": o, "key": k, "value": v} for t, o, k, v in accesses]
    ends = [{"transaction": name, "op": "commit"} for name in ("w1", "w2", "r")]
    file = tmp_path / "hard.jsonl"
    file.write_text("\n".join(json.dumps(line) for line in [*lines, *ends]))
    assert run(["history", str(file)]) == 3
    assert capsys.readouterr().out.splitlines()[:3] == [
        "undecided: 3 transactions",
        "versions are not known, and more than 2 transactions and keys are not searched",
        "kept: read-committed; not kept: read-atomic, causal, snapshot-isolation, serializable",
    ]
    assert run(["history", str(file), "-o", "svg"]) == 3
    assert texts(capsys.readouterr().out) == ["Whether this is serializable was too hard to tell"]


def test_the_picture_shows_the_cycle_with_its_keys(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["history", str(HISTORIES / "on-call.jsonl"), "-o", "svg"]) == 1
    shown = texts(capsys.readouterr().out)
    assert shown[0] == "G2-item: write skew"
    assert {"T1", "T2", "rw ann", "rw bob"} <= set(shown)


def test_the_picture_of_a_serializable_history_shows_the_order(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["history", str(HISTORIES / "thomas.jsonl"), "-o", "svg"]) == 0
    assert texts(capsys.readouterr().out) == ["Equivalent serial order", "T10", "T20"]


def test_a_long_order_is_shortened_and_written_to_a_file_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, order = tmp_path / "long.jsonl", tmp_path / "order"
    file.write_text("\n".join(json.dumps({"transaction": n, "op": "commit"}) for n in range(100)))
    assert run(["history", str(file), "--order", str(order)]) == 0
    line = capsys.readouterr().out.splitlines()[-1]
    assert line.startswith("equivalent serial order: 0, 1, ")
    assert "19, ... 60 more ..., 80, " in line
    assert order.read_text().split() == [str(n) for n in range(100)]


def test_real_time_and_sessions_are_judged_if_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "stale.jsonl"
    events = [
        {"transaction": 1, "op": "append", "key": "x", "value": 7, "session": "a"},
        {"transaction": 1, "op": "commit"},
        {"transaction": 2, "op": "read", "key": "x", "value": [], "session": "a"},
        {"transaction": 2, "op": "commit"},
    ]
    file.write_text("\n".join(map(json.dumps, events)))
    assert run(["history", str(file)]) == 0
    assert run(["history", str(file), "--real-time"]) == 1
    assert "serializable; not kept: strict-serializable" in capsys.readouterr().out
    assert run(["history", str(file), "--sessions", "-o", "json"]) == 1
    facts = json.loads(capsys.readouterr().out)
    assert facts["anomalies"][0]["name"] == "lost append"
    assert facts["levels"]["read-your-writes"] is False
    assert facts["levels"]["monotonic-writes"] is True


def test_pictures_stay_small(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A long order is cut, and so are many anomalies."""
    file = tmp_path / "long.jsonl"
    ends = [json.dumps({"transaction": n, "op": "commit"}) for n in range(100)]
    file.write_text("\n".join(ends))
    run(["history", str(file), "-o", "svg"])
    assert texts(capsys.readouterr().out)[-1] == "and 40 more"
    reads = [
        json.dumps({"transaction": n, "op": "read", "key": "x", "value": n}) for n in range(100)
    ]
    file.write_text("\n".join(reads + ends))
    run(["history", str(file), "-o", "svg"])
    assert texts(capsys.readouterr().out)[-1] == "and 88 more"


@pytest.mark.parametrize("name", ["on-call", "transfer", "thomas", "thomas-printed", "lost-reply"])
def test_the_command_prints_what_the_pages_show(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["history", str(HISTORIES / f"{name}.jsonl")])
    assert capsys.readouterr().out.rstrip() in PAGES


def test_the_picture_of_the_page_is_the_one_that_the_command_draws(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run(["history", str(HISTORIES / "on-call.jsonl"), "-o", "svg"])
    picture = (HISTORIES / "on-call.svg").read_text(encoding="utf-8")
    assert capsys.readouterr().out == picture


@pytest.mark.parametrize(
    "history", ["", '{"transaction": "T1", "op": "write", "key": "x", "value": 1}\n']
)
def test_a_history_in_which_nothing_has_committed_shows_nothing(
    history: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "history.jsonl"
    file.write_text(history, encoding="utf-8")
    assert run(["history", str(file)]) == 3
    assert capsys.readouterr().out.startswith("vacuous: no transaction")
