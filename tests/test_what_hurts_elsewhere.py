"""What hurts people with other locks, each as a test on a cluster: three nodes that vote.

The first part runs nodes and programs in virtual time; the second runs `coterie lock` against nodes
that are processes.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
import subprocess
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

import coterie
import coterie.sync
from coterie.cluster.admin.status import HEALTHY
from tests.cluster.local_cluster import COTERIE, PATIENCE_SECONDS, Processes, processes
from tests.cluster.proxy import Program, network
from tests.cluster.virtual_time import Clock, owning, passing, run

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

Start: TypeAlias = "Callable[..., subprocess.Popen[str]]"

LEASE = 1.0
MINUTE = 60.0


def with_programs(
    monkeypatch: pytest.MonkeyPatch, count: int, test: Callable[..., Awaitable[None]]
) -> None:
    async def main() -> None:
        async with network(lease=LEASE) as made:
            await test(*[await made.program() for _ in range(count)])

    run(monkeypatch, main)


# Two etcd clients


def test_the_body_does_not_run_without_the_lock_after_a_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(one: Program, other: Program) -> None:
        async with one.coordinator.lock("x"):
            with pytest.raises(coterie.AcquireTimeout):
                async with other.coordinator.lock("x", timeout=0.1):
                    pytest.fail("the body ran")

    with_programs(monkeypatch, 2, test)


# redis-py, tooz on etcd, etcetra


def test_the_first_holder_is_stopped_before_a_second_one_is_inside(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(one: Program, other: Program) -> None:
        told: list[str] = []

        async def hold() -> None:
            async with one.coordinator.lock("x", on_lost=lambda _: told.append("callback")):
                try:
                    await asyncio.Event().wait()
                finally:
                    told.append("cancelled")

        holding = asyncio.ensure_future(hold())
        while not await other.coordinator.locked("x"):
            pass
        for proxy in one.proxies:
            proxy.stall()
        async with other.coordinator.lock("x"):
            assert sorted(told) == ["callback", "cancelled"]
        with pytest.raises(coterie.LockLost):
            await holding

    with_programs(monkeypatch, 2, test)


# redis-py


def use_after_fork(held: coterie.sync.Held, answers: Any) -> None:
    try:
        held.release()
    except coterie.MisuseError as error:
        answers.put("fork" in str(error))
    else:
        answers.put(False)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_does_not_release_its_parents_lock(cluster: Processes) -> None:
    fork = multiprocessing.get_context("fork")
    answers = fork.SimpleQueue()
    with coterie.sync.connect(cluster.url) as c, c.lock("forked") as held:
        child = fork.Process(target=use_after_fork, args=(held, answers))
        child.start()
        assert answers.get()
        child.join(PATIENCE_SECONDS)
        assert held.valid
        assert c.locked("forked")


def test_a_task_does_not_free_the_lock_of_another_task(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(program: Program) -> None:
        lock = program.coordinator.lock("x")
        async with lock as held:

            async def meddle() -> None:
                with pytest.raises(coterie.NotHeld):
                    await held.release()

            await asyncio.ensure_future(meddle())
            assert held.valid
            assert await program.coordinator.locked("x")

    with_programs(monkeypatch, 1, test)


def test_eight_contenders_are_served_equally_often(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(*programs: Program) -> None:
        entries: Counter[int] = Counter()

        async def work(number: int, program: Program) -> None:
            while True:
                async with program.coordinator.lock("x"):
                    entries[number] += 1
                    await passing(0.001)

        working = [asyncio.ensure_future(work(*each)) for each in enumerate(programs)]
        while entries.total() < 400:
            await passing(0.01)
        for task in working:
            task.cancel()
        await asyncio.gather(*working, return_exceptions=True)
        assert len(entries) == 8
        assert min(entries.values()) >= 0.9 * max(entries.values())

    with_programs(monkeypatch, 8, test)


def test_a_cancelled_release_does_not_wedge_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(one: Program, other: Program) -> None:
        async def hold_and_release() -> None:
            held = await one.coordinator.lock("x").acquire()
            assert held
            asyncio.get_running_loop().call_soon(releasing.cancel)
            await held.release()
            await passing(MINUTE)

        releasing = asyncio.ensure_future(hold_and_release())
        with pytest.raises(asyncio.CancelledError):
            await releasing
        async with other.coordinator.lock("x"):
            pass

    with_programs(monkeypatch, 2, test)


# pysyncobj


def test_a_clock_that_is_a_minute_ahead_takes_nobodys_lock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Clocks of different machines are never compared: only how much time has passed on each."""

    async def main() -> None:
        async with network(lease=LEASE) as made:
            one = await made.program()
            async with one.coordinator.lock("x") as held:
                with owning(Clock()) as ahead:
                    ahead.jump(MINUTE)
                    other = await made.program()
                    waiting = asyncio.ensure_future(other.coordinator.lock("x").acquire())
                await passing(5 * LEASE)
                assert held.valid
                assert not waiting.done()
            assert await waiting

    run(monkeypatch, main)


# Redlock


def test_the_time_of_day_decides_nothing_and_every_hold_has_a_fence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The operator sets all clocks back by an hour, then forth by a day, while a lock is held."""

    async def test(one: Program, other: Program) -> None:
        tokens = []
        real = time.time
        for seconds in (0.0, -3600.0, 86_400.0):
            monkeypatch.setattr(time, "time", lambda seconds=seconds: real() + seconds)
            for program in (one, other):
                async with program.coordinator.lock("x") as held:
                    await passing(2 * LEASE)
                    assert held.valid
                    tokens.append(held.token)
        assert tokens == sorted(set(tokens))

    with_programs(monkeypatch, 2, test)


# All of them


def test_crossed_locks_end_in_an_error_that_says_who_waits_for_whom(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(one: Program, other: Program) -> None:
        holding = asyncio.Barrier(2)

        async def cross(program: Program, first: str, second: str) -> str:
            async with program.coordinator.lock(first):
                await holding.wait()
                try:
                    async with program.coordinator.lock(second):
                        return "served"
                except coterie.DeadlockDetected as error:
                    return str(error)

        outcomes = await asyncio.gather(cross(one, "a", "b"), cross(other, "b", "a"))
        (error,) = [outcome for outcome in outcomes if outcome != "served"]
        assert "waits for lock a since" in error
        assert "waits for lock b since" in error

    with_programs(monkeypatch, 2, test)


# consul lock and etcdctl lock


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    with processes(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
def started(cluster: Processes) -> Iterator[Start]:
    """Give a way to start `coterie lock` with arguments; what it starts is ended with the test."""
    everything: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        command = [*COTERIE, "lock", "--url", cluster.url, *arguments]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        everything.append(process)
        return process

    yield start
    for process in everything:
        process.kill()
        process.communicate()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_the_exit_status_of_the_child_is_not_lost(started: Start) -> None:
    process = started("status", "--", "sh", "-c", "exit 23")
    process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 23


def test_term_reaches_the_child(started: Start) -> None:
    script = "trap 'echo told; exit 5' TERM; echo up; while :; do sleep 0.05; done"
    process = started("term", "--", "sh", "-c", script)
    assert line(process) == "up"
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert out == "told\n"
    assert process.returncode == 5


def test_two_children_never_run_at_once_and_the_first_is_told(
    cluster: Processes, started: Start, tmp_path: Path
) -> None:
    """The nodes of a majority fall silent, and wake up when the child of the first has ended."""
    log = tmp_path / "log"
    script = f"echo in >> {log}; trap 'echo out >> {log}; exit' TERM; while :; do sleep 0.05; done"
    first = started("once", "--", "sh", "-c", script)
    while not log.exists():
        assert first.poll() is None
    for node in "ab":
        cluster.signal(node, signal.SIGSTOP)
    _, talk = first.communicate(timeout=PATIENCE_SECONDS)
    for node in "ab":
        cluster.signal(node, signal.SIGCONT)
    assert first.returncode == coterie.LockLost.exit_status
    assert "could not be renewed" in talk
    cluster.wait(lambda state: state.health == HEALTHY, "the nodes to be back")
    second = started("once", "--", "sh", "-c", f"echo in >> {log}; echo out >> {log}")
    second.communicate(timeout=PATIENCE_SECONDS)
    assert second.returncode == 0
    assert log.read_text().split() == ["in", "out", "in", "out"]
