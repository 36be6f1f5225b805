"""`coterie status` on a lock directory: as a shell sees it, with real processes."""

from __future__ import annotations

import json
import signal
import socket
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import coterie.sync
from coterie.cli import run
from coterie.cluster.admin.status import ClusterState
from tests.processes import BOUND_SECONDS, CROSSING, Directory, directory, kill, line, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Directory]:
    """A directory that the environment names, as a user's shell has it."""
    monkeypatch.chdir(tmp_path)
    with directory(tmp_path / "locks") as opened:
        monkeypatch.setenv("COTERIE_URL", f"file:{opened.folder}")
        yield opened


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[list[str]]:
    """Give the rows of a table, in words."""
    assert run(["status", *arguments]) == 0
    return [row.split() for row in capsys.readouterr().out.splitlines()]


def facts(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert run(["status", *arguments, "-o", "json"]) == 0
    content: dict[str, Any] = json.loads(capsys.readouterr().out)
    return content


def test_it_shows_who_holds_and_since_when_and_who_waits(
    locks: Directory, capsys: pytest.CaptureFixture[str]
) -> None:
    holder = locks.start("lock", "nightly")
    name, token = line(holder).split()
    waiter = locks.start("lock", "nightly")
    until(lambda: locks.waiters("nightly"))
    host = socket.gethostname()
    header, row = shown(capsys, "locks")
    assert header == ["lock", "holder", "token", "since", "waited", "waiting"]
    assert (row[:3], row[4:]) == (
        [name, f"{host}:{holder.pid}", token],
        ["s", "ago", "0.0", "s", "1"],
    )
    header, row = shown(capsys, "waiters")
    assert header == ["lock", "place", "waiter", "since"]
    assert row[:3] == [name, "1", f"{host}:{waiter.pid}"]


def test_who_shares_is_marked(locks: Directory, capsys: pytest.CaptureFixture[str]) -> None:
    readers = [locks.start("lock", "-s", "r") for _ in range(2)]
    for reader in readers:
        line(reader)
    _, *rows = shown(capsys, "locks")
    assert [row[2] for row in rows] == ["(shared)", "(shared)"]
    assert [party["shared"] for party in facts(capsys)["locks"][0]["holders"]] == [True, True]


def test_a_note_is_shown_where_there_is_one(
    locks: Directory, capsys: pytest.CaptureFixture[str]
) -> None:
    with coterie.sync.connect(f"file:{locks.folder}") as c:
        with c.lock("nightly", note="row 4711"):
            header, row = shown(capsys, "locks")
            assert header[-1] == "note"
            assert row[-2:] == ["row", "4711"]
            (lock,) = facts(capsys, "locks")["locks"]
            assert [each["note"] for each in lock["holders"]] == ["row 4711"]
        with c.lock("nightly"):
            header, _ = shown(capsys, "locks")
            assert header[-1] == "waiting"


def test_without_a_view_it_shows_the_locks_wherever_the_directory_comes_from(
    locks: Directory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    token = line(locks.start("lock", "a")).split()[1]
    assert shown(capsys)[1][2] == token
    monkeypatch.delenv("COTERIE_URL")
    assert shown(capsys, "--url", f"file:{locks.folder}")[1][2] == token
    monkeypatch.setenv("COTERIE_DIR", str(locks.folder))
    assert shown(capsys)[1][2] == token
    (tmp_path / "coterie.toml").write_text(f'url = "file:{locks.folder}"\n')
    monkeypatch.delenv("COTERIE_DIR")
    assert shown(capsys)[1][2] == token


def test_programs_read_what_they_read_of_a_cluster(
    locks: Directory, capsys: pytest.CaptureFixture[str]
) -> None:
    token = line(locks.start("lock", "a")).split()[1]
    state = facts(capsys, "locks")
    # Only what a directory does not have is missing; what is there is of the same type.
    missing = {"cluster": "", "coterie": "", "lease": 0.0}
    assert not set(missing) & set(state)
    read = msgspec.convert(state | missing, ClusterState)
    assert (read.health, read.nodes) == (0, [])
    assert [str(holder.token) for lock in read.locks for holder in lock.holders] == [token]
    assert state["directory"] == str(locks.folder)


def test_there_are_no_nodes(locks: Directory, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["status", "nodes"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"no nodes: {locks.folder} is a lock directory")
    assert (out.count("\n"), err) == (1, "")
    assert facts(capsys, "nodes")["nodes"] == []


@pytest.mark.parametrize("view", ["locks", "waiters", "graph"])
def test_a_directory_that_is_not_there_has_no_locks_and_is_not_made(
    locks: Directory, view: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["status", view]) == 0
    assert "no lock has been taken yet" in capsys.readouterr().err
    assert not locks.folder.exists()


def test_a_directory_that_cannot_be_read_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert run(["status", "--url", f"file:{tmp_path}/file"]) == 69
    assert capsys.readouterr().err.count("\n") == 1


def test_the_command_of_a_killed_lock_still_holds(
    locks: Directory, capsys: pytest.CaptureFixture[str]
) -> None:
    process = locks.start("lock", "a", "sh", "-c", "echo up; read line")
    line(process)
    kill(process)
    assert shown(capsys)[1][1].endswith(f":{process.pid}")
    process.communicate(timeout=BOUND_SECONDS)
    until(lambda: len(shown(capsys)) == 1)


def test_a_deadlock_is_shown_and_exits_with_1(
    locks: Directory, capsys: pytest.CaptureFixture[str]
) -> None:
    crossing = [locks.python("-c", CROSSING, *names) for names in (("a", "b"), ("b", "a"))]
    for process in crossing:
        assert line(process) == "holds"
    assert run(["status", "graph"]) == 0
    assert "no deadlock" in capsys.readouterr().out
    for process in crossing:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    until(lambda: locks.waiters("a") and locks.waiters("b"))
    assert run(["status", "graph"]) == 1
    assert "in a cycle of 4:" in capsys.readouterr().out
    assert run(["status", "graph", "-o", "json"]) == 1
    graph = json.loads(capsys.readouterr().out)
    assert len(graph["deadlocked"]) == 4
    owners = [f"{socket.gethostname()}:{process.pid}" for process in crossing]
    assert [graph["graph"][name]["held"] for name in ("a", "b")] == [[owner] for owner in owners]
    assert run(["status", "graph", "-o", "dot"]) == 1
    assert "digraph" in capsys.readouterr().out


def test_it_can_be_watched_until_somebody_interrupts(locks: Directory) -> None:
    watching = locks.start("status", "--watch", "--every", "10ms")
    assert watching.stdout is not None
    heads = (text for text in watching.stdout if text.startswith("lock"))
    next(heads)
    token = line(locks.start("lock", "a")).split()[1]
    next(text for text in watching.stdout if token in text)
    watching.send_signal(signal.SIGINT)
    watching.communicate(timeout=BOUND_SECONDS)
    assert watching.returncode == 130
