"""Values of `file:`: crashes at any point, late writers, other users."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import signal
import subprocess
import sys
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import pytest

import coterie
import coterie.sync
from coterie.engines.file.directory import byte_lock, value_file
from coterie.engines.file.directory.folder import Directory
from coterie.engines.file.directory.value_file import SLOTS, ValueFile, pack, unpack
from coterie.engines.file.values import ValueFolder
from coterie.locks.value import ValueRecord
from tests.engines.test_file_users import ANN, BOB, Machine, as_user, machine, needs_root
from tests.harness import broken_class
from tests.locks.memory import in_loop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

__all__ = ["machine"]  # a fixture


def record(token: int, data: bytes | None, name: str = "a") -> ValueRecord:
    return ValueRecord(name, token, 1, 1.0, "here:1", data)


def file_of(folder: Path) -> Path:
    """Return the file of the only value."""
    (found,) = (folder / f"values-{os.geteuid()}").iterdir()
    return found


# Crashes


def torn(before: bytes, after: bytes, cut: int) -> Iterator[bytes]:
    """Give what a write may leave that was cut short: its beginning, or its end."""
    yield after[:cut] + before[cut:]
    yield before[:cut] + after[cut:]


def test_a_torn_slot_is_the_old_one_or_the_new_one_or_none() -> None:
    old, new = record(10, b"old" * 50), record(11, b"next" * 300)
    packed = pack(new)
    for before in (pack(old), b""):
        for cut in range(len(packed) + 1):
            for content in torn(before.ljust(len(packed), b"\0"), packed, cut):
                assert unpack(content) in (old if before else None, new, None)
                assert cut or unpack(content) in (old if before else None, new)


class Disk:
    """What a file had after each step of writes, and what the disk may have if the power fails then."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.durable = b""
        self.seen = b""
        self.states: list[tuple[bytes, bytes]] = []  # durable, and as other programs see it
        self._pwrite, self._sync = os.pwrite, value_file.sync
        monkeypatch.setattr(os, "pwrite", self.pwrite)
        monkeypatch.setattr(value_file, "sync", self.sync)

    def pwrite(self, descriptor: int, content: bytes, place: int) -> int:
        written = self._pwrite(descriptor, content, place)
        self._look(descriptor)
        return written

    def sync(self, descriptor: int) -> None:
        self._sync(descriptor)
        self._look(descriptor)
        self.durable = self.seen
        self.states.append((self.durable, self.seen))

    def _look(self, descriptor: int) -> None:
        self.seen = os.pread(descriptor, 1 << 20, 0)
        self.states.append((self.durable, self.seen))


def newest(content: bytes) -> bytes | None:
    """Return the data that a program finds which opens a file with this content."""
    slots = [unpack(content[place : place + value_file.SLOT_BYTES]) for place in SLOTS]
    found = max(filter(None, slots), key=lambda each: each.version, default=None)
    return None if found is None else found.data


@contextmanager
def opened(kind: type[ValueFile], folder: Path) -> Iterator[ValueFile]:
    with Directory(str(folder)).open() as parent:
        descriptor = os.open("value", value_file.CREATE, 0o600, dir_fd=parent.descriptor)
        with closing(kind("value", descriptor, parent, parent)) as file:
            yield file


def survives_power_failures(
    folder: Path, monkeypatch: pytest.MonkeyPatch, kind: type[ValueFile] = ValueFile
) -> bool:
    """Write values, and let the power fail after each step, with any part of what was not synced on the disk."""
    choice = random.Random(1)
    disk, acknowledged = Disk(monkeypatch), None
    with opened(kind, folder) as file:
        for token in range(1, 8):
            data = b"%d" % token * token
            disk.states = []
            file.write(record(token, data))
            for durable, seen in disk.states:
                length = max(len(durable), len(seen))
                for _ in range(20):
                    content = choice.choice(
                        list(
                            torn(
                                durable.ljust(length, b"\0"),
                                seen.ljust(length, b"\0"),
                                choice.choice(
                                    [*SLOTS, *(each + choice.randrange(90) for each in SLOTS)]
                                ),
                            )
                        )
                    )
                    if newest(content) not in (acknowledged, data):
                        return False
            if newest(disk.durable) != data:
                return False
            acknowledged = data
    return True


def test_a_power_failure_leaves_the_acknowledged_value_or_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert survives_power_failures(tmp_path, monkeypatch)


def what_was_read_is_durable(
    folder: Path, monkeypatch: pytest.MonkeyPatch, kind: type[ValueFile] = ValueFile
) -> bool:
    """Stop a writer before its sync, as `kill -9` does: others see what the disk may not have."""

    class Killed(Exception):  # noqa: N818 - says what is the matter
        pass

    def die(_: int) -> None:
        raise Killed

    with opened(kind, folder) as file:
        file.write(record(1, b"1"))
        with monkeypatch.context() as patch:
            patch.setattr(sys.modules[kind.__module__], "sync", die)
            with pytest.raises(Killed):
                file.write(record(2, b"2"))
    synced: list[bool] = []
    monkeypatch.setattr(sys.modules[kind.__module__], "sync", lambda _: synced.append(True))
    with opened(kind, folder) as file:
        found = file.read()
        assert found is not None
        again = len(synced)
        file.read()
        return found.data == b"2" and again == 1 and len(synced) == 1


def test_what_a_killed_writer_left_is_durable_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert what_was_read_is_durable(tmp_path, monkeypatch)


MUTANTS: dict[str, tuple[Callable[[Path, pytest.MonkeyPatch, type[ValueFile]], bool], str, str]] = {
    "into the slot of the present value": (
        survives_power_failures,
        "return second, SLOTS[0]\n        return first, SLOTS[1]",
        "return second, SLOTS[1]\n        return first, SLOTS[0]",
    ),
    "acknowledged before it is synced": (
        survives_power_failures,
        "sync(self._descriptor)\n        except",
        "pass\n        except",
    ),
    "what is under way is not said": (
        what_was_read_is_durable,
        "os.pwrite(self._descriptor, UNDER_WAY, 0)",
        "pass",
    ),
    "what is under way is read": (
        what_was_read_is_durable,
        "            sync(self._descriptor)\n            os.pwrite(self._descriptor, SETTLED, 0)",
        "            os.pwrite(self._descriptor, SETTLED, 0)",
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_rule_is_noticed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule, old, new = MUTANTS[name]
    kind = broken_class(ValueFile, old, new)
    module = sys.modules[kind.__module__]
    monkeypatch.setattr("tests.engines.test_file_values.value_file", module)
    assert not rule(tmp_path, monkeypatch, kind)


def test_a_disk_that_refuses_leaves_the_value_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: int) -> None:
        raise OSError(5, "Input/output error")

    with coterie.sync.connect(tmp_path) as c, c.lock("a") as held:
        held.write(b"1")
        with monkeypatch.context() as patch:
            patch.setattr(value_file, "sync", refuse)
            with pytest.raises(coterie.Unavailable, match="Input/output error"):
                held.write(b"2")
        found = held.read()
        assert found is not None
        assert found.data == b"1"
        held.write(b"3")


# The program makes a step, and is killed before the next one.
KILLED = """
import os, signal, sys
import coterie.sync
from coterie.engines.file.directory import value_file
from coterie.engines.file import values

steps = int(sys.argv[2])

def counted(call):
    def step(*arguments, **options):
        global steps
        if not steps:
            os.kill(os.getpid(), signal.SIGKILL)
        steps -= 1
        return call(*arguments, **options)
    return step

with coterie.sync.connect(sys.argv[1]) as c, c.lock("a") as held:
    held.read()
    for name in ("open", "pwrite", "fsync", "unlink", "mkdir"):
        setattr(os, name, counted(getattr(os, name)))
    value_file.sync = counted(value_file.sync)
    held.delete() if sys.argv[3] == "delete" else held.write(sys.argv[3].encode())
"""


@pytest.mark.parametrize("action", ["first", "again", "delete"])
def test_a_writer_that_is_killed_between_any_two_steps(tmp_path: Path, action: str) -> None:
    for steps in itertools.count():
        folder = tmp_path / str(steps)
        with coterie.sync.connect(folder) as c:
            if action != "first":
                with c.lock("a") as held:
                    held.write(b"before")
            arguments = [f"file:{folder}", str(steps), action]
            run = subprocess.run([sys.executable, "-c", KILLED, *arguments], check=False)
            assert run.returncode in (0, -signal.SIGKILL)
            before = None if action == "first" else b"before"
            after = None if action == "delete" else action.encode()
            with c.lock("a") as held:
                found = held.read()
                assert (None if found is None else found.data) in (before, after)
                if run.returncode == 0:
                    assert (None if found is None else found.data) == after
                assert c.read("a") == found
                held.write(b"later")
            found = c.read("a")
            assert found is not None
            assert found.data == b"later"
        if run.returncode == 0:
            assert steps > 5
            return


# Late writers


@in_loop
async def test_a_write_that_comes_after_the_hold_is_refused(tmp_path: Path) -> None:
    async with coterie.connect(tmp_path) as ann, coterie.connect(tmp_path) as bob:
        late = await ann.lock("a").acquire()
        assert late is not None
        await late.write(b"1")
        # Another program is in the file, so the write waits; meanwhile its hold ends.
        other = os.open(file_of(tmp_path), os.O_RDWR)
        assert byte_lock.attempt(other, byte_lock.request(byte_lock.ALONE, 0))
        writing = asyncio.create_task(late.write(b"late"))
        await asyncio.sleep(0.05)
        await late.release()
        held = await bob.lock("a").acquire()
        assert held is not None
        os.close(other)
        found = await held.read()
        with pytest.raises(coterie.LockLost, match="no longer in force"):
            await writing
        assert found is not None
        assert found.data == b"1"
        assert await bob.read("a") == found
        await held.release()


def test_an_older_version_is_refused_also_without_a_look_at_the_hold(tmp_path: Path) -> None:
    values = ValueFolder(Directory(str(tmp_path)))
    assert values.write(record(2, b"2"), lambda: True)
    for late in (record(1, b"1"), record(2, b"again")):
        assert not values.write(late, lambda: True)
    assert not values.write(record(3, b"3"), lambda: False)
    found = values.read("a")
    assert found is not None
    assert found.data == b"2"


@in_loop
async def test_a_directory_that_was_removed_took_the_values_with_it(tmp_path: Path) -> None:
    folder = tmp_path / "locks"
    async with coterie.connect(folder) as c, coterie.connect(folder) as other:
        held = await c.lock("a").acquire()
        assert held is not None
        await held.write(b"1")
        folder.rename(tmp_path / "elsewhere")
        with pytest.raises(coterie.LockLost):
            await held.write(b"2")
        async with other.lock("a") as again:
            assert await again.read() is None


# What is in the directory


def test_a_forked_child_does_not_keep_the_file_locked(tmp_path: Path) -> None:
    ValueFolder(Directory(str(tmp_path))).write(record(1, b"1"), lambda: True)
    child = 0

    def fork() -> bool:
        nonlocal child
        child = os.fork()
        if not child:
            signal.pause()
        return True

    try:
        ValueFolder(Directory(str(tmp_path))).write(record(2, b"2"), fork)
        other = os.open(file_of(tmp_path), os.O_RDWR)
        assert not byte_lock.blocked(other, byte_lock.request(byte_lock.ALONE, 0))
        os.close(other)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    with coterie.sync.connect(tmp_path) as c, c.lock("a") as held:
        for data in (b"1", b"2"):
            held.write(data)
        file = file_of(tmp_path)
        with file.open("r+b") as damaged:
            for place in SLOTS:
                damaged.seek(place + 40)
                damaged.write(b"damage")
        complaint = f"{file.name} is damaged"
        with pytest.raises(coterie.ConfigError, match=complaint):
            c.read("a")
        with pytest.raises(coterie.ConfigError, match=complaint):
            held.write(b"3")
        file.unlink()
        held.write(b"4")


def test_a_value_leaves_no_file_when_it_is_deleted(tmp_path: Path) -> None:
    with coterie.sync.connect(tmp_path) as c, c.lock("a") as held:
        held.write(b"1")
        assert file_of(tmp_path).stat().st_mode & 0o777 == 0o600
        assert file_of(tmp_path).parent.stat().st_mode & 0o777 == 0o700
        held.delete()
        assert not list((tmp_path / f"values-{os.geteuid()}").iterdir())


def test_who_only_looks_makes_nothing(tmp_path: Path) -> None:
    with coterie.sync.connect(tmp_path) as c:
        assert c.read("a") is None
        assert next(c.watch("a")) is None
    assert not list(tmp_path.glob("values*"))


def test_a_folder_that_others_may_enter_is_not_used(tmp_path: Path) -> None:
    folder = tmp_path / f"values-{os.geteuid()}"
    folder.mkdir()
    folder.chmod(0o755)
    with coterie.sync.connect(tmp_path) as c, c.lock("a") as held:
        with pytest.raises(coterie.Unavailable, match="is not closed to other users"):
            held.write(b"1")
        folder.rmdir()
        held.write(b"1")


def test_where_others_can_exchange_the_folder_nothing_is_kept(tmp_path: Path) -> None:
    with coterie.sync.connect(tmp_path) as c, c.lock("a") as held:
        tmp_path.chmod(0o777)
        with pytest.raises(coterie.Unavailable, match=r"is not sticky: chmod \+t"):
            held.write(b"1")


WRITE = """
with coterie.sync.connect(url) as c, c.lock("a") as held:
    found = held.read()
    print(None if found is None else found.data.decode(), flush=True)
    held.write(b"by %d" % os.geteuid())
"""


@needs_root
def test_each_user_of_a_common_directory_has_values_of_its_own(machine: Machine) -> None:
    for user, found in ((0, "None"), (ANN, "None"), (0, "by 0"), (ANN, f"by {ANN}")):
        process = machine.start(user, WRITE)
        stdout, stderr = process.communicate(timeout=20)
        assert stdout.split() == found.split(), stderr


@needs_root
def test_the_values_of_a_user_are_closed_to_others_and_cannot_be_laid(machine: Machine) -> None:
    process = machine.start(0, WRITE)
    process.communicate(timeout=20)
    values = machine.default / "values-0"

    def steal() -> None:
        with pytest.raises(PermissionError):
            list(values.iterdir())
        with pytest.raises(PermissionError):
            values.rename(machine.default / "mine")
        (machine.default / f"values-{BOB}").mkdir()

    as_user(ANN, steal)
    process = machine.start(BOB, WRITE)
    _, stderr = process.communicate(timeout=20)
    assert f"values-{BOB} is not closed to other users" in stderr
