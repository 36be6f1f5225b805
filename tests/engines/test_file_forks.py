"""A fork while another thread is at work in the lock directory: the child must not keep what it got.

A byte lock belongs to an open file description, which a child shares: it is free when it is unlocked, or
when the last copy of the descriptor is closed.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest

from coterie.engines.file.directory.folder import Directory
from coterie.engines.file.directory.lock_file import LockDirectory, LockHandle

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[LockDirectory]:
    opened = LockDirectory(Directory(str(tmp_path)), "host:1")
    yield opened
    opened.close()


@pytest.fixture
def others(tmp_path: Path) -> Iterator[LockDirectory]:
    opened = LockDirectory(Directory(str(tmp_path)), "host:2")
    yield opened
    opened.close()


def open_files() -> set[str]:
    found = set()
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        try:
            found.add(os.readlink(f"/proc/self/fd/{name}"))  # noqa: PTH115
        except FileNotFoundError:
            continue
    return found


def in_child(look: int) -> None:
    """Tell the parent, through a pipe, which files of the directory the child still has open."""
    kept = [name for name in open_files() if name.endswith(("/words", ".life", ".bell"))]
    os.write(look, b"\n".join(name.encode() for name in kept) or b"none")
    os._exit(0)


def kept_by_child() -> str:
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        in_child(theirs)
    os.close(theirs)
    try:
        return os.read(ours, 10_000).decode()
    finally:
        os.close(ours)
        os.waitpid(child, 0)


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="needs /proc")  # noqa: PTH110
def test_a_child_keeps_nothing_that_is_held_waited_for_or_idle(
    directory: LockDirectory, others: LockDirectory
) -> None:
    held, idle = directory.try_acquire("a"), directory.handle()
    directory.give(idle)
    blocked = others.handle()
    others.bell()
    assert held is not None
    assert blocked.join(others.lock_bytes("a"), 1, shared=False, owner=1, task=b"")
    assert kept_by_child() == "none"
    assert others.try_acquire("a") is None, "the parent has it still"
    held.release()
    assert blocked.look(others.lock_bytes("a"), shared=False) is not None
    blocked.release()


def test_a_lock_is_free_when_it_is_released_though_a_child_has_a_copy(
    directory: LockDirectory, others: LockDirectory
) -> None:
    held = directory.try_acquire("a")
    assert held is not None
    copies = [os.dup(descriptor) for descriptor in held.lend()]  # as a child has them
    held.release()
    taken = others.try_acquire("a")
    assert taken is not None
    taken.release()
    assert not held.is_reusable, "or the child would keep the next lock of this handle, too"
    for copy in copies:
        os.close(copy)


def test_what_a_child_has_inherited_keeps_the_lock_when_the_parent_is_gone(
    directory: LockDirectory, others: LockDirectory
) -> None:
    held = directory.try_acquire("a")
    assert held is not None
    copies = [os.dup(descriptor) for descriptor in held.lend()]
    directory.abandon()  # as the kernel does when a process is killed
    assert others.try_acquire("a") is None
    for copy in copies:
        os.close(copy)
    assert others.try_acquire("a") is not None


def test_no_fork_happens_between_opening_a_seat_and_remembering_it(
    directory: LockDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside, forked = threading.Event(), threading.Event()
    opened = LockDirectory.open_again

    def slowly(self: LockDirectory) -> int:
        descriptor = opened(self)
        inside.set()
        forked.wait(0.05)  # in vain: the fork has to wait for us
        return descriptor

    monkeypatch.setattr(LockDirectory, "open_again", slowly)
    handles: list[LockHandle] = []
    opening = threading.Thread(target=lambda: handles.append(directory.handle()))
    opening.start()
    assert inside.wait(10)
    kept = kept_by_child()
    forked.set()
    opening.join()
    assert kept == "none"
