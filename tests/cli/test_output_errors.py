"""What happens when the result cannot be written, and mistakes that are noticed before the work."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from coterie.cli import run

COTERIE = f"{sys.executable} -m coterie"


def shell(command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False
    )


def test_a_reader_that_has_gone_is_not_an_answer_of_no() -> None:
    done = shell(f"{COTERIE} algorithms | true")
    assert done.returncode in {0, 141}  # 0: the pipe took all of it before its reader had gone
    assert done.stderr == ""
    done = shell(f"{COTERIE} simulate maekawa -N 3 --entries 5 -o json | head -c 1")
    assert done.returncode in {0, 141}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_is_said_in_one_line() -> None:
    done = shell(f"{COTERIE} algorithms > /dev/full")
    assert done.returncode == 69
    assert done.stderr == "coterie: cannot write the result: No space left on device\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_an_error_that_cannot_be_written_keeps_its_status() -> None:
    assert shell(f"{COTERIE} algorithms nosuch 2> /dev/full").returncode == 64


@pytest.mark.parametrize(
    ("file", "complaint"),
    [("x.foo", "must end in one of .jsonl"), ("no/where/x.svg", "no directory 'no/where'")],
)
def test_a_trace_that_cannot_be_written_is_refused_before_the_search(
    file: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["check", "maekawa", "--variant", "survey", "--trace", file]) == 64
    printed = capsys.readouterr()
    assert printed.out == ""
    assert complaint in printed.err


@pytest.mark.parametrize("command", ["history", "deadlock"])
def test_a_file_of_another_kind_is_named(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "job"
    file.write_text("#!/bin/sh\n")
    assert run([command, str(file)]) == 64
    error = capsys.readouterr().err
    assert error.startswith(f"coterie: {file}: ")
    assert f"see coterie {command} --help" in error


def test_a_password_is_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "-o", "json", "--url", "postgresql://user:sekret@127.0.0.1:1/db"]) == 1
    assert "sekret" not in "".join(capsys.readouterr())


def test_an_odd_host_name_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--url", "coterie://a..b:7420"]) == 64
    assert "a..b" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("lokc", "coterie: no command 'lokc': did you mean lock? see coterie --help"),
        ("status-all", "coterie: no command 'status-all': did you mean status? see coterie --help"),
        ("frobnicate", "coterie: no command 'frobnicate'; see coterie --help"),
    ],
)
def test_a_command_that_does_not_exist_is_answered_with_the_nearest(
    typed: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([typed]) == 64
    assert capsys.readouterr().err == f"{said}\n"
