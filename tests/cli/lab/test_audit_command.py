"""`coterie audit` from outside, as far as that needs no server."""

from __future__ import annotations

import json
import sqlite3
import sys
from contextlib import closing
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from coterie.cli import run

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def url(tmp_path: Path) -> str:
    path = tmp_path / "audited.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("create table other (x)")
    return f"sqlite:///{path}"


def test_the_smallest_anomaly_is_drawn(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--isolation", "autocommit", "--workload", "lost-update", "--transactions", "4"]
    assert run(["audit", url, *options]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("autocommit: not serializable")
    assert lines[2].startswith("lost-update       1          ")
    assert "smallest: G-single (lost update), by lost-update" in lines
    header = next(line for line in lines if line.startswith("  T"))
    reads = [line for line in lines if "read 1/counter" in line and "before" not in line]
    assert len(header.split()) == len(reads) == 2


def test_the_picture_has_a_lane_for_each_transaction(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--isolation", "autocommit", "--workload", "write-skew", "--transactions", "4"]
    assert run(["audit", url, *options, "-o", "svg"]) == 1
    root = ET.fromstring(capsys.readouterr().out)  # noqa: S314 - our own output
    texts = [element.text or "" for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[0].startswith("G2-item")
    assert sum(text == "commit" for text in texts) >= 2


def test_the_recorded_history_is_judged_as_the_audit_was(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "recorded.jsonl"
    options = ["--isolation", "autocommit", "--transactions", "30", "--history", str(file)]
    assert run(["audit", url, *options, "-o", "json"]) == 1
    facts = json.loads(capsys.readouterr().out)
    assert run(["history", str(file), "-o", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["levels"] == facts["levels"]


def test_without_an_anomaly_it_says_how_much_was_run(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["audit", url, "--workload", "bank", "--transactions", "4"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("serializable: no anomaly in what was run")
    workload, rounds, committed, *_ = lines[2].split()
    assert (workload, rounds) == ("bank", "1")
    assert int(committed) >= 2


@pytest.mark.parametrize(
    ("arguments", "status", "complaint"),
    [
        (["mysql://host/db"], 64, "expected the URL of a store (postgresql://, sqlite://"),
        (["sqlite:///x.db", "--isolation", "snapshot"], 64, "one of autocommit, serializable, got"),
        (["sqlite:///x.db", "--workload", "bank,chess"], 64, "got 'chess'"),
        (["sqlite:///"], 64, "names a file"),
    ],
)
def test_mistakes_are_told(
    arguments: list[str], status: int, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["audit", *arguments]) == status
    assert complaint in capsys.readouterr().err


def test_a_missing_library_is_told_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "coterie.lab.audit.postgresql", raising=False)
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    assert run(["audit", "postgresql://host/db"]) == 78
    assert "pip install 'coterie[postgresql]'" in capsys.readouterr().err


def test_several_servers_of_redis_are_refused_rather_than_one_of_them_chosen(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("redis")
    assert run(["audit", "redis://me:secret@one:6379,two:6380"]) == 64
    complaint = capsys.readouterr().err
    assert "redis://one:6379,two:6380: one server is audited at a time" in complaint
    assert "secret" not in complaint
