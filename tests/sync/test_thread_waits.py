"""A thread that waits for a `file:` lock does so by itself, and every promise holds for it."""

from __future__ import annotations

import os
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import coterie
from coterie import MisuseError
from coterie.engines.file import waiters
from coterie.engines.file.directory.folder import Directory
from coterie.engines.file.directory.lock_file import LockDirectory
from coterie.engines.file.directory.wait_queue import WaitQueue
from coterie.sync.loop import Loop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

BOUND_SECONDS = 20


class Asking:
    """A thread that acquires a lock, and what came of it."""

    def __init__(self, lock: coterie.sync.Lock, **options: Any) -> None:
        self._outcome: Any = None
        self._thread = threading.Thread(target=lambda: self._ask(lock, options))
        self._thread.start()

    def _ask(self, lock: coterie.sync.Lock, options: dict[str, Any]) -> None:
        try:
            self._outcome = lock.acquire(**options)
        except Exception as error:  # noqa: BLE001 - to be looked at by the test
            self._outcome = error.with_traceback(None)  # whose frames would keep files open

    def outcome(self) -> Any:
        self._thread.join(BOUND_SECONDS)
        assert not self._thread.is_alive()
        return self._outcome


@pytest.fixture
def c(tmp_path: Path) -> Iterator[coterie.sync.Coordinator]:
    with coterie.sync.connect(f"file:{tmp_path}/locks") as opened:
        yield opened


@pytest.fixture
def program(tmp_path: Path, c: coterie.sync.Coordinator) -> Iterator[LockDirectory]:
    """Another program, whose handles the test moves by hand."""
    assert c.url
    opened = LockDirectory(Directory(f"{tmp_path}/locks"), "host:1")
    yield opened
    opened.close()


def until(condition: Callable[[], object]) -> None:
    limit = time.monotonic() + BOUND_SECONDS
    while not condition():
        assert time.monotonic() < limit


def are_waiting(c: coterie.sync.Coordinator, number: int) -> bool:
    return len(c.waiters("a")) == number


def test_no_event_loop_takes_part_in_the_wait(
    c: coterie.sync.Coordinator, program: LockDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = program.try_acquire("a")
    assert held is not None
    loops = Loop.run
    monkeypatch.setattr(Loop, "run", lambda *_: pytest.fail("the wait goes through the loop"))
    asking = Asking(c.lock("a"))
    until(lambda: program.lock_bytes("a").queue in program.queues.names())
    held.release()
    assert isinstance(asking.outcome(), coterie.sync.Held)
    monkeypatch.setattr(Loop, "run", loops)


def test_threads_are_served_in_the_order_in_which_they_came(c: coterie.sync.Coordinator) -> None:
    order: list[int] = []

    def work(number: int) -> None:
        with c.lock("a"):
            order.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    with c.lock("a"):
        for number, thread in enumerate(threads):
            thread.start()
            until(partial(are_waiting, c, number + 1))
    for thread in threads:
        thread.join(BOUND_SECONDS)
    assert order == list(range(6))


def test_one_that_gives_up_leaves_no_place_and_the_next_is_told(
    c: coterie.sync.Coordinator, program: LockDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers wait behind a writer that gives up: they are let in then, not at the next look of the clock."""
    monkeypatch.setattr(waiters, "LOOK_AGAIN_SECONDS", 2 * BOUND_SECONDS)
    held = program.try_acquire("a", shared=True)
    writer = Asking(c.lock("a"), timeout=0.05)
    until(lambda: len(c.waiters("a")) == 1)
    reader = Asking(c.lock("a", shared=True))
    assert writer.outcome() is None
    assert reader.outcome().shared
    assert held is not None
    held.release()
    assert not c.waiters("a")


def test_a_thread_goes_on_in_the_directory_that_is_made_again(
    tmp_path: Path, c: coterie.sync.Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiters, "LOOK_AGAIN_SECONDS", 0.01)
    first = c.lock("a").acquire()
    asking = Asking(c.lock("a"))
    until(lambda: c.waiters("a"))
    (tmp_path / "locks").rename(tmp_path / "removed")  # at one moment
    second = asking.outcome()
    assert first is not None
    assert (first.valid, second.valid) == (False, True)


def test_a_thread_passes_one_that_is_stopped_when_its_turn_comes(
    c: coterie.sync.Coordinator, program: LockDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiters, "LOOK_AGAIN_SECONDS", 0.01)
    held = c.lock("a").acquire()
    stopped = program.handle()
    assert stopped.join(program.lock_bytes("a"), 1, shared=False, owner=1, task=b"")
    asking = Asking(c.lock("a"))
    until(lambda: len(c.waiters("a")) == 2)
    assert held is not None
    held.release()
    late = asking.outcome()
    assert late.token > held.token
    assert stopped.look(program.lock_bytes("a"), shared=False) is None, "the lock is held"


def test_the_end_of_the_one_before_is_noticed_without_the_clock(
    c: coterie.sync.Coordinator, program: LockDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiters, "LOOK_AGAIN_SECONDS", 2 * BOUND_SECONDS)
    held = program.try_acquire("a")
    assert held is not None
    asking = Asking(c.lock("a"))
    until(lambda: c.waiters("a"))
    program.abandon()  # as the kernel does when a process is killed
    del held
    assert asking.outcome().valid


def test_a_line_that_was_removed_since_the_last_wait_is_made_again(
    c: coterie.sync.Coordinator, program: LockDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A handle keeps its line open for the next wait; a program that ends may remove it meanwhile."""
    monkeypatch.setattr(waiters, "LOOK_AGAIN_SECONDS", 2 * BOUND_SECONDS)
    for _ in range(2):
        held = c.lock("a").acquire()
        asking = Asking(c.lock("a"))
        until(lambda: c.waiters("a"))
        assert program.queues.names() == [program.lock_bytes("a").queue]
        assert held is not None
        held.release()
        asking.outcome().release()
        program.remove_queue(program.lock_bytes("a").queue)
        assert program.queues.names() == []


def test_closing_ends_a_wait_and_leaves_no_descriptor(tmp_path: Path) -> None:
    def count() -> int:
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208

    before = count()
    for _ in range(3):
        with coterie.sync.connect(f"file:{tmp_path}/locks") as c:
            c.lock("a").acquire()
            asking = Asking(c.lock("a"))
            until(partial(are_waiting, c, 1))
        assert isinstance(asking.outcome(), MisuseError)
    assert count() == before


def test_what_a_killed_program_has_left_is_removed(tmp_path: Path) -> None:
    """Its board, its pipes, and those of its threads and of locks that it has lent."""
    folder = tmp_path / "locks" / "boards"
    with coterie.sync.connect(f"file:{tmp_path}/locks"):
        pass
    for name in ("", ".life", ".bell", "-1.bell", "-0123456789abcde.life"):
        (folder / f"00000000deadbeef{name}").touch()
    (folder / "another").touch()
    with coterie.sync.connect(f"file:{tmp_path}/locks"):
        pass
    assert [path.name for path in folder.iterdir()] == ["another"]


def test_a_place_is_left_if_the_wait_cannot_begin(
    c: coterie.sync.Coordinator, program: LockDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = program.try_acquire("a")

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(WaitQueue, "join", full)
        with pytest.raises(coterie.Unavailable, match="No space left"):
            c.lock("a").acquire()
    assert held is not None
    held.release()
    assert c.lock("a").acquire(blocking=False) is not None, "no waiter is left in the way"
