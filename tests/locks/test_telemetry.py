"""What observers are told of the locks of a program."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    NoOpTracer,
    NoOpTracerProvider,
    SpanContext,
    StatusCode,
    Tracer,
)

import coterie
import coterie.sync
from coterie import system
from coterie.locks import Coordinator
from coterie.telemetry import JobState, Metrics, Spans
from coterie.telemetry.histogram import BOUNDS, Histogram
from coterie.telemetry.text import histogram, render
from coterie.testing import WallClock
from tests.locks.memory import MemoryEngine, in_loop
from tests.locks.test_held_values import ValueMemory

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from coterie.telemetry import HoldObserver, Observer, Outcome


def watched(metrics: Metrics) -> tuple[Coordinator, MemoryEngine]:
    engine = MemoryEngine()
    return Coordinator(engine, "memory:", observers=[metrics]), engine


def counts(metrics: Metrics) -> dict[str, int]:
    return {outcome: waits.count for outcome, waits in metrics.waits.items() if waits.count}


async def lose_the_lock(program: Coordinator, engine: MemoryEngine) -> None:
    async with program.lock("x"):
        engine.lose("x")
        await asyncio.Event().wait()


def test_a_histogram_counts_up_to_each_bound() -> None:
    durations = Histogram()
    for seconds in (0.0, 0.1, 0.2, 5000.0):
        durations.add(seconds)
    assert durations.count == 4
    assert durations.seconds == pytest.approx(5000.3)
    below = durations.buckets
    assert list(below) == list(BOUNDS)
    assert (below[0.03], below[0.1], below[0.3], below[1000.0]) == (1, 2, 3, 3)
    lines = render([histogram("t", "Time.", [({"k": "v"}, durations)])]).splitlines()
    assert lines[1] == "# TYPE coterie_t histogram"
    assert 'coterie_t_bucket{k="v",le="0.1"} 2' in lines
    assert lines[-3:] == [
        'coterie_t_bucket{k="v",le="+Inf"} 4',
        f'coterie_t_sum{{k="v"}} {durations.seconds:.17g}',
        'coterie_t_count{k="v"} 4',
    ]


@in_loop
async def test_each_end_of_a_request_is_counted_once() -> None:
    metrics = Metrics()
    program, _ = watched(metrics)
    async with program:
        held = await program.lock("x").acquire()
        assert held is not None

        async def another(**options: Any) -> object:
            return await program.lock("x").acquire(**options)

        assert await asyncio.create_task(another(blocking=False)) is None
        assert await asyncio.create_task(another(timeout=0.001)) is None
        waiting = asyncio.create_task(another())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert counts(metrics) == {"obtained": 1, "busy": 1, "timeout": 1, "cancelled": 1}
        assert (metrics.held, metrics.holds.count) == (1, 0)
        await held.release()
        assert (metrics.held, metrics.holds.count, metrics.losses) == (0, 1, 0)
        assert metrics.waits["timeout"].seconds >= 0.001


@in_loop
async def test_a_reentry_is_no_second_hold() -> None:
    metrics = Metrics()
    program, _ = watched(metrics)
    async with program:
        lock = program.lock("x", reentrant=True)
        async with lock, lock:
            assert counts(metrics) == {"obtained": 1}
        assert metrics.holds.count == 1


@in_loop
async def test_losses_are_counted() -> None:
    metrics = Metrics()
    program, engine = watched(metrics)
    async with program:
        with pytest.raises(coterie.LockLost):
            await lose_the_lock(program, engine)
        assert (metrics.losses, metrics.held, metrics.holds.count) == (1, 0, 1)


@in_loop
async def test_what_is_held_when_the_coordinator_closes_is_lost_once() -> None:
    metrics = Metrics()
    program, _ = watched(metrics)
    async with program:
        held = await program.lock("x").acquire()
        assert held is not None
    with pytest.raises(coterie.CoterieError):
        await held.release()
    assert (metrics.losses, metrics.held, metrics.holds.count) == (1, 0, 1)


@in_loop
async def test_victims_of_deadlocks_are_counted(tmp_path: Path) -> None:
    metrics = Metrics()
    async with coterie.connect(f"file:{tmp_path}/locks", observers=[metrics]) as program:

        async def cross(first: str, second: str, mine: asyncio.Event, other: asyncio.Event) -> None:
            async with program.lock(first):
                mine.set()
                await other.wait()
                async with program.lock(second):
                    pass

        one, two = asyncio.Event(), asyncio.Event()
        ends = await asyncio.gather(
            cross("x", "y", one, two), cross("y", "x", two, one), return_exceptions=True
        )
        assert sum(isinstance(end, coterie.DeadlockDetected) for end in ends) == 1
        assert counts(metrics) == {"obtained": 3, "deadlock": 1}
        assert (metrics.held, metrics.holds.count) == (0, 3)


def test_threads_that_take_locks_of_this_machine_are_counted(tmp_path: Path) -> None:
    metrics = Metrics()
    with coterie.sync.connect(f"file:{tmp_path}/locks", observers=[metrics]) as program:
        lock = program.lock("x")

        def work() -> None:
            for _ in range(50):
                with lock:
                    pass

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with lock:
            got: list[object] = []

            def try_it() -> None:
                got.extend([lock.acquire(blocking=False), lock.acquire(timeout=0.001)])

            trying = threading.Thread(target=try_it)
            trying.start()
            trying.join()
        assert got == [None, None]
    assert counts(metrics) == {"obtained": 201, "busy": 1, "timeout": 1}
    assert (metrics.held, metrics.holds.count, metrics.losses) == (0, 201, 0)
    text = metrics.text()
    assert 'coterie_client_wait_seconds_count{outcome="obtained"} 201\n' in text
    assert "coterie_client_hold_seconds_count 201\n" in text
    assert "coterie_client_losses_total 0\n" in text
    assert all(
        re.match(r"# |coterie_client_[a-z_]+(\{.*\})? \S+$", line) for line in text.splitlines()
    )


class Faulty:
    """Fails whatever it is told."""

    def __init__(self, *, also_at_the_end: bool) -> None:
        self._fails_at_once = not also_at_the_end

    def obtained(self, name: str, token: int, *, shared: bool, wait_seconds: float) -> HoldObserver:
        del name, token, shared, wait_seconds
        if self._fails_at_once:
            raise ValueError("at once")
        return self

    def missed(self, name: str, outcome: Outcome, *, shared: bool, wait_seconds: float) -> None:
        raise ValueError("missed")

    def end(self, *, lost: bool) -> None:
        raise ValueError("at the end")


@in_loop
async def test_an_observer_that_fails_costs_neither_the_lock_nor_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    metrics = Metrics()
    observers: list[Observer] = [
        Faulty(also_at_the_end=False),
        Faulty(also_at_the_end=True),
        metrics,
    ]
    async with Coordinator(MemoryEngine(), "memory:", observers=observers) as program:
        with caplog.at_level(logging.ERROR):
            async with program.lock("x"):
                assert await asyncio.create_task(program.lock("x").acquire(False)) is None
            async with program.lock("x"):
                pass
    assert counts(metrics) == {"obtained": 2, "busy": 1}
    assert metrics.holds.count == 2
    failures = [record.exc_info[1] for record in caplog.records if record.exc_info]
    assert sorted(map(str, failures)) == [
        *["at once"] * 2,
        *["at the end"] * 2,
        *["missed"] * 2,
    ]


def test_spans_without_the_package_say_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(coterie.ConfigError, match=r"pip install 'coterie\[otel\]'"):
        Spans()


class RecordedSpan(NonRecordingSpan):
    """A span of the interface alone, which remembers what it is told."""

    def __init__(self, name: str, number: int, start: int | None, links: Sequence[Link]) -> None:
        super().__init__(SpanContext(1, number, is_remote=False))
        self.name = name
        self.links = links
        self.start = start
        self.ended: int | None = None
        self.attributes: dict[str, object] = {}
        self.status: object = None
        self.ends = 0

    def set_attribute(self, key: str, value: object) -> None:
        self.attributes[key.removeprefix("coterie.")] = value

    def set_status(self, status: object, description: str | None = None) -> None:
        self.status = (status, description)

    def end(self, end_time: int | None = None) -> None:
        self.ends += 1
        self.ended = end_time


class Recorder(NoOpTracerProvider):
    """Makes spans, and keeps them."""

    def __init__(self) -> None:
        self.spans: list[RecordedSpan] = []

    def get_tracer(self, *_: object, **__: object) -> Tracer:
        recorder = self

        class Recording(NoOpTracer):
            def start_span(self, name: str, *_: object, **given: Any) -> RecordedSpan:
                number = len(recorder.spans) + 1
                links = given.get("links") or ()
                recorder.spans.append(RecordedSpan(name, number, given.get("start_time"), links))
                return recorder.spans[-1]

        return Recording()


@in_loop
async def test_a_span_for_waiting_and_one_for_holding_have_the_token_and_a_link() -> None:
    recorder = Recorder()
    async with Coordinator(MemoryEngine(), "memory:", observers=[Spans(recorder)]) as program:
        async with program.lock("x") as held:
            wait, hold = recorder.spans
            assert (wait.name, wait.ends) == ("coterie.wait", 1)
            assert (hold.name, hold.ends) == ("coterie.hold", 0)
            assert await asyncio.create_task(program.lock("x").acquire(timeout=0.001)) is None
        assert hold.ends == 1
    about = {"lock": "x", "shared": False, "token": held.token}
    assert wait.attributes == about | {"outcome": "obtained"}
    assert hold.attributes == about | {"lost": False}
    assert [link.context for link in hold.links] == [wait.get_span_context()]
    assert (wait.status, hold.status) == (None, None)
    vain = recorder.spans[2]
    assert vain.attributes == {"lock": "x", "shared": False, "outcome": "timeout"}
    assert vain.status == (StatusCode.ERROR, "timeout")
    assert vain.start is not None
    assert vain.ended is not None
    assert vain.ended - vain.start >= 1_000_000, "as long as was waited, in nanoseconds"


@in_loop
async def test_the_span_of_a_lock_that_was_lost_says_so() -> None:
    recorder, engine = Recorder(), MemoryEngine()
    async with Coordinator(engine, "memory:", observers=[Spans(recorder)]) as program:
        with pytest.raises(coterie.LockLost):
            await lose_the_lock(program, engine)
    hold = recorder.spans[1]
    assert hold.attributes["lost"] is True
    assert hold.status == (StatusCode.ERROR, "lost")


@in_loop
async def test_fifteen_permits_count_as_fifteen_that_were_obtained() -> None:
    """Permits that were tried first, and are taken, count as busy."""
    metrics = Metrics()
    program, _ = watched(metrics)
    async with program:
        permits = program.semaphore("pool", 15)
        held = [await asyncio.create_task(permits.acquire()) for _ in range(15)]
        assert all(held)
    assert counts(metrics) == {"obtained": 15, "busy": sum(range(15))}


# Jobs


@in_loop
async def test_the_jobs_of_a_program_are_counted_and_what_others_did_is_seen() -> None:
    engine, ann, bob = ValueMemory(), Metrics(), Metrics()

    async def come(metrics: Metrics, *, fails: bool = False) -> None:
        async with Coordinator(engine, "memory:", observers=[metrics]) as c:
            with contextlib.suppress(coterie.NotDue, ValueError):
                async with c.once("nightly", every="1d", attempts=2):
                    if fails:
                        raise ValueError

    with WallClock("2026-11-17 02:00") as clock:
        began = system.wall()
        await come(ann, fails=True)
        assert (ann.jobs["nightly"].starts, ann.jobs["nightly"].ends) == (
            1,
            {"done": 0, "failed": 1},
        )
        assert ann.jobs["nightly"].seen == JobState("nightly", 1, began, 86400)
        clock.move(60)
        await come(bob)
        await come(ann)
        assert ann.jobs["nightly"].seen == JobState("nightly", 2, began + 60, 86400)
        assert (ann.jobs["nightly"].starts, bob.jobs["nightly"].starts) == (1, 1)
    assert f'coterie_job_last_success_seconds{{name="nightly"}} {began + 60:.17g}' in ann.text()
    assert 'coterie_job_ends_total{name="nightly",state="done"} 1' in bob.text()
    assert 'coterie_job_attempts{name="nightly"} 2' in ann.text()


@in_loop
async def test_a_run_that_has_lost_its_lock_has_no_end_that_is_counted() -> None:
    engine, metrics = ValueMemory(), Metrics()
    async with Coordinator(engine, "memory:", observers=[metrics]) as c:
        run = await c.once("nightly", "1").acquire()
        assert run is not None
        engine.lose("nightly")
        with pytest.raises(coterie.LockLost):
            await run.finish()
    assert metrics.jobs["nightly"].starts == 1
    assert not any(metrics.jobs["nightly"].ends.values())


@in_loop
async def test_an_observer_of_jobs_that_fails_costs_no_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Failing(Metrics):
        def job_seen(self, job: JobState) -> None:
            raise ValueError(job.name)

    program = Coordinator(ValueMemory(), "memory:", observers=[Failing(), Metrics()])
    async with program as c, c.once("nightly", "1") as run:
        assert run.attempt == 1
    assert {record.levelno for record in caplog.records} == {logging.ERROR}
    assert "failed to note the record of job 'nightly'" in caplog.text
