"""`coterie elect` from outside."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

import pytest

from coterie.cli import run
from tests.processes import BOUND_SECONDS, Directory, directory, kill, line, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def locks(tmp_path: Path) -> Iterator[Directory]:
    with directory(tmp_path / "locks") as opened:
        yield opened


def test_the_command_runs_on_the_leader_only_and_the_next_follows(locks: Directory) -> None:
    script = "echo leading $COTERIE_TOKEN; read line; exit 7"
    first = locks.start("elect", "a", "--", "sh", "-c", script)
    one = line(first)
    second = locks.start("elect", "a", "--", "sh", "-c", script)
    until(lambda: locks.waiters("a"))
    first.communicate("\n", timeout=BOUND_SECONDS)
    assert first.returncode == 7
    two = line(second)
    assert one.startswith("leading ")
    assert one < two


def test_followers_see_leaders_come_and_go(locks: Directory) -> None:
    follower = locks.start("elect", "-l", "a")
    assert line(follower) == "a -"
    leader = locks.start("elect", "a")
    term = line(leader)
    assert line(follower).startswith(f"{term} ")
    kill(leader)
    assert line(follower) == "a -"
    follower.send_signal(signal.SIGINT)
    assert follower.wait(BOUND_SECONDS) == 130


def test_followers_may_read_json(locks: Directory) -> None:
    leader = locks.start("elect", "a")
    term = line(leader)
    follower = locks.start("elect", "-l", "-o", "json", "a")
    seen = json.loads(line(follower))
    assert f"{seen['name']} {seen['leader']['token']}" == term


@pytest.mark.parametrize("program", [(), ("--", "sleep", "1000")])
def test_who_loses_the_leadership_exits_with_79(locks: Directory, program: tuple[str, ...]) -> None:
    leader = locks.start("elect", "a", *program)
    until(lambda: locks.holders("a"))
    (locks.folder / "words").unlink()
    _, talk = leader.communicate(timeout=BOUND_SECONDS)
    assert leader.returncode == 79
    assert "lock 'a'" in talk


def test_bad_usage_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["elect", "-l", "a", "true"]) == 64
    assert "leave out the command" in capsys.readouterr().err
    assert run(["elect", "a\tb"]) == 64
