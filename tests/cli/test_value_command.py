"""Values and notes from the shell: `coterie lock --read`, `--write`, `--note`, and what is shown of them."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

import coterie.sync
from coterie.cli import run
from coterie.locks.value import DATA_BYTES_MAX
from tests.processes import BOUND_SECONDS, COTERIE, Directory, directory, kill, line

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def locks(tmp_path: Path) -> Iterator[Directory]:
    with directory(tmp_path / "locks") as opened:
        yield opened


def value(locks: Directory, name: str = "import") -> bytes | None:
    with coterie.sync.connect(f"file:{locks.folder}") as c:
        found = c.read(name)
    return None if found is None else found.data


def test_each_run_goes_on_where_the_last_one_ended(locks: Directory, tmp_path: Path) -> None:
    rows = tmp_path / "rows"
    command = ("lock", "--read", str(rows), "--write", str(rows), "import", "--")
    for number in (1, 2, 3):
        rows.write_text("what lies there from before")
        done = locks.run(*command, "sh", "-c", f"echo row >> {rows}")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert value(locks) == b"row\n" * number


def test_without_success_the_value_stays(locks: Directory, tmp_path: Path) -> None:
    rows = tmp_path / "rows"
    rows.write_text("1")
    assert locks.run("lock", "--write", str(rows), "import", "--", "true").returncode == 0
    rows.write_text("2")
    assert locks.run("lock", "--write", str(rows), "import", "--", "false").returncode == 1
    assert value(locks) == b"1"


def test_a_command_that_was_killed_with_its_parent_writes_nothing(
    locks: Directory, tmp_path: Path
) -> None:
    rows = tmp_path / "rows"
    rows.write_text("1")
    holder = locks.start("lock", "--write", str(rows), "import", "--", "sh", "-c", "echo in; cat")
    assert line(holder) == "in"
    kill(holder)
    assert value(locks) is None


def test_one_that_has_lost_its_lock_writes_nothing(locks: Directory, tmp_path: Path) -> None:
    rows = tmp_path / "rows"
    rows.write_text("1")
    script = 'echo in; trap "exit 0" TERM; while :; do sleep 0.01; done'
    holder = locks.start("lock", "--write", str(rows), "import", "--", "sh", "-c", script)
    assert line(holder) == "in"
    assert locks.run("break", "--yes", "import").returncode == 0
    assert holder.wait(BOUND_SECONDS) == coterie.LockLost.exit_status
    assert value(locks) is None


def test_without_a_command_the_value_goes_through_a_pipe(locks: Directory) -> None:
    def piped(option: str, data: bytes = b"") -> bytes:
        done = subprocess.run(
            [*COTERIE, "lock", option, "-", "import"],
            env=locks.environment,
            input=data,
            stdout=subprocess.PIPE,
            check=True,
        )
        return done.stdout

    data = bytes(range(256)) * (DATA_BYTES_MAX // 256)
    assert piped("--read") == b""
    assert piped("--write", data) == b""
    assert piped("--read") == data


def test_the_old_value_comes_before_the_new_one(locks: Directory, tmp_path: Path) -> None:
    rows = tmp_path / "rows"
    for number in ("1", "2"):
        rows.write_text(number)
        done = locks.run("lock", "--read", "-", "--write", str(rows), "import")
        assert done.stdout == {"1": "", "2": "1"}[number]


def test_the_value_is_that_of_the_lock_that_was_named(locks: Directory, tmp_path: Path) -> None:
    rows = tmp_path / "rows"
    rows.write_text("1")
    several = ("--also", "a", "--also", "z")
    assert locks.run("lock", *several, "--write", str(rows), "import", "true").returncode == 0
    assert [value(locks, name) for name in ("a", "import", "z")] == [None, b"1", None]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--write", "-", "a", "true"], "--write -: standard input and output are the command's"),
        (["--read", "-", "a", "true"], "--read -: standard input and output are the command's"),
        (["-s", "--write", "x", "a", "true"], "--write and -s exclude each other"),
        (["-k2", "--read", "x", "a", "true"], "--read and -k exclude each other"),
        (["-k2", "--note", "x", "a", "true"], "--note and -k exclude each other"),
        (["--write", "/no/such", "a"], "cannot read /no/such: No such file"),
        (["--write", "/no/such", "a", "true"], "cannot read /no/such: No such file"),
        (["--read", "/no/such", "a", "true"], "cannot write /no/such: No such file"),
        (["--write", "/dev/zero", "a"], "/dev/zero: a value has at most 65536 bytes"),
        (["--note", "a\tb", "a", "true"], "cannot be printed"),
    ],
)
def test_a_mistake_is_one_clear_line(
    arguments: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COTERIE_URL", f"file:{tmp_path / 'locks'}")
    assert run(["lock", *arguments]) == coterie.UsageError.exit_status
    stdout, stderr = capfd.readouterr()
    assert (stdout, stderr.count("\n")) == ("", 1)
    assert said in stderr


def test_a_note_is_shown_while_the_command_runs(locks: Directory) -> None:
    holder = locks.start("lock", "--note", "row 7 of 9", "import", "--", "sh", "-c", "echo in; cat")
    assert line(holder) == "in"
    assert "row 7 of 9" in locks.run("status", "locks").stdout


def test_who_follows_a_leader_sees_its_note(locks: Directory) -> None:
    follower = locks.start("elect", "-l", "scheduler")
    assert line(follower) == "scheduler -"
    leader = locks.start("elect", "--note", "http://10.0.0.7:8000", "scheduler")
    assert line(leader).startswith("scheduler ")
    assert line(follower).endswith(" http://10.0.0.7:8000")
    assert run(["elect", "-l", "--note", "x", "scheduler"]) == coterie.UsageError.exit_status


def test_operators_see_values_and_make_no_directory(locks: Directory, tmp_path: Path) -> None:
    assert locks.run("status", "values").stdout.split()[:2] == ["lock", "bytes"]
    assert not locks.folder.exists()
    data = tmp_path / "data"
    for name, content in (("a", b"row 1\n"), ("b", b"\xff\x00"), ("c", b"x" * 100)):
        data.write_bytes(content)
        assert locks.run("lock", "--write", str(data), name).returncode == 0
    rows = [row.split(maxsplit=6) for row in locks.run("status", "values").stdout.splitlines()[1:]]
    assert [(row[0], row[1], row[3], row[6]) for row in rows] == [
        ("a", "6", "1", r"row 1\n"),
        ("b", "2", "1", "-"),
        ("c", "100", "1", "x" * 39 + "…"),
    ]
    shown = json.loads(locks.run("status", "values", "-o", "json").stdout)
    assert [each["name"] for each in shown] == ["a", "b", "c"]
    assert shown[0]["value"]["data"] == "cm93IDEK"
    assert shown[0]["value"]["version"][1] == 1
