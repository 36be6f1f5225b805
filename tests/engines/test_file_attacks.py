"""What a user can do to others through a lock directory that they share, and to root in one of its own: nothing.

Each attack has succeeded once; at the end stands what looks like one and is none.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import math
import os
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import coterie
from coterie.cli import run
from coterie.engines.file.directory import byte_lock
from coterie.engines.file.directory import folder as folder_module
from coterie.engines.file.directory.folder import Directory
from coterie.engines.file.directory.lock_file import LockBytes, LockDirectory
from coterie.engines.file.directory.orders import order_name, write_order
from coterie.engines.file.directory.pipes import MESSAGE
from coterie.engines.file.directory.program_record import FIELDS, MAGIC, SLOT_BYTES, WAITS
from coterie.engines.file.directory.tokens import HEADER, TOKEN_MAX, boot_name
from coterie.engines.file.directory.tokens import MAGIC as WORDS_MAGIC
from coterie.engines.file.status import doubts, inspect
from coterie.engines.file.values import ValueFolder
from coterie.locks.value import ValueRecord
from tests.engines.test_file_users import (
    ANN,
    BOB,
    GROUP,
    HOLD,
    ROOT,
    TRY,
    Machine,
    as_user,
    machine,
    needs_root,
)
from tests.processes import BOUND_SECONDS, line, until

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["machine"]  # a fixture

BOARD_BYTES = 1 << 26
REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def open_umask() -> Iterator[None]:
    """Let programs make files that all may write, if they do not take care."""
    before = os.umask(0)
    yield
    os.umask(before)


def made_by(user: int, folder: Path, mode: int) -> Path:
    folder.mkdir()
    os.chown(folder, user, user)
    folder.chmod(mode)
    return folder


class Victim:
    """A file of root in a folder of ann, who may move it but not open it."""

    def __init__(
        self, folder: Path, content: bytes = b"of root\n", mode: int = 0o600, group: int = ROOT
    ) -> None:
        made_by(ANN, folder, 0o755)
        self.path = folder / "file"
        self.path.write_bytes(content)
        os.chown(self.path, ROOT, group)
        self.path.chmod(mode)
        self._content = content
        self._descriptor = os.open(self.path, os.O_RDONLY)
        self._before = os.fstat(self._descriptor)

    def check(self) -> None:
        """See whether it is as it was, wherever it was moved."""
        found = os.fstat(self._descriptor)
        assert stat.S_IMODE(found.st_mode) == stat.S_IMODE(self._before.st_mode)
        assert (found.st_uid, found.st_gid) == (self._before.st_uid, self._before.st_gid)
        assert os.pread(self._descriptor, 1 << 20, 0) == self._content
        os.close(self._descriptor)


# A file of root in the place of one of ours


CONTENTS = {
    "any": b"root:x:0:0\n" * 9,
    "empty": b"",
    "zeros": bytes(8192),
    "lock file": HEADER.pack(WORDS_MAGIC, b"boot", 1, 2),
}


@needs_root
@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
def test_root_neither_writes_nor_opens_a_file_that_was_moved_to_the_name_of_the_lock_file(
    machine: Machine, content: bytes
) -> None:
    folder = made_by(ANN, machine.temporary / "shared", 0o1777)
    victim = Victim(machine.temporary / "ann", content)
    as_user(ANN, lambda: victim.path.rename(folder / "words"))
    with pytest.raises(coterie.ConfigError, match=r"words .*neither used nor changed"):
        coterie.sync.connect(f"file:{folder}").__enter__()
    victim.check()


@needs_root
def test_nor_one_that_has_another_name_elsewhere(machine: Machine) -> None:
    folder = made_by(ANN, machine.temporary / "shared", 0o1777)
    victim = Victim(machine.temporary / "ann", HEADER.pack(WORDS_MAGIC, b"", 0, 0), 0o666)
    os.link(victim.path, folder / "words")  # as any user can where fs.protected_hardlinks is 0
    with pytest.raises(coterie.ConfigError, match="second name"):
        coterie.sync.connect(f"file:{folder}").__enter__()
    victim.check()


@needs_root
@pytest.mark.parametrize("mode", [0o700, 0o1777])
def test_root_gives_no_second_name_to_a_file_of_another_place(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    """A second name keeps a file that was removed, such as a program with a hole that was mended since."""
    folder = made_by(ANN, machine.temporary / "locks", mode)
    victim = Victim(machine.temporary / "victim")
    link = os.link

    def exchange(name: str) -> None:
        (folder / name).rename(folder / "away")
        (folder / name).symlink_to(victim.path)

    def exchange_and_link(name: str, *arguments: Any, **options: Any) -> None:
        as_user(ANN, lambda: exchange(name))
        link(name, *arguments, **options)

    monkeypatch.setattr(os, "link", exchange_and_link)
    with contextlib.suppress(coterie.CoterieError):
        coterie.sync.connect(f"file:{folder}").__enter__()
    assert victim.path.stat().st_nlink == 1
    victim.check()


@needs_root
@pytest.mark.parametrize("mode", [0o700, 0o1777])
def test_root_appends_to_no_file_that_was_moved_to_the_name_of_a_queue(
    machine: Machine, mode: int
) -> None:
    folder = made_by(ANN, machine.temporary / "locks", mode)
    assert machine.attempt(ANN, folder) == "inside"
    victim = Victim(machine.temporary / "ann")
    program = LockDirectory(Directory(str(folder)), "host:1")
    try:
        as_user(ANN, lambda: victim.path.rename(folder / "lines" / LockBytes("a").queue))
        with pytest.raises(OSError, match="lines"):
            program.handle().join(program.lock_bytes("a"), 1, shared=False, owner=1, task=b"")
    finally:
        program.close()
    victim.check()


@needs_root
def test_nobody_empties_a_file_that_was_moved_to_the_name_of_a_queue(machine: Machine) -> None:
    folder = made_by(ROOT, machine.temporary / "shared", 0o1777)
    assert machine.attempt(ROOT, folder) == "inside"
    victim = Victim(machine.temporary / "ann", mode=0o660, group=GROUP)  # bob may write it
    as_user(ANN, lambda: victim.path.rename(folder / "lines" / LockBytes("a").queue))
    assert machine.attempt(BOB, folder) == "inside"
    victim.check()


@needs_root
def test_root_gives_no_file_away_that_was_put_in_the_place_of_a_pipe(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = made_by(ANN, machine.temporary / "locks", 0o700)
    assert machine.attempt(ANN, folder) == "inside"
    victim = Victim(machine.temporary / "ann")
    make = os.mkfifo

    def exchange(name: str) -> None:
        with contextlib.suppress(OSError):
            (folder / "boards" / name).rename(folder / "away")
            victim.path.rename(folder / "boards" / name)

    def make_and_exchange(name: str, *arguments: Any, **options: Any) -> None:
        make(name, *arguments, **options)
        as_user(ANN, lambda: exchange(name))

    monkeypatch.setattr(os, "mkfifo", make_and_exchange)
    with (
        contextlib.suppress(coterie.CoterieError),
        coterie.sync.connect(f"file:{folder}") as c,
        c.lock("a"),
    ):
        pass
    victim.check()


@needs_root
def test_root_writes_into_no_pipe_that_was_moved_to_the_name_of_a_bell(machine: Machine) -> None:
    folder = made_by(ROOT, machine.temporary / "shared", 0o1777)
    pipe = made_by(ANN, machine.temporary / "ann", 0o755) / "pipe"
    os.mkfifo(pipe, 0o600)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with coterie.sync.connect(f"file:{folder}") as c, c.lock("a"):
        program = LockDirectory(Directory(str(folder)), "host:1")
        bell = f"{program.program:016x}.bell"
        as_user(ANN, lambda: pipe.rename(folder / "boards" / bell))
        handle = program.handle()
        assert handle.join(program.lock_bytes("a"), 1, shared=False, owner=1, task=b"")
    assert os.read(reader, 8) == b""
    os.close(reader)
    program.close()


# The making of a directory


@needs_root
def test_root_opens_no_other_folder_while_it_makes_a_shared_directory_again(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = made_by(ANN, machine.temporary / "ann", 0o755)
    folder = made_by(ANN, parent / "locks", 0o1777)
    victim = made_by(ROOT, machine.temporary / "victim", 0o755)
    make = os.mkdir

    def exchange(name: str) -> None:
        with contextlib.suppress(OSError):
            (parent / name).rename(parent / "away")
            (parent / name).symlink_to(victim)

    def make_and_exchange(path: str, *arguments: Any, **options: Any) -> None:
        make(path, *arguments, **options)
        as_user(ANN, lambda: exchange(os.path.basename(path)))  # noqa: PTH119

    with coterie.sync.connect(f"file:{folder}") as c:
        as_user(ANN, lambda: folder.rename(parent / "removed"))
        monkeypatch.setattr(os, "mkdir", make_and_exchange)
        with pytest.raises(coterie.Unavailable, match="is not made for several users below"):
            c.lock("a").acquire()
    assert stat.S_IMODE(victim.stat().st_mode) == 0o755
    assert list(victim.iterdir()) == []


@pytest.mark.parametrize("mode", [0o777, 0o775])
def test_a_shared_directory_is_not_made_again_where_others_can_exchange_it(
    tmp_path: Path, mode: int
) -> None:
    parent = tmp_path / "parent"
    parent.mkdir()
    folder = parent / "locks"
    folder.mkdir()
    folder.chmod(0o1777)
    with coterie.sync.connect(f"file:{folder}") as c:
        folder.rename(tmp_path / "removed")
        parent.chmod(mode)
        with pytest.raises(coterie.Unavailable, match="not sticky"):
            c.lock("a").acquire()
        assert list(parent.iterdir()) == []
        parent.chmod(mode | stat.S_ISVTX)
        with c.lock("a", timeout=BOUND_SECONDS):
            assert stat.S_IMODE(folder.stat().st_mode) == 0o1777


@needs_root
def test_root_makes_no_directory_behind_a_link_of_another_user(machine: Machine) -> None:
    folder = made_by(ANN, machine.temporary / "ann", 0o755)
    victim = made_by(ROOT, machine.temporary / "victim", 0o755)
    as_user(ANN, lambda: (folder / "link").symlink_to(victim))
    with pytest.raises(coterie.Unavailable, match="symbolic link of another user"):
        coterie.sync.connect(f"file:{folder}/link/locks").__enter__()
    assert list(victim.iterdir()) == []


@needs_root
@pytest.mark.parametrize("is_there", [True, False])
def test_root_uses_no_directory_to_which_a_link_of_another_user_leads(
    machine: Machine, is_there: bool
) -> None:
    """Also where the link is not the last step of the path."""
    folder = made_by(ANN, machine.temporary / "ann", 0o755)
    victim = made_by(ROOT, machine.temporary / "victim", 0o755)
    if is_there:
        made_by(ROOT, victim / "locks", 0o755)
        made_by(ROOT, victim / "locks" / "boards", 0o755)
    before = {path: path.stat().st_mode for path in victim.rglob("*")}
    as_user(ANN, lambda: (folder / "link").symlink_to(victim))
    with pytest.raises(coterie.Unavailable, match="symbolic link of another user"):
        coterie.sync.connect(f"file:{folder}/link/locks").__enter__()
    assert {path: path.stat().st_mode for path in victim.rglob("*")} == before


def test_a_link_of_our_own_may_stand_anywhere_in_the_path(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    with (
        coterie.sync.connect(f"file:{tmp_path}/link/locks") as one,
        coterie.sync.connect(f"file:{tmp_path}/folder/locks") as other,
        one.lock("a"),
    ):
        assert other.lock("a").acquire(blocking=False) is None


# Modes


@needs_root
@pytest.mark.parametrize("mode", [0o777, 0o1777])
def test_no_folder_is_opened_to_others_that_was_moved_to_the_name_of_one_of_ours(
    machine: Machine, mode: int
) -> None:
    folder = made_by(BOB, machine.temporary / "shared", 0o777)
    private = made_by(BOB, folder / "private", 0o700)
    diary = private / "diary"
    diary.write_text("of bob")
    os.chown(diary, BOB, BOB)
    diary.chmod(0o600)
    as_user(ANN, lambda: private.rename(folder / "boards"))
    folder.chmod(mode)  # as doctor asks, where it was not sticky
    machine.attempt(BOB, folder)
    found = folder / "boards"
    assert stat.S_IMODE(found.stat().st_mode) == 0o700
    assert stat.S_IMODE((found / "diary").stat().st_mode) == 0o600


def test_no_lock_file_is_opened_to_others_that_has_a_second_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second name that another user gives it while those are counted that a killed process has left."""
    private, shared = tmp_path / "private", tmp_path / "shared"
    for folder, mode in ((private, 0o700), (shared, 0o1777)):
        folder.mkdir()
        folder.chmod(mode)
    with coterie.sync.connect(f"file:{private}") as c, c.lock("a"):
        pass
    os.link(private / "words", shared / "words")
    read = os.pread

    def read_and_link(descriptor: int, size: int, offset: int) -> bytes:
        with contextlib.suppress(FileExistsError):
            os.link(shared / "words", shared / "words-0123.new")
        return read(descriptor, size, offset)

    monkeypatch.setattr(os, "pread", read_and_link)
    with pytest.raises(coterie.ConfigError, match=r"second name|is closed to users"):
        coterie.sync.connect(f"file:{shared}").__enter__()
    assert stat.S_IMODE((private / "words").stat().st_mode) == 0o600


@pytest.mark.usefixtures("open_umask")
def test_everything_is_closed_to_others_until_it_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else another user opens a board for writing, cuts it short later, and so ends the program that has mapped it."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    modes: dict[str, int] = {}
    open_file, make_folder, make_pipe = os.open, os.mkdir, os.mkfifo

    def note(name: str, folder: int | None) -> None:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        modes[str(name)] = stat.S_IMODE(found.st_mode)

    def open_and_note(name: str, flags: int, *mode: int, dir_fd: int | None = None) -> int:
        descriptor = open_file(name, flags, *mode, dir_fd=dir_fd)
        if flags & os.O_CREAT:
            note(name, dir_fd)
        return descriptor

    def make_folder_and_note(name: str, *mode: int, dir_fd: int | None = None) -> None:
        make_folder(name, *mode, dir_fd=dir_fd)
        note(name, dir_fd)

    def make_pipe_and_note(name: str, *mode: int, dir_fd: int | None = None) -> None:
        make_pipe(name, *mode, dir_fd=dir_fd)
        note(name, dir_fd)

    monkeypatch.setattr(os, "open", open_and_note)
    monkeypatch.setattr(os, "mkdir", make_folder_and_note)
    monkeypatch.setattr(os, "mkfifo", make_pipe_and_note)
    program = LockDirectory(Directory(str(folder)), "host:1")
    assert program.handle().join(program.lock_bytes("a"), 1, shared=False, owner=1, task=b"")
    write_order(program.boards, program.program, "a", 1, "host:1")
    program.close()
    record = ValueRecord("a", 1, 1, 1.0, "host:1", b"data")
    assert ValueFolder(Directory(str(folder))).write(record, lambda: True)
    (value,) = (folder / f"values-{os.geteuid()}").iterdir()
    kinds = ("boards", "lines", "words", "reserve", f"{program.program:016x}", "values", value.name)
    assert all(any(name.startswith(kind) for name in modes) for kind in kinds)
    assert {name: mode for name, mode in modes.items() if mode & 0o077} == {}


@needs_root
def test_the_owner_of_a_directory_cannot_end_root_in_it(machine: Machine) -> None:
    """A program that has mapped a file ends when that is cut short."""
    folder = made_by(ANN, machine.temporary / "locks", 0o700)
    holder, _ = machine.hold(ROOT, folder)

    def cut() -> None:
        (board,) = [path for path in (folder / "boards").iterdir() if not path.suffix]
        board.read_bytes()
        with pytest.raises(PermissionError):
            os.truncate(board, 0)

    as_user(ANN, cut)
    assert machine.attempt(ANN, folder) not in ("inside", "")
    holder.communicate("\n", timeout=BOUND_SECONDS)
    assert holder.returncode == 0


@needs_root
@pytest.mark.parametrize("is_older", [False, True])
def test_others_neither_see_nor_block_the_locks_of_a_directory_that_they_may_only_list(
    machine: Machine, is_older: bool
) -> None:
    folder = made_by(ROOT, machine.temporary / "locks", 0o755)
    if is_older:  # as earlier versions left it
        with coterie.sync.connect(f"file:{folder}") as c, c.lock("a"):
            pass
        for path in (folder, *(path for path in folder.iterdir() if path.is_dir())):
            path.chmod(0o755)
        for path in (path for path in folder.iterdir() if path.is_file()):
            path.chmod(0o644)

    def look() -> None:
        with pytest.raises(PermissionError):
            fcntl.lockf((folder / "words").open("rb"), fcntl.LOCK_SH | fcntl.LOCK_NB)
        with pytest.raises(PermissionError):
            list((folder / "boards").iterdir())
        with pytest.raises(PermissionError):
            list((folder / "lines").iterdir())

    with coterie.sync.connect(f"file:{folder}") as c, c.lock("a"):
        as_user(ANN, look)


# Who owns the directory of all users


@needs_root
def test_root_takes_over_the_directory_of_the_machine(machine: Machine) -> None:
    holder, token = machine.hold(ANN)
    assert (machine.default / "words").stat().st_uid == ANN
    waiter = machine.start(ROOT, HOLD)
    holder.communicate("\n", timeout=BOUND_SECONDS)
    assert int(line(waiter)) > token, "what is held and waited for stays"
    for name in ("", "words", "lines", "boards"):
        assert (machine.default / name).stat().st_uid == ROOT

    def remove() -> None:
        for name in ("words", "lines", "boards"):
            with pytest.raises(PermissionError):
                (machine.default / name).rename(machine.temporary / "stolen")

    as_user(ANN, remove)
    assert machine.attempt(ANN) != "inside"


@needs_root
def test_others_are_warned_that_the_directory_of_the_machine_is_one_users(
    machine: Machine,
) -> None:
    assert machine.attempt(ANN) == "inside"
    for user, warned in ((BOB, True), (ANN, False), (ROOT, False), (BOB, False)):
        _, told = machine.start(user, TRY).communicate(timeout=BOUND_SECONDS)
        assert (f"belongs to uid {ANN}" in told) is warned


@needs_root
def test_root_is_warned_that_the_directory_of_the_machine_is_closed_by_a_user(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_by(ANN, machine.default, 0o700)
    for user, warned in ((ROOT, True), (ANN, False)):
        _, told = machine.start(user, TRY).communicate(timeout=BOUND_SECONDS)
        assert ("and is closed to others: remove it" in told) is warned
    monkeypatch.setattr(folder_module, "DEFAULT_FOLDER", str(machine.default))
    [(doubt, advice)] = doubts(f"file:{machine.default}")
    assert "is closed to other users" in doubt
    assert advice.startswith(f"sudo rm -r {machine.default}")


@needs_root
def test_doctor_says_who_can_take_the_locks_away(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = made_by(ROOT, machine.temporary / "shared", 0o1777)
    assert machine.attempt(ANN, folder) == "inside"
    assert run(["doctor", "--url", f"file:{folder}"]) == 0
    printed = capsys.readouterr()
    assert "words belongs to" in printed.out
    assert f"sudo chown root {folder}/words" in printed.err


COMMAND = """
from coterie.cli import run
run(["lock", "--url", url, "a", "--", "cat"])
"""


@needs_root
def test_no_process_of_another_user_is_named_to_be_killed(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    """A user can have others open a pipe of hers to write, and give it the name of what keeps her lock."""
    folder = made_by(ROOT, machine.temporary / "shared", 0o1777)
    holder = machine.start(ANN, COMMAND, folder)
    boards = folder / "boards"
    until(lambda: boards.exists() and list(boards.glob("*-*.life")))
    trap = boards / "trap"

    def make() -> None:
        os.mkfifo(trap)
        trap.chmod(0o666)

    as_user(ANN, make)
    mine = os.open(trap, os.O_RDWR | os.O_NONBLOCK)  # as one that rings it has it open
    (life,) = boards.glob("????????????????-???????????????.life")
    as_user(ANN, lambda: trap.rename(life))
    holder.send_signal(signal.SIGSTOP)
    try:
        assert run(["break", "a", "--yes", "--url", f"file:{folder}"]) == 1
    finally:
        holder.send_signal(signal.SIGCONT)
        os.close(mine)
    told = capsys.readouterr().err.splitlines()[-1]
    assert str(holder.pid) in told.partition("kill -9 ")[2].split()
    assert str(os.getpid()) not in told.partition("kill -9 ")[2].split()


@needs_root
def test_orders_that_are_refused_cost_few_lines(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    folder = made_by(ROOT, machine.temporary / "shared", 0o1777)
    with caplog.at_level(logging.WARNING), coterie.sync.connect(f"file:{folder}") as c:
        c.lock("a").acquire()
        (bell,) = (folder / "boards").glob("*-orders.bell")
        program, number = int(bell.name[:16], 16), 5

        def order() -> None:
            (folder / "boards" / order_name(program, number)).write_text("nonsense")
            ring = os.open(bell, os.O_WRONLY | os.O_NONBLOCK)
            for _ in range(100):
                os.write(ring, MESSAGE.pack(number))

        as_user(ANN, order)
        assert run(["break", "a", "--yes", "--url", f"file:{folder}"]) == 0
    events = [record.__dict__["event"] for record in caplog.records]
    assert events.count("order-refused") == 1
    assert "hold-broken" in events


# Nonsense


@needs_root
def test_boards_of_other_users_are_read_up_to_a_limit(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = made_by(ROOT, machine.temporary / "shared", 0o1777)
    with coterie.sync.connect(f"file:{folder}") as c, c.lock("a"):

        def forge() -> None:
            for number in range(64):
                board = folder / "boards" / f"{number:016x}"
                board.touch()
                os.truncate(board, BOARD_BYTES)

        as_user(ANN, forge)
        sizes: list[int] = []
        read = os.pread

        def read_and_count(descriptor: int, size: int, offset: int) -> bytes:
            content = read(descriptor, size, offset)
            sizes.append(len(content))
            return content

        monkeypatch.setattr(os, "pread", read_and_count)
        assert run(["status", "--url", f"file:{folder}"]) == 0
        assert sum(sizes) < BOARD_BYTES
        assert run(["lock", "--url", f"file:{folder}", "b", "--", "true"]) == 0
        assert sum(sizes) < BOARD_BYTES
    printed = capsys.readouterr()
    assert printed.out.split("\n")[1].startswith("a ")
    assert "64 boards of nobody are left out" in printed.err


def forged(since: float) -> bytes:
    """Write a board on which a task waits for a lock; its program locks the first byte."""
    offset = LockBytes("a").offset
    fields = FIELDS.pack(WAITS, 0, 1, 1, 0, offset, 1, since, 1, 1, 0, 1)
    header = (MAGIC + b"host:1\nann\n").ljust(SLOT_BYTES, b"\0")
    return header + (fields + b"a".ljust(256, b"\0") + b"t").ljust(SLOT_BYTES, b"\0")


@pytest.mark.parametrize(
    "board",
    [
        forged(since=math.inf),
        forged(since=1e300),
    ],
    ids=["infinite", "late"],
)
def test_a_slot_that_makes_no_sense_is_left_out(
    tmp_path: Path, board: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"file:{tmp_path}"
    with (
        coterie.sync.connect(url) as c,
        c.lock("a"),
        (tmp_path / "boards" / f"{1:016x}").open("w+b") as file,
    ):
        file.write(board)
        file.flush()
        assert byte_lock.attempt(file.fileno(), byte_lock.request(byte_lock.ALONE, 0))
        for view in ("locks", "waiters", "graph"):
            assert run(["status", view, "--url", url]) == 0
    assert capsys.readouterr().out.split("\n")[2] == "lock  place  waiter  since"


def test_no_text_of_a_board_reaches_the_terminal_as_a_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"file:{tmp_path}"
    others = [
        LockDirectory(Directory(str(tmp_path)), f"host\x1b[2J\x9b:{name}", f"{name}-a")
        for name in "12"
    ]
    holder, waiter = others
    held = holder.try_acquire("a", task=b"\x1b[2J\nb  you  1  0.0 s ago  0", owner=1)
    odd = holder.try_acquire("b\x1b[2J\nc")
    assert held is not None
    assert odd is not None
    handle = waiter.handle()
    task = b"\x1b]0;t\x07\n"
    assert handle.join(waiter.lock_bytes("a"), 1, shared=False, owner=1, task=task)
    try:
        for view in ("locks", "waiters", "graph"):
            for output in ("table", "json"):
                assert run(["status", view, "-o", output, "--url", url]) == 0
        with (
            coterie.sync.connect(url) as c,
            pytest.raises(coterie.AcquireTimeout) as raised,
            c.lock("a", timeout=0.01),
        ):
            pass
        printed = capsys.readouterr()
        shown = printed.out + printed.err + str(raised.value)
        assert "host\\x1b[2J" in shown
        assert "\x1b" not in shown
        assert "\x9b" not in shown
        assert not any(row.startswith("b  you") for row in shown.splitlines())
    finally:
        for each in others:
            each.close()


@pytest.mark.parametrize("kind", ["file", "pipe", "link"])
@pytest.mark.parametrize("name", ["lines", "boards", "words"])
def test_what_is_in_the_place_of_a_folder_or_file_is_named(
    tmp_path: Path, name: str, kind: str
) -> None:
    place = tmp_path / name
    if kind == "file":
        place.write_text("nonsense")
    elif kind == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to("/dev/zero")
    with pytest.raises(coterie.CoterieError, match=name):
        coterie.sync.connect(f"file:{tmp_path}").__enter__()


@pytest.mark.parametrize(
    "content",
    [None, b"", b"nonsense", b"-5", b"9" * 99, b"9007199254740993", b"1_0"],
    ids=["folder", "empty", "nonsense", "negative", "huge", "above", "underscore"],
)
@pytest.mark.parametrize("user", [ROOT, ANN])
def test_a_reserve_that_is_none_is_left_out_with_a_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes | None, user: int
) -> None:
    tmp_path.chmod(0o1777)
    reserve = tmp_path / f"reserve-{user}"
    if content is None:
        reserve.mkdir()
    else:
        reserve.write_bytes(content)
    (tmp_path / "reserve-1").write_text("2000000000000000\n")
    with (
        caplog.at_level(logging.WARNING),
        coterie.sync.connect(f"file:{tmp_path}") as c,
        c.lock("a") as held,
    ):
        assert 2_000_000_000_000_000 < held.token <= TOKEN_MAX
    assert f"reserve-{user} in the lock directory is damaged" in caplog.text


def test_any_number_of_reserves_that_are_none_cost_few_lines(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tmp_path.chmod(0o1777)
    for user in range(1, 51):
        (tmp_path / f"reserve-{user}").write_text("nonsense")
    with caplog.at_level(logging.WARNING), coterie.sync.connect(f"file:{tmp_path}") as c:
        assert c.lock("a").acquire(blocking=False)
    assert "50 such files are left out" in caplog.text
    assert len(caplog.records) < 10


def test_a_place_where_no_file_reaches_stops_no_release(tmp_path: Path) -> None:
    """Another user may lock any byte of a queue that it may write."""
    with coterie.sync.connect(f"file:{tmp_path}") as c, contextlib.ExitStack() as others:
        lock_bytes = LockBytes("a")
        held = others.enter_context(c.lock("a"))
        words = others.enter_context((tmp_path / "words").open("r+b"))
        queue = others.enter_context((tmp_path / "lines" / lock_bytes.queue).open("w+b"))
        assert byte_lock.attempt(words.fileno(), lock_bytes.waiters_shared)
        place = byte_lock.request(byte_lock.ALONE, 2**63 - 2)
        assert byte_lock.attempt(queue.fileno(), place)
        held.release()
        assert not held.valid


def test_places_that_another_user_has_locked_are_looked_at_up_to_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look is one call, in the event loop of a task that waits."""
    program = LockDirectory(Directory(str(tmp_path)), "host:1")
    lock_bytes, places = program.lock_bytes("a"), 2000
    with (tmp_path / "lines" / lock_bytes.queue).open("w+b") as queue:
        queue.write(bytes(32 * (places + 2)))
        queue.flush()
        for place in range(places):
            byte = byte_lock.request(byte_lock.ALONE, 32 * place)
            assert byte_lock.attempt(queue.fileno(), byte)
        (tmp_path / "lines" / lock_bytes.queue).chmod(0o600)
        handle = program.handle()
        assert handle.join(lock_bytes, 1, shared=False, owner=1, task=b"")
        looks = []
        look = byte_lock.obstacle

        def count(*given: Any) -> int | None:
            looks.append(given)
            return look(*given)

        monkeypatch.setattr(byte_lock, "obstacle", count)
        assert handle.predecessor() is not None
        assert len(looks) <= 300
        handle.withdraw(lock_bytes)
    program.close()


def test_a_pipe_in_the_place_of_a_reserve_stops_nobody(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    os.mkfifo(tmp_path / "reserve-7")
    with coterie.sync.connect(f"file:{tmp_path}") as c, c.lock("a") as held:
        assert held.token <= TOKEN_MAX


@needs_root
def test_a_user_whose_reserve_was_taken_by_another_uses_another_name(machine: Machine) -> None:
    folder = made_by(ROOT, machine.temporary / "shared", 0o1777)
    as_user(ANN, lambda: (folder / f"reserve-{BOB}").write_text("1\n"))
    assert machine.attempt(BOB, folder) == "inside"


def test_no_token_is_above_its_range(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    with coterie.sync.connect(f"file:{tmp_path}") as c, c.lock("a") as held:
        before = held.token
    with (tmp_path / "words").open("r+b") as words:
        words.write(HEADER.pack(WORDS_MAGIC, boot_name(), 2**60, 2**63))
    with coterie.sync.connect(f"file:{tmp_path}") as c, c.lock("a") as held:
        assert before < held.token <= TOKEN_MAX


# What may look like an attack and is none


def test_a_lock_file_whose_maker_was_killed_is_used(tmp_path: Path) -> None:
    with coterie.sync.connect(f"file:{tmp_path}") as c, c.lock("a"):
        os.link(tmp_path / "words", tmp_path / "words-0123.new")
    with coterie.sync.connect(f"file:{tmp_path}") as c, c.lock("a"):
        assert not (tmp_path / "words-0123.new").exists()


def test_an_empty_lock_file_of_an_earlier_version_is_used(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    (tmp_path / "words").touch(mode=0o600)
    with coterie.sync.connect(f"file:{tmp_path}") as c, c.lock("a"):
        assert (tmp_path / "words").read_bytes().startswith(WORDS_MAGIC)


@needs_root
def test_what_is_waited_for_in_a_private_directory_can_be_shared_later(machine: Machine) -> None:
    """Programs that have it open, queues and bells, serve those who come to it then."""
    folder = machine.temporary / "mine"
    first, token = machine.hold(ANN, folder)
    second = machine.start(ANN, HOLD, folder)
    until(lambda: [len(lock.waiters) for lock in inspect(folder).locks] == [1])
    folder.chmod(0o1777)
    assert machine.attempt(ANN, folder) != "inside"  # opens it to others
    third = machine.start(BOB, HOLD, folder)
    until(lambda: [len(lock.waiters) for lock in inspect(folder).locks] == [2])
    for before, after in ((first, second), (second, third)):
        before.communicate("\n", timeout=BOUND_SECONDS)
        following = int(line(after))
        assert following > token
        token = following
    third.communicate("\n", timeout=BOUND_SECONDS)


# All calls of one acquire


@needs_root
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace shows the calls")
def test_root_names_nothing_by_a_path_in_a_directory_of_another_user() -> None:
    """Nor does it follow a link, or change a mode or an owner but by a descriptor."""
    command = [sys.executable, "-m", "benchmarks.files.root_calls"]
    ran = subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True, text=True)
    calls = ran.stdout.splitlines()
    opened = [call for call in calls if call.startswith("openat(")]
    assert len(opened) > 5
    assert all("O_NOFOLLOW" in call for call in opened)
    by_path = [call for call in calls if "AT_FDCWD" in call]
    assert len(by_path) == 2
    assert by_path[0].startswith('openat(AT_FDCWD, "/locks", O_RDONLY|O_NOFOLLOW|')
    assert by_path[1].startswith('newfstatat(AT_FDCWD, "/locks/words", ')
    assert by_path[1].endswith("AT_SYMLINK_NOFOLLOW) = 0")
    changes = [call.partition("(")[0] for call in calls if "chmod" in call or "chown" in call]
    assert set(changes) == {"fchmod", "fchown"}
    page = (REPOSITORY / "docs" / "file-locks.md").read_text(encoding="utf-8")
    shown = page.partition("benchmarks.files.root_calls\n")[2].partition("```")[0].splitlines()
    looks = ("newfstatat", "fstat", "statx", "readlink")  # as the library of the system calls them
    on_page, now = ([c for c in calls if not c.startswith(looks)] for calls in (shown, calls))
    assert on_page == now, "the page shows what the command prints"
