"""Several users of a machine in one lock directory, one of whom lays traps for the others."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import coterie
from coterie.algorithms.deadlock.condition import any_of
from coterie.engines.file.directory.folder import COMMON, Directory
from coterie.engines.file.directory.lock_file import LockBytes, LockDirectory
from coterie.engines.file.directory.program_record import SLOT_BYTES
from coterie.engines.file.directory.wait_board import Notice, read_wait
from coterie.engines.file.status import inspect
from coterie.locks.deadlocks.reports import LockOwner, LockWait, OwnerId, Wanted
from tests.locks.memory import in_loop
from tests.processes import BOUND_SECONDS, kill, line, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT, ANN, BOB, GROUP = 0, 65534, 65533, 65532

needs_root = pytest.mark.skipif(
    os.geteuid() != ROOT, reason="only root can run processes as two other users"
)

# A lock is taken first as the user that runs the tests, which imports all that is needed: the interpreter may
# lie where only root can read. The umask is the strictest, as that of root often is.
AS_USER = """
import os, sys, asyncio, pwd, tempfile, traceback
import coterie, coterie.sync, coterie.locks.deadlocks.waits, coterie.engines.file.waits
import coterie.cli.root, coterie.cli.break_hold, coterie.engines.file.breaker
from coterie.engines.file.directory import folder as directory
directory.DEFAULT_FOLDER = sys.argv[1]
os.environ.pop("COTERIE_DIR", None)
user, url = int(sys.argv[2]), sys.argv[3]
with tempfile.TemporaryDirectory() as warm, coterie.sync.connect(f"file:{warm}") as c, c.lock("warm"):
    c.holders("warm")
if user:
    os.setgroups([int(sys.argv[4])])
    os.setgid(user)
    os.setuid(user)
os.umask(0o077)
"""
HOLD = """
with coterie.sync.connect(url) as c, c.lock("a") as held:
    print(held.token, flush=True)
    sys.stdin.readline()
"""
TRY = """
with coterie.sync.connect(url) as c:
    held = c.lock("a").acquire(blocking=False)
    print("inside" if held is not None else c.holders("a")[0].owner)
"""


BREAK = """
sys.exit(coterie.cli.root.run_command(["break", "a", "--yes", "--url", url]))
"""
# An order as the command writes it, without asking first whether it will be obeyed.
ORDER = """
from coterie.engines.file.directory.orders import write_order
from coterie.engines.file.directory.pipes import ORDERS, Bells
from coterie.engines.file.directory.program_record import programs
with directory.Directory(sys.argv[1]).open() as folder, folder.enter("boards") as boards:
    (program,) = programs(boards.descriptor)
    number = write_order(boards, program, "a", 2**63 - 1, "here:1")
    Bells(boards.descriptor).ring(program, number, ORDERS)
"""


class Machine:
    """Users, and a place like /var/tmp."""

    def __init__(self, temporary: Path) -> None:
        self.temporary = temporary
        self.default = temporary / "coterie"
        self._started: list[subprocess.Popen[str]] = []

    def start(self, user: int, program: str, folder: Path | None = None) -> subprocess.Popen[str]:
        url = "file:" if folder is None else f"file:{folder}"
        arguments = [str(self.default), str(user), url, str(GROUP)]
        process = subprocess.Popen(
            [sys.executable, "-c", AS_USER + program, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(process)
        return process

    def hold(self, user: int, folder: Path | None = None) -> tuple[subprocess.Popen[str], int]:
        process = self.start(user, HOLD, folder)
        token = line(process)
        assert token, process.communicate(timeout=BOUND_SECONDS)
        return process, int(token)

    def attempt(self, user: int, folder: Path | None = None) -> str:
        """Return what comes of it: `inside`, or the holder, or the last line of the error."""
        process = self.start(user, TRY, folder)
        stdout, stderr = process.communicate(timeout=BOUND_SECONDS)
        return (stdout or stderr).splitlines()[-1]

    def end_hold(self, user: int, folder: Path | None = None) -> tuple[int, str]:
        """Run `coterie break`, and return its status and what it says last."""
        process = self.start(user, BREAK, folder)
        stdout, stderr = process.communicate(timeout=BOUND_SECONDS)
        return process.returncode, (stdout or stderr).splitlines()[-1]

    def end(self) -> None:
        for process in self._started:
            if process.poll() is None:
                kill(process)
            process.communicate()


@pytest.fixture
def machine() -> Iterator[Machine]:
    # The directories of pytest are closed to other users.
    temporary = Path(tempfile.mkdtemp())
    temporary.chmod(0o1777)
    machine = Machine(temporary)
    yield machine
    machine.end()
    shutil.rmtree(temporary)


def as_user(user: int, act: Callable[[], object]) -> None:
    """Do something as another user, in a child."""
    child = os.fork()
    if not child:
        status = 1
        with contextlib.suppress(BaseException):
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
            act()
            status = 0
        os._exit(status)
    assert os.waitpid(child, 0)[1] == 0


@needs_root
@pytest.mark.parametrize(("first", "second"), [(ROOT, ANN), (ANN, ROOT), (ANN, BOB)])
def test_without_a_url_all_users_of_a_machine_exclude_each_other(
    machine: Machine, first: int, second: int
) -> None:
    holder, token = machine.hold(first)
    assert machine.attempt(second) != "inside"
    assert machine.attempt(first) != "inside"
    waiter = machine.start(second, HOLD)
    kill(holder)
    assert int(line(waiter)) > token
    assert machine.attempt(first) != "inside"
    waiter.communicate("\n", timeout=BOUND_SECONDS)
    assert machine.attempt(first) == "inside"
    assert stat.S_IMODE(machine.default.stat().st_mode) == COMMON


@needs_root
@pytest.mark.parametrize("mode", [0o1777, 0o777, 0o770, 0o2775])
def test_users_share_a_directory_that_the_administrator_made_for_them(
    machine: Machine, mode: int
) -> None:
    folder = machine.temporary / "shared"
    folder.mkdir()
    os.chown(folder, ROOT, GROUP)
    folder.chmod(mode)
    for first, second in ((ANN, BOB), (BOB, ROOT), (ROOT, ANN)):
        holder, token = machine.hold(first, folder)
        assert machine.attempt(second, folder) != "inside"
        waiter = machine.start(second, HOLD, folder)
        holder.communicate("\n", timeout=BOUND_SECONDS)
        assert int(line(waiter)) > token
        waiter.communicate("\n", timeout=BOUND_SECONDS)


@needs_root
def test_a_directory_of_one_user_can_be_opened_to_others_later(machine: Machine) -> None:
    folder = machine.temporary / "mine"
    assert machine.attempt(ANN, folder) == "inside"
    assert "chmod 1777" in machine.attempt(BOB, folder), "how to share is said at once"
    folder.chmod(0o1777)
    holder, _ = machine.hold(ANN, folder)
    assert machine.attempt(BOB, folder) != "inside"
    holder.communicate("\n", timeout=BOUND_SECONDS)
    assert machine.attempt(BOB, folder) == "inside"


@needs_root
def test_root_in_the_directory_of_a_user_leaves_nothing_that_locks_the_user_out(
    machine: Machine,
) -> None:
    folder = machine.temporary / "mine"
    folder.mkdir(mode=0o700)
    os.chown(folder, ANN, ANN)
    holder, _ = machine.hold(ROOT, folder)
    assert machine.attempt(ANN, folder) != "inside"
    kill(holder)
    assert machine.attempt(ANN, folder) == "inside"
    holder, _ = machine.hold(ANN, folder)
    assert machine.attempt(ROOT, folder) != "inside"


@needs_root
def test_a_user_is_named_to_others_by_the_system_and_not_by_itself(machine: Machine) -> None:
    machine.hold(ANN)
    assert machine.attempt(ANN).endswith(tuple("0123456789")), "host:pid"
    assert machine.attempt(BOB).endswith(("(nobody)", f"(uid {ANN})"))


@needs_root
@pytest.mark.parametrize(
    ("owner", "user", "may"),
    [
        (ROOT, ANN, True),
        (ROOT, ROOT, True),
        (ROOT, BOB, False),
        (BOB, BOB, True),
        (ANN, BOB, False),
    ],
)
def test_who_may_end_a_hold(machine: Machine, owner: int, user: int, may: bool) -> None:
    """The user of the program, root, and the owner of the directory."""
    folder = machine.default
    folder.mkdir()
    folder.chmod(0o1777)
    os.chown(folder, owner, owner)
    holder, _ = machine.hold(ANN, folder)
    status, said = machine.end_hold(user, folder)
    if may:
        assert (status, said[:14]) == (0, "told to stop: ")
        assert machine.attempt(BOB, folder) == "inside"
        _, stderr = holder.communicate("\n", timeout=BOUND_SECONDS)
        assert "an operator has ended it" in stderr
    else:
        assert status == 78
        assert "can end that" in said
        assert machine.attempt(BOB, folder) != "inside"
        assert holder.communicate("\n", timeout=BOUND_SECONDS) == ("", "")


@needs_root
def test_an_order_of_another_user_is_refused_by_the_program(machine: Machine) -> None:
    holder, _ = machine.hold(ANN)
    machine.start(BOB, ORDER).communicate(timeout=BOUND_SECONDS)
    assert line_of_errors(holder).endswith(
        "only our own user, root and the owner of the directory may give one"
    )
    assert machine.attempt(BOB) != "inside"
    machine.start(ROOT, ORDER).communicate(timeout=BOUND_SECONDS)
    assert "(root) has ended our hold of lock 'a'" in line_of_errors(holder)
    assert machine.attempt(BOB) == "inside"


def line_of_errors(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    return process.stderr.readline().rstrip("\n")


@needs_root
def test_no_user_can_remove_the_files_of_another(machine: Machine) -> None:
    holder, _ = machine.hold(ROOT)
    folder = machine.default
    boards = sorted((folder / "boards").iterdir())  # first that, then its bell and its life
    assert len(boards) == 3

    def remove() -> None:
        for path in (folder / "words", *boards, folder / "lines", folder / "boards", folder):
            with pytest.raises(PermissionError):
                path.rename(machine.temporary / "stolen")
        for path in (folder / "words", *boards):
            with pytest.raises(PermissionError):
                path.unlink()
        with pytest.raises(PermissionError):
            boards[0].open("r+b")

    as_user(ANN, remove)
    assert holder.poll() is None
    assert machine.attempt(BOB) != "inside"


@needs_root
def test_users_wait_for_each_other_in_one_line(machine: Machine) -> None:
    """Each is woken by a bell, and leaves a line that may belong to another."""
    before, token = machine.hold(ROOT)
    for user in (ANN, BOB, ROOT, BOB):
        waiter = machine.start(user, HOLD)
        until(lambda: inspect(machine.default).locks[0].waiters)
        before.communicate("\n", timeout=BOUND_SECONDS)
        assert int(line(waiter)) > token
        before = waiter
    before.communicate("\n", timeout=BOUND_SECONDS)
    assert machine.attempt(ANN) == "inside"
    left = [path.stat().st_size for path in (machine.default / "lines").iterdir()]
    assert left in ([], [0]), "emptied, if it is of another user"


def link_directory(folder: Path, victim: Path) -> None:
    shutil.rmtree(folder)
    folder.symlink_to(victim)


def link_words(folder: Path, victim: Path) -> None:
    (folder / "words").symlink_to(victim / "file")


def link_new_words(folder: Path, victim: Path) -> None:
    (folder / "words").symlink_to(victim / "absent")


def link_reserve(folder: Path, victim: Path) -> None:
    (folder / "reserve-0").symlink_to(victim / "number")


def link_lines(folder: Path, victim: Path) -> None:
    (folder / "lines").symlink_to(victim)


def link_boards(folder: Path, victim: Path) -> None:
    (folder / "boards").symlink_to(victim)


TRAPS = [
    link_directory,
    link_words,
    link_new_words,
    link_reserve,
    link_lines,
    link_boards,
]


@needs_root
@pytest.mark.parametrize("trap", TRAPS)
def test_nobody_writes_through_a_link_of_another_user(
    machine: Machine, trap: Callable[[Path, Path], None]
) -> None:
    victim = machine.temporary / "victim"
    victim.mkdir()
    (victim / "file").write_text("of root")
    (victim / "number").write_text("7\n")

    def lay() -> None:
        machine.default.mkdir()
        machine.default.chmod(0o1777)
        trap(machine.default, victim)

    as_user(ANN, lay)
    told = machine.attempt(ROOT)
    assert told == "inside" or "coterie" in told, "it works, or a line says why not"
    assert sorted(path.name for path in victim.iterdir()) == ["file", "number"]
    assert (victim / "file").read_text() == "of root"
    assert (victim / "number").read_text() == "7\n"


def test_a_link_of_ones_own_may_lead_to_the_directory(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "locks")
    (tmp_path / "locks").mkdir()
    with (
        coterie.sync.connect(f"file:{tmp_path}/link") as one,
        coterie.sync.connect(f"file:{tmp_path}/locks") as other,
        one.lock("a"),
    ):
        assert other.lock("a").acquire(blocking=False) is None


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_what_is_no_line_is_said_and_not_written_to(tmp_path: Path, kind: str) -> None:
    (tmp_path / "file").write_text("of root")
    folder = tmp_path / "locks"
    with coterie.sync.connect(f"file:{folder}") as c, c.lock("a"):
        words = LockDirectory(Directory(str(folder)), "host:1")
        trap = folder / "lines" / LockBytes("a").queue
        if kind == "link":
            trap.symlink_to(tmp_path / "file")
        elif kind == "pipe":
            os.mkfifo(trap)
        else:
            trap.mkdir()
        with pytest.raises(OSError, match=str(trap.name)):
            words.handle().join(words.lock_bytes("a"), 1, shared=False, owner=1, task=b"")
        words.close()
        assert (tmp_path / "file").read_text() == "of root"


def test_a_bell_that_is_no_pipe_is_not_rung(tmp_path: Path) -> None:
    """It would be a file of another user that we write to."""
    with coterie.sync.connect(f"file:{tmp_path}") as c, c.lock("a"):
        words = LockDirectory(Directory(str(tmp_path)), "host:1")
        bell = tmp_path / "boards" / f"{words.program:016x}.bell"
        bell.write_text("of root")
        assert words.handle().join(words.lock_bytes("a"), 1, shared=False, owner=1, task=b"")
    assert bell.read_text() == "of root"
    words.close()


@in_loop
async def test_what_is_no_board_stops_nobody(tmp_path: Path) -> None:
    """A pipe would block the process that opens it for reading; the rest is only odd."""
    async with asyncio.timeout(BOUND_SECONDS), coterie.connect(f"file:{tmp_path}") as c:
        boards = tmp_path / "boards"
        os.mkfifo(boards / ("0" * 15 + "1"))
        (boards / ("0" * 15 + "2")).symlink_to("/dev/zero")
        (boards / ("0" * 15 + "3")).mkdir()
        (boards / ("0" * 15 + "4")).write_bytes(os.urandom(8 * SLOT_BYTES))
        (boards / "²".rjust(16, "0")).touch()
        assert await c.holders("a") == []
        async with c.lock("a") as held:
            assert [party.token for party in await c.holders("a")] == [held.token]
            assert held.token < 2**53
            assert len(inspect(tmp_path).locks) == 1
            other = LockDirectory(Directory(str(tmp_path)), "host:1")
            assert other.try_acquire("a") is None
            other.close()


@in_loop
async def test_a_board_that_names_another_lock_is_not_believed(tmp_path: Path) -> None:
    async with coterie.connect(f"file:{tmp_path}") as c, c.lock("abc"):
        (board,) = [path for path in (tmp_path / "boards").iterdir() if not path.suffix]
        content = board.read_bytes()
        assert content.count(b"abc") == 1
        board.write_bytes(content.replace(b"abc", b"xyz"))
        assert inspect(tmp_path).locks == []
        assert await c.lock("xyz").acquire(blocking=False)


def test_only_the_user_of_a_board_says_what_its_owner_waits_for(tmp_path: Path) -> None:
    owner = OwnerId("1-aa", 1)
    wait = LockWait(7, any_of(Wanted("a")), 1, 0.0)
    with Directory(str(tmp_path)).open() as board:
        notice = Notice(board, LockOwner(owner, "host:1", "ann", wait))
        assert read_wait(board, owner, os.geteuid()) is not None
        assert read_wait(board, owner, os.geteuid() + 1) is None
    notice.take_down()


def test_two_that_make_a_folder_at_the_same_time_use_the_same_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that is empty and open must not be replaced: what is made in it would be lost."""
    with Directory(str(tmp_path)).open() as parent:
        make, faster = os.mkdir, []

        def interleave(*arguments: Any, **options: Any) -> None:
            monkeypatch.setattr(os, "mkdir", make)
            faster.append(parent.enter("lines", make=True))
            make(*arguments, **options)

        monkeypatch.setattr(os, "mkdir", interleave)
        with parent.enter("lines", make=True) as slower, faster[0] as first:
            os.close(first.create("a"))
            assert slower.names() == ["a"]
