"""Orders in a lock directory: which are obeyed, and what is said of a program that obeys none."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from typing import TYPE_CHECKING

import pytest

from coterie.engines.file.directory.folder import BOARDS, Directory
from coterie.engines.file.directory.orders import Order, order_name, read_order, write_order
from tests.processes import BOUND_SECONDS, directory, kill, line, until
from tests.processes import Directory as Commands

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from coterie.engines.file.directory.folder import Folder

PROGRAM, NUMBER = 7, 11
TEXT = f"coterie order 1\n{PROGRAM:016x}\n5\nx\nhost:1\n"


@pytest.fixture
def boards(tmp_path: Path) -> Iterator[Folder]:
    with (
        Directory(str(tmp_path / "locks")).open(make=True) as folder,
        folder.enter(BOARDS, make=True) as made,
    ):
        yield made


@pytest.fixture
def locks(tmp_path: Path) -> Iterator[Commands]:
    with directory(tmp_path / "locks") as opened:
        yield opened


def read(boards: Folder) -> object:
    return read_order(boards, PROGRAM, NUMBER, os.geteuid())


def test_an_order_says_what_it_ends(boards: Folder) -> None:
    number = write_order(boards, PROGRAM, "x y", 5, "host:1")
    found = read_order(boards, PROGRAM, number, os.geteuid())
    assert found == Order("x y", 5, "host:1", os.geteuid())
    assert read_order(boards, PROGRAM + 1, number, os.geteuid()) is None
    assert read_order(boards, PROGRAM, number + 1, os.geteuid()) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        TEXT[:-1],
        f"{TEXT}\n",
        TEXT.replace("order 1", "order 2"),
        TEXT.replace(f"{PROGRAM:016x}", f"{PROGRAM + 1:016x}"),
        TEXT.replace("\n5\n", "\n-5\n"),
        TEXT.replace("host", "h" * 4096),
    ],
    ids=["nothing", "cut off", "too long", "of another kind", "moved", "no token", "large"],
)
def test_what_is_no_order_for_this_program_is_left_alone(
    boards: Folder, tmp_path: Path, text: str
) -> None:
    path = tmp_path / "locks" / BOARDS / order_name(PROGRAM, NUMBER)
    path.write_text(TEXT)
    assert read(boards) is not None
    path.write_text(text)
    assert read(boards) is None


def test_a_file_that_may_be_another_one_of_its_owner_is_no_order(
    boards: Folder, tmp_path: Path
) -> None:
    path = tmp_path / "locks" / BOARDS / order_name(PROGRAM, NUMBER)
    (tmp_path / "file").write_text(TEXT)
    path.hardlink_to(tmp_path / "file")
    assert read(boards) is None
    path.unlink()
    path.symlink_to(tmp_path / "file")
    assert read(boards) is None
    path.unlink()
    os.mkfifo(path)
    assert read(boards) is None
    path.unlink()
    path.mkdir()
    assert read(boards) is None


def test_a_program_that_is_stopped_is_named_and_keeps_its_lock(locks: Commands) -> None:
    holder = locks.start("lock", "a")
    token = int(line(holder).split()[1])
    holder.send_signal(signal.SIGSTOP)
    try:
        done = locks.run("break", "a", "--yes")
    finally:
        holder.send_signal(signal.SIGCONT)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith(
        f"does not answer, and the lock is free when it ends: kill -9 {holder.pid}\n"
    )
    # It goes on, and finds that it was rung for an order which is not there any more.
    again = locks.start("lock", "-w", "1", "a", "--", "true")
    assert again.wait(BOUND_SECONDS) == 75
    assert [party.token for party in locks.holders("a")] == [token]
    assert locks.run("break", "a", "--yes").returncode == 0
    assert holder.wait(BOUND_SECONDS) == 79


LIES = """
import sys, coterie.sync
from coterie.engines.file import engine
from coterie.engines.file.directory.program_record import Board
make = Board.__init__
Board.__init__ = lambda self, boards, program, _, participant: make(
    self, boards, program, f"host:{sys.argv[1]}", participant
)
engine.FileEngine._listen = lambda _: None
with coterie.sync.connect() as c, c.lock("a"):
    print("holds", flush=True)
    sys.stdin.readline()
"""


def test_what_is_to_be_killed_is_not_what_a_board_says(locks: Commands) -> None:
    """A board says what its user likes."""
    holder = locks.python("-c", LIES, str(os.getpid()))
    assert line(holder) == "holds"
    done = locks.run("break", "a", "--yes")
    assert done.returncode == 1
    assert f"host:{os.getpid()} does not answer" in done.stderr
    assert f"kill -9 {holder.pid}\n" in done.stderr


OUTLIVES = """
import os, sys
print(os.getpid(), flush=True)
sys.stdin.readline()
"""


def test_a_command_that_has_outlived_its_lock_command_is_named(locks: Commands) -> None:
    holder = locks.start("lock", "a", "--", sys.executable, "-c", OUTLIVES)
    command = int(line(holder))
    kill(holder)
    done = locks.run("break", "a", "--yes")
    assert done.returncode == 1
    assert done.stderr.endswith(f": kill -9 {command}\n")
    os.kill(command, signal.SIGKILL)
    assert locks.run("lock", "-w", "20", "a", "--", "true").returncode == 0


WAITS_AFTER_TERM = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: print("told", flush=True))
print("runs", flush=True)
sys.stdin.readline()
"""


@pytest.mark.parametrize("waits", [False, True], ids=["at once", "after a wait"])
def test_a_lock_goes_back_when_the_command_has_ended(locks: Commands, waits: bool) -> None:
    """Whether it was taken without an event loop, or after a wait: the command may still be at work."""
    first = locks.start("lock", "a") if waits else None
    if first is not None:
        line(first)
    job = locks.start(
        "lock", "--kill-after", "1h", "a", "--", sys.executable, "-c", WAITS_AFTER_TERM
    )
    if first is not None:
        until(lambda: locks.waiters("a"))
        first.communicate(timeout=BOUND_SECONDS)
    assert line(job) == "runs"
    done = locks.run("break", "a", "--yes")
    assert (done.returncode, done.stdout[:14]) == (0, "told to stop: ")
    assert line(job) == "told"
    assert locks.holders("a")
    assert locks.run("lock", "-n", "a", "--", "true").returncode == 75
    with contextlib.suppress(BrokenPipeError):
        _, said = job.communicate("\n", timeout=BOUND_SECONDS)
        assert "an operator has ended it" in said
    assert job.returncode == 79
    assert not locks.holders("a")
