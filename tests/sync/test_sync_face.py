"""The coordinator for threads, over real lock files."""

from __future__ import annotations

import multiprocessing
import shutil
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import coterie
from coterie import AcquireTimeout, LockLost, MisuseError, NotHeld

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BOUND_SECONDS = 20


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"file:{tmp_path / 'locks'}"


@pytest.fixture
def c(url: str) -> Iterator[coterie.sync.Coordinator]:
    with coterie.sync.connect(url) as opened:
        yield opened


def in_thread(work: Any) -> Any:
    """Run in another thread; give what it returned or raised."""
    outcomes: list[Any] = []

    def run() -> None:
        try:
            outcomes.append(work())
        except Exception as error:  # noqa: BLE001 - to be looked at by the test
            outcomes.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(BOUND_SECONDS)
    return outcomes[0]


def until_waiting(c: coterie.sync.Coordinator, name: str) -> None:
    limit = time.monotonic() + BOUND_SECONDS
    while not c.waiters(name):
        assert time.monotonic() < limit


def test_the_same_surface(c: coterie.sync.Coordinator) -> None:
    with c.lock("a", timeout=1) as held:
        assert held.valid
        assert held.tokens == {"a": held.token}
        held.ensure()
        assert c.locked("a")
        assert c.holders("a")[0].token == held.token
        assert c.waiters("a") == []
    assert not c.locked("a")
    with c.lock_all("a", "b") as both:
        assert list(both.tokens) == ["a", "b"]
        assert both["b"].valid
        assert len(list(both)) == 2
    with c.semaphore("s", 2) as one, c.semaphore("s", 2) as other:
        assert one.name != other.name
    with c.lock_any("p1", c.lock_all("p2", "p3")) as held_any:
        assert held_any.name == "p1"
    with c.elect("scheduler") as term:
        leaders = c.observe("scheduler")
        leader = next(leaders)
        assert leader is not None
        assert leader.token == term.token
    assert next(leaders) is None


def test_the_body_never_runs_without_the_lock(c: coterie.sync.Coordinator) -> None:
    def other() -> None:
        with c.lock("a", timeout=0.01):
            pytest.fail("the body runs without the lock")

    with c.lock("a"):
        assert isinstance(in_thread(other), AcquireTimeout)
        assert in_thread(lambda: c.lock("a").acquire(blocking=False)) is None
    with pytest.raises(ValueError, match="timeout"):
        c.lock("a").acquire(blocking=False, timeout=1)


def test_what_is_held_belongs_to_the_thread(c: coterie.sync.Coordinator) -> None:
    lock = c.lock("a")
    with lock as held:
        assert isinstance(in_thread(held.release), NotHeld)
        assert isinstance(in_thread(lock.release), NotHeld)
        with pytest.raises(MisuseError, match="itself"):
            lock.acquire()
        assert held.valid
    with c.lock("a", reentrant=True), c.lock("a", reentrant=True):
        pass
    assert lock.acquire() is not None
    lock.release()
    with pytest.raises(NotHeld):
        lock.release()


def test_what_a_dead_thread_held_can_be_released(c: coterie.sync.Coordinator) -> None:
    held = in_thread(lambda: c.lock("a").acquire())
    held.release()
    assert not c.locked("a")


def test_a_loss_is_called_back_and_raised(c: coterie.sync.Coordinator, tmp_path: Path) -> None:
    told: list[tuple[str, str]] = []

    def tell(lost: coterie.sync.Holding) -> None:
        told.append((lost.name, threading.current_thread().name))

    def work() -> None:
        with c.lock("a", on_lost=tell) as held:
            shutil.rmtree(tmp_path / "locks")
            assert held.lost.wait(BOUND_SECONDS)
            assert not held.valid
            with pytest.raises(LockLost, match="removed"):
                held.ensure()

    with pytest.raises(LockLost, match="removed"):
        work()
    assert told == [("a", "coterie.sync")]


def test_what_the_body_raised_goes_before_the_loss(
    c: coterie.sync.Coordinator, tmp_path: Path
) -> None:
    def work() -> None:
        with c.lock("a"):
            shutil.rmtree(tmp_path / "locks")
            raise KeyError

    with pytest.raises(KeyError):
        work()


def test_an_interrupted_acquire_leaves_no_request_behind(c: coterie.sync.Coordinator) -> None:
    holding, done = threading.Event(), threading.Event()
    main = threading.main_thread().ident
    assert main is not None

    def hold_and_interrupt() -> None:
        with c.lock("a"):
            holding.set()
            until_waiting(c, "a")
            signal.pthread_kill(main, signal.SIGINT)
            done.wait(BOUND_SECONDS)

    thread = threading.Thread(target=hold_and_interrupt)
    thread.start()
    try:
        assert holding.wait(BOUND_SECONDS)
        with pytest.raises(KeyboardInterrupt):
            c.lock("a").acquire()
        assert c.waiters("a") == []
    finally:
        done.set()
        thread.join(BOUND_SECONDS)


def use_after_fork(c: coterie.sync.Coordinator, held: coterie.sync.Held, answers: Any) -> None:
    for use in (held.ensure, held.release, c.lock("b").acquire, lambda: held.valid, c.close):
        try:
            use()
        except MisuseError as error:
            answers.put("fork" in str(error))
        else:
            answers.put(False)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_can_neither_use_nor_release_nor_keep_its_parents_lock(
    url: str,
) -> None:
    fork = multiprocessing.get_context("fork")
    answers = fork.SimpleQueue()
    with coterie.sync.connect(url) as c, c.lock("a") as held:
        child = fork.Process(target=use_after_fork, args=(c, held, answers))
        child.start()
        assert [answers.get() for _ in range(5)] == [True] * 5
        child.join(BOUND_SECONDS)
        assert held.valid
        assert c.locked("a")


def test_a_closed_coordinator_says_so(url: str) -> None:
    c = coterie.sync.connect(url)
    lock = c.lock("a")
    with pytest.raises(MisuseError, match="not open"):
        lock.acquire()
    with c, pytest.raises(MisuseError, match="open already"):
        c.open()
    with pytest.raises(MisuseError, match="not open"):
        lock.acquire()
    c.close()


def test_closing_ends_the_waiting_of_other_threads(url: str) -> None:
    c = coterie.sync.connect(url)
    outcomes: list[Any] = []
    with c:
        held = c.lock("a").acquire()
        assert held is not None
        thread = threading.Thread(target=lambda: outcomes.append(in_thread(c.lock("a").acquire)))
        thread.start()
        until_waiting(c, "a")
    thread.join(BOUND_SECONDS)
    assert isinstance(outcomes[0], MisuseError)


def test_closing_while_other_threads_take_locks_leaves_nothing_held(tmp_path: Path) -> None:
    """A thread is in the middle of a lock, a release or the way there when another one closes."""
    url = f"file:{tmp_path}/locks"
    outcomes: list[BaseException] = []

    def work(c: coterie.sync.Coordinator, number: int) -> None:
        try:
            while True:
                with c.lock(f"lock-{number}"):
                    pass
        except (MisuseError, LockLost) as error:
            outcomes.append(error)

    for _ in range(20):
        c = coterie.sync.connect(url)
        c.open()
        threads = [threading.Thread(target=work, args=(c, number)) for number in range(4)]
        for thread in threads:
            thread.start()
        with c.lock("other"):
            pass
        c.close()
        for thread in threads:
            thread.join(30)
    assert len(outcomes) == 80, "and no other error"
    with coterie.sync.connect(url) as c:
        assert all(c.lock(f"lock-{number}").acquire(blocking=False) for number in range(4))
