"""`coterie audit-locks` from outside."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from coterie.cli import run

BROKEN = """
class Nothing:
    def acquire(self):
        return True

    def release(self):
        pass


def lock(place, name):
    return Nothing()
"""


@pytest.mark.slow
def test_a_broken_lock_ends_with_status_1_and_is_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    adapter, picture = tmp_path / "mylock.py", tmp_path / "two.svg"
    adapter.write_text(BROKEN, encoding="utf-8")
    options = ["--rounds", "1", "--faults", "kill", "--picture", str(picture)]
    assert run(["audit-locks", str(adapter), *options]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{adapter} (an adapter): BROKEN"
    assert next(line for line in lines if line.startswith("exclusion")).split()[1] == "broken"
    assert "Two programs have the lock" in picture.read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_lock_in_which_nothing_is_found_ends_with_status_0(
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = ["--rounds", "1", "--faults", "kill", "--seed", "3", "-o", "json"]
    assert run(["audit-locks", "file", *options]) == 0
    verdict = json.loads(capsys.readouterr().out)
    assert (verdict["seed"], verdict["faults"], verdict["server"]) == (3, {"kill": 1}, "")
    assert verdict["exclusion"]["overlaps"] == 0


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds children in /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_all_that_was_started(number: signal.Signals) -> None:
    command = [sys.executable, "-m", "coterie", "audit-locks", "file", "--rounds", "1000"]
    audit = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    children = Path(f"/proc/{audit.pid}/task/{audit.pid}/children")
    while len(found := children.read_text(encoding="utf-8").split()) < 3:
        assert audit.poll() is None
        time.sleep(0.02)
    audit.send_signal(number)
    _, talk = audit.communicate(timeout=60)
    assert audit.returncode == 130, talk
    assert not [pid for pid in found if Path(f"/proc/{pid}").exists()]


@pytest.mark.parametrize(
    ("arguments", "status", "complaint"),
    [
        (["zeppelin"], 64, "expected one of redis-py"),
        (["./nowhere.py"], 64, "there is no file"),
        (["fasteners", "--faults", "kill,plague"], 64, "got 'plague'"),
        (["fasteners", "--programs", "1"], 64, "--programs"),
    ],
)
def test_mistakes_are_one_line(
    arguments: list[str], status: int, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("fasteners")
    assert run(["audit-locks", *arguments]) == status
    assert complaint in capsys.readouterr().err
