"""Jobs that run once per period, on files: the table of cases in docs/once.md, with machines whose clocks are apart."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

import coterie
import coterie.sync
from coterie.locks.once import once
from coterie.locks.once.record import OnceRecord, decode
from coterie.locks.once.report import look, order_again
from coterie.testing import WallClock
from tests.locks.memory import in_loop
from tests.locks.test_held_values import ValueMemory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.locks.memory import MemoryClaim

BERLIN = "Europe/Berlin"
RECORD = (
    b'{"once":1,"period":"1","starts":%s,"since":0,"every":%s,"runs":'
    b'[{"period":"1","attempt":1,"token":1,"by":"host:1","began":0,"state":"done"}]}'
)


class Machines:
    """Programs on several machines, each with a clock of its own, that begin one job."""

    def __init__(self, folder: Path, clock: WallClock) -> None:
        self.folder = folder
        self.clock = clock
        self.attempts = 1
        self.ran: list[tuple[str, int]] = []  # period and attempt of each start
        self.tokens: list[int] = []

    def come(self, ahead: float | str = 0.0, *, fails: bool = False, **options: Any) -> str:
        """Begin the job on a machine whose clock is ahead; return what became of it."""
        now = self.clock.wall()
        self.clock.move(ahead)
        try:
            with coterie.sync.connect(self.folder) as c, self.job(c, **options) as run:
                self.note(run)
                if fails:
                    self.fail()
        except coterie.NotDue as error:
            return error.reason
        except ZeroDivisionError:
            return "fails"
        finally:
            self.clock.set(now)
        return "runs"

    def job(self, c: coterie.sync.Coordinator, **options: Any) -> coterie.sync.Once:
        asked: dict[str, Any] = {"every": "1d", "at": "02:00", "zone": BERLIN}
        asked |= {"attempts": self.attempts, **options}
        return c.once("nightly", **asked)

    def note(self, run: coterie.sync.Run) -> None:
        self.ran.append((run.period, run.attempt))
        self.tokens.append(run.token)

    def fail(self) -> None:
        raise ZeroDivisionError("it fails")

    def interrupted(self, **options: Any) -> str:
        """Begin the job, and end without saying how it went, as a program does that is killed in its job."""
        with coterie.sync.connect(self.folder) as c:
            run = self.job(c, **options).acquire()
            if run is None:
                return "not due"
            self.note(run)
        return "runs"

    def record(self) -> OnceRecord:
        with coterie.sync.connect(self.folder) as c:
            value = c.read("nightly")
        assert value is not None
        return decode("nightly", value.data)

    def states(self) -> list[str]:
        return [run.state for run in self.record().runs]


async def one_waits(c: coterie.Coordinator) -> None:
    while not await c.waiters("nightly"):  # noqa: ASYNC110 - it may be of another process
        await asyncio.sleep(0.001)


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    with WallClock("2026-11-17 02:00", BERLIN) as clock:
        yield Machines(tmp_path / "locks", clock)


# The table, row by row


@pytest.mark.parametrize("attempts", [1, 3])
def test_of_all_that_come_at_once_one_runs(machines: Machines, attempts: int) -> None:
    found: list[str] = []

    def come() -> None:
        found.append(machines.come(attempts=attempts))

    threads = [threading.Thread(target=come) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found.count("runs") == 1
    assert set(found) <= {"runs", "done", "running"}
    assert machines.ran == [("2026-11-17", 1)]


@pytest.mark.parametrize("attempts", [1, 3])
def test_who_comes_seconds_later_finds_it_done(machines: Machines, attempts: int) -> None:
    assert machines.come(attempts=attempts) == "runs"
    machines.clock.move(2)
    assert [machines.come(ahead, attempts=attempts) for ahead in (-299, 0, 299)] == ["done"] * 3
    machines.clock.move("1d")
    assert machines.come(attempts=attempts) == "runs"
    assert machines.ran == [("2026-11-17", 1), ("2026-11-18", 1)]


@in_loop
async def test_with_one_attempt_who_finds_it_running_goes_home(tmp_path: Path) -> None:
    async with coterie.connect(tmp_path) as ann, coterie.connect(tmp_path) as bob:
        async with ann.once("nightly", "2026-11-17"):
            with pytest.raises(coterie.NotDue, match="is being run by") as refused:
                await bob.once("nightly", "2026-11-17").__aenter__()
            assert (refused.value.period, refused.value.reason) == ("2026-11-17", "running")
            assert await bob.once("nightly", "2026-11-17").acquire() is None
            # The run of an earlier period is none of this one: it is waited for.
            with pytest.raises(coterie.NotDue, match="period 2026-11-17 is being run by"):
                await bob.once("nightly", "2026-11-18", timeout=0).__aenter__()
        run = await bob.once("nightly", "2026-11-18", timeout=0).acquire()
        assert run is not None
        await run.finish()


@in_loop
async def test_with_more_attempts_who_finds_it_running_waits_for_its_end(tmp_path: Path) -> None:
    async with coterie.connect(tmp_path) as ann, coterie.connect(tmp_path) as bob:
        job = bob.once("nightly", "2026-11-17", attempts=2)
        for outcome in ("done", "failed"):
            first = await ann.once("nightly", "2026-11-17", attempts=2).acquire()
            assert first is not None
            waiting = asyncio.create_task(job.acquire())
            await one_waits(ann)
            await (first.finish() if outcome == "done" else first.fail("no disk"))
            second = await waiting
            assert (second is None) == (outcome == "done")
            if second is not None:
                assert (second.attempt, second.token > first.token) == (2, True)
                await second.finish()
            value = await ann.read("nightly")
            assert value is not None
            async with ann.lock("nightly") as held:
                await held.delete()


@in_loop
async def test_who_only_looks_sends_no_one_home(tmp_path: Path) -> None:
    """With one attempt, too: the holder of the lock may be one whose clock is behind, and who runs nothing."""
    async with coterie.connect(tmp_path) as ann, coterie.connect(tmp_path) as bob:
        async with ann.lock("nightly"):
            waiting = asyncio.create_task(bob.once("nightly", "2026-11-17").acquire())
            await one_waits(ann)
        run = await waiting
        assert run is not None
        await run.finish()


@in_loop
async def test_a_lock_that_is_held_for_something_else_is_not_obtained(tmp_path: Path) -> None:
    async with (
        coterie.connect(tmp_path) as ann,
        coterie.connect(tmp_path) as bob,
        ann.lock("nightly"),
    ):
        with pytest.raises(coterie.AcquireTimeout, match="it is held by"):
            await bob.once("nightly", "2026-11-17", timeout=0).__aenter__()
        assert await bob.once("nightly", "2026-11-17").acquire(timeout=0) is None


def test_a_job_that_fails_is_not_begun_again(machines: Machines) -> None:
    assert [machines.come(fails=True), machines.come()] == ["fails", "failed"]
    assert machines.record().last.status == "ZeroDivisionError: it fails"


def test_a_job_that_fails_is_begun_again_while_attempts_are_left(machines: Machines) -> None:
    found = [machines.come(fails=True, attempts=3) for _ in range(4)]
    assert found == ["fails", "fails", "fails", "failed"]
    assert machines.ran == [("2026-11-17", attempt) for attempt in (1, 2, 3)]
    assert machines.tokens == sorted(set(machines.tokens))
    machines.clock.move("1d")
    assert [machines.come(fails=True, attempts=3), machines.come(attempts=3)] == ["fails", "runs"]
    assert machines.come(attempts=3) == "done"


def test_a_run_that_was_interrupted_is_not_begun_again(machines: Machines) -> None:
    assert [machines.interrupted(), machines.come()] == ["runs", "started"]
    machines.clock.move("1d")
    assert machines.come() == "runs"
    assert machines.states() == ["interrupted", "done"]
    assert machines.record().counts == {"interrupted": 1, "done": 1}


def test_a_run_that_was_interrupted_is_begun_again_while_attempts_are_left(
    machines: Machines,
) -> None:
    assert [machines.interrupted(attempts=3) for _ in range(2)] == ["runs"] * 2
    assert [machines.come(attempts=3), machines.come(attempts=3)] == ["runs", "done"]
    assert machines.states() == ["interrupted", "interrupted", "done"]
    assert [attempt for _, attempt in machines.ran] == [1, 2, 3]


@in_loop
async def test_the_result_of_a_holder_that_lost_the_lock_is_refused(tmp_path: Path) -> None:
    async with coterie.connect(tmp_path / "locks") as ann:

        @ann.once("nightly", "2026-11-17", attempts=2)
        async def lose(run: coterie.Run) -> None:
            (tmp_path / "locks").rename(tmp_path / "elsewhere")
            await run.lost

        with pytest.raises(coterie.LockLost):
            await lose()
        assert coterie.current_token() is None
    async with coterie.connect(tmp_path / "elsewhere") as bob:
        (view,) = await look(bob)
        assert (view.condition, view.record.starts) == ("interrupted", 1)
        run = await bob.once("nightly", "2026-11-17", attempts=2).acquire()
        assert run is not None
        assert run.attempt == 2
        await run.fail()


@in_loop
async def test_a_run_that_lasts_into_the_next_period_is_waited_for(tmp_path: Path) -> None:
    with WallClock("2026-11-17 02:00") as clock:
        async with coterie.connect(tmp_path) as ann, coterie.connect(tmp_path) as bob:
            first = await ann.once("nightly", every="1d", at="02:00").acquire()
            assert first is not None
            clock.move("1d")
            tonight = bob.once("nightly", every="1d", at="02:00")
            assert await tonight.acquire(timeout=0) is None
            waiting = asyncio.create_task(tonight.acquire())
            await one_waits(ann)
            await first.finish()
            second = await waiting
            assert second is not None
            assert (first.period, second.period) == ("2026-11-17", "2026-11-18")
            await second.finish()


@pytest.mark.parametrize("attempts", [1, 3])
def test_a_clock_that_is_ahead_runs_the_next_period_early(
    machines: Machines, attempts: int
) -> None:
    machines.attempts = attempts
    assert machines.come() == "runs"
    machines.clock.set("2026-11-18 01:00")
    assert machines.come("1h") == "runs"
    machines.clock.set("2026-11-18 02:00")
    assert [machines.come(), machines.come(-180)] == ["done", "done"]
    assert machines.ran == [("2026-11-17", 1), ("2026-11-18", 1)]


@pytest.mark.parametrize("attempts", [1, 3])
def test_a_clock_that_is_behind_is_late(machines: Machines, attempts: int) -> None:
    assert machines.come(attempts=attempts) == "runs"
    assert machines.come(-3600, attempts=attempts) == "late"
    machines.clock.set("2026-11-12 02:00")
    assert machines.come(attempts=attempts) == "late"
    assert machines.ran == [("2026-11-17", 1)]


@pytest.mark.parametrize("attempts", [1, 2])
def test_clocks_within_the_slack_run_one_period(machines: Machines, attempts: int) -> None:
    found = [machines.come(ahead, attempts=attempts) for ahead in (-290, 290, -10, 0)]
    assert found == ["runs", "done", "done", "done"]


@pytest.mark.parametrize("attempts", [1, 3])
def test_the_first_to_come_runs_a_period_that_was_slept_through(
    machines: Machines, attempts: int
) -> None:
    machines.attempts = attempts
    machines.clock.set("2026-11-18 01:54")
    assert machines.come() == "runs"
    machines.clock.set("2026-11-18 02:00")
    assert machines.come() == "runs"
    assert machines.ran == [("2026-11-17", 1), ("2026-11-18", 1)]


@pytest.mark.parametrize("attempts", [1, 3])
def test_it_is_run_only_within_a_time_if_that_is_asked_for(
    machines: Machines, attempts: int
) -> None:
    machines.attempts = attempts
    machines.clock.set("2026-11-17 03:00:01")
    assert machines.come(only_within="1h") == "over"
    machines.clock.set("2026-11-17 03:00")
    assert [machines.come(only_within=3600), machines.come(only_within=3600)] == ["runs", "done"]


@pytest.mark.parametrize("attempts", [1, 3])
def test_of_several_periods_that_were_missed_the_newest_runs(
    machines: Machines, attempts: int
) -> None:
    machines.attempts = attempts
    assert machines.come() == "runs"
    machines.clock.move("5d")
    assert [machines.come(), machines.come()] == ["runs", "done"]
    assert [period for period, _ in machines.ran] == ["2026-11-17", "2026-11-22"]


@pytest.mark.parametrize("attempts", [1, 3])
def test_the_last_ones_that_were_missed_run_if_that_is_asked_for(
    machines: Machines, attempts: int
) -> None:
    machines.attempts = attempts
    assert machines.come(catch_up=3) == "runs"  # the first of all: none was missed
    machines.clock.move("5d")
    assert [machines.come(catch_up=3) for _ in range(4)] == ["runs"] * 3 + ["done"]
    machines.clock.move("2d")
    with coterie.sync.connect(machines.folder) as c:
        caught_up = machines.job(c, catch_up=3)(machines.note)
        caught_up()
        caught_up()
    days = [int(period[-2:]) for period, _ in machines.ran]
    assert days == [17, 20, 21, 22, 23, 24]


def test_what_failed_is_tried_again_before_what_was_missed_after_it(machines: Machines) -> None:
    options: dict[str, Any] = {"catch_up": 2, "attempts": 2}
    assert machines.come(fails=True, **options) == "fails"
    machines.clock.move("1d")
    assert [machines.come(**options) for _ in range(3)] == ["runs", "runs", "done"]
    assert machines.ran == [("2026-11-17", 1), ("2026-11-17", 2), ("2026-11-18", 1)]


@pytest.mark.parametrize("attempts", [1, 2])
def test_an_operator_has_it_run_again(machines: Machines, attempts: int) -> None:
    async def again() -> OnceRecord:
        async with coterie.connect(machines.folder) as c:
            return await order_again(c, "nightly", 0.0)

    for outcome in ("done", "failed", "interrupted"):
        machines.clock.move("1d")
        for _ in range(attempts):
            if outcome == "interrupted":
                machines.interrupted(attempts=attempts)
            else:
                machines.come(fails=outcome == "failed", attempts=attempts)
        ran = len(machines.ran)
        assert machines.come(attempts=attempts) not in ("runs", "fails")
        assert asyncio.run(again()).period == machines.ran[-1][0]
        assert [machines.come(attempts=attempts), machines.come(attempts=attempts)] == [
            "runs",
            "done",
        ]
        assert machines.ran[ran:] == [(machines.ran[-1][0], 1)]
        assert machines.states()[-3:] == [outcome, "again", "done"]


@in_loop
async def test_an_operator_needs_the_lock(tmp_path: Path) -> None:
    async with coterie.connect(tmp_path) as ann, coterie.connect(tmp_path) as bob:
        with pytest.raises(coterie.UsageError, match="no run of 'nightly' is recorded"):
            await order_again(bob, "nightly", 0.0)
        async with ann.once("nightly", "2026-11-17"):
            with pytest.raises(coterie.AcquireTimeout):
                await order_again(bob, "nightly", 0.0)


@pytest.mark.parametrize(
    "times",
    [
        # 02:30 is left out on the 29th: cron starts the job at 03:00, another timer at 03:30
        ["2026-03-28T02:30+01:00", "2026-03-29T03:00+02:00", "2026-03-30T02:30+02:00"],
        ["2026-03-28T02:30+01:00", "2026-03-29T03:30+02:00", "2026-03-30T02:30+02:00"],
        # it comes twice on the 25th
        ["2026-10-24T02:30+02:00", "2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00"],
        ["2026-10-24T02:30+02:00", "2026-10-25T02:30+01:00", "2026-10-26T02:30+01:00"],
    ],
)
def test_each_night_runs_once_where_clocks_are_set(machines: Machines, times: list[str]) -> None:
    for time in times:
        machines.clock.set(time)
        assert [machines.come(at="02:30"), machines.come(60, at="02:30")] == ["runs", "done"]
    machines.clock.move("1h")
    assert machines.come(at="02:30") == "done"
    assert [period for period, _ in machines.ran] == [time[:10] for time in times]


# What a program meets


@in_loop
async def test_a_task_meets_a_run_as_it_meets_a_lock(tmp_path: Path) -> None:
    async with coterie.connect(tmp_path) as c:

        @c.once("nightly", every="1d")
        async def nightly(run: coterie.Run, to: str) -> str:
            assert coterie.current_token("nightly") == run.token == run.tokens["nightly"]
            assert run.valid
            run.ensure()
            return f"{run.name} {run.attempt} {to}"

        assert [await nightly("ann"), await nightly("ann")] == ["nightly 1 ann", None]
        assert list(inspect.signature(nightly).parameters) == ["to"], "as frameworks look"

        @c.once("hourly", every="1h")
        async def hourly(run: coterie.Run) -> None:
            raise KeyError(run.period)

        with pytest.raises(KeyError):
            await hourly()
        with pytest.raises(coterie.NotDue):
            await c.once("hourly", every="1h").__aenter__()
        await hourly()
        assert not await c.locked("hourly")
        with pytest.raises(coterie.UsageError, match="can decorate an `async def`"):
            c.once("a", every="1d")(lambda run: None)  # type: ignore[arg-type,return-value]


def test_a_thread_meets_a_run_as_it_meets_a_lock(tmp_path: Path) -> None:
    with coterie.sync.connect(tmp_path) as c:

        @c.once("nightly", every="1d")
        def nightly(run: coterie.sync.Run, to: str) -> str:
            assert coterie.current_token("nightly") == run.token == run.tokens["nightly"]
            assert run.valid
            assert not run.lost
            run.ensure()
            return f"{run.name} {run.attempt} {to}"

        assert [nightly("ann"), nightly("ann")] == ["nightly 1 ann", None]
        assert list(inspect.signature(nightly).parameters) == ["to"], "as frameworks look"

        async def hourly(run: coterie.sync.Run) -> None: ...

        with c.once("hourly", every="1h") as run:
            run.fail("half of it")
            with pytest.raises(coterie.MisuseError, match="has ended before"):
                run.finish()
        with pytest.raises(coterie.NotDue, match=r"has failed at .*: half of it"):
            c.once("hourly", every="1h").__enter__()
        with pytest.raises(coterie.UsageError, match="can decorate a `def`"):
            c.once("a", every="1d")(hourly)


@in_loop
async def test_a_task_that_is_cancelled_has_failed(tmp_path: Path) -> None:
    async with coterie.connect(tmp_path) as c:

        async def run_long() -> None:
            async with c.once("nightly", every="1d"):
                await asyncio.sleep(3600)

        running = asyncio.create_task(run_long())
        while not await c.read("nightly"):  # noqa: ASYNC110 - the job has no event for it
            await asyncio.sleep(0.001)
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        (view,) = await look(c, "nightly")
        assert (view.condition, view.record.last.status) == ("failed", "CancelledError")
        assert not await c.locked("nightly")


@in_loop
async def test_a_wait_that_is_cancelled_leaves_nothing_behind(tmp_path: Path) -> None:
    async with (
        coterie.connect(tmp_path) as ann,
        coterie.connect(tmp_path) as bob,
        ann.once("nightly", "1", attempts=2),
    ):
        waiting = asyncio.create_task(bob.once("nightly", "1", attempts=2).acquire())
        await one_waits(ann)
        waiting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await waiting
        assert not await ann.waiters("nightly")


def test_programs_that_disagree_are_named(machines: Machines) -> None:
    assert machines.come() == "runs"
    for options in ({"every": "2d"}, {"every": "1h", "zone": None}):
        with pytest.raises(coterie.UsageError, match=r"runs every 1d at .*:\d+, and is asked for"):
            machines.come(**options)
    with coterie.sync.connect(machines.folder) as c:
        with pytest.raises(coterie.UsageError, match="asked for by periods that are named by hand"):
            c.once("nightly", "2026-11-18").acquire()
        with c.once("manual", "2026-11-17"):
            pass
        for key in ("17.11.2026", "2026-11-7", "20261117"):
            with pytest.raises(coterie.UsageError, match="has not the shape of '2026-11-17'"):
                c.once("manual", key).acquire()
        with c.lock("text") as held:
            held.write(b"row 4711")
        with pytest.raises(coterie.UsageError, match="is no record of runs"):
            c.once("text", every="1d").acquire()
        assert not any(c.locked(name) for name in ("nightly", "manual", "text"))


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({}, "say either how long a period lasts"),
        ({"period": "1", "every": "1d"}, "say either how long a period lasts"),
        ({"period": "1", "at": "02:00"}, "go with every"),
        ({"period": "1", "catch_up": 2}, "go with every"),
        ({"every": "1d", "attempts": 0}, "attempts must be a number from 1"),
        ({"every": "1d", "catch_up": 0}, "catch_up must be a number from 1"),
        ({"every": "1d", "catch_up": 2, "only_within": "1h"}, "use one"),
        ({"every": "1d", "only_within": 0}, "only_within must be above 0"),
        ({"every": "1d", "timeout": -1}, "timeout must be"),
        ({"every": "1d", "name": ""}, "a lock name must have"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_asked_for(
    options: dict[str, Any], complaint: str, tmp_path: Path
) -> None:
    for c in (coterie.connect(tmp_path), coterie.sync.connect(tmp_path)):
        with pytest.raises(coterie.UsageError, match=complaint):
            c.once(**{"name": "nightly", **options})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("data", "kind", "complaint"),
    [
        (b'{"once":2,"runs":"otherwise"}', coterie.ConfigError, "by a later version of coterie"),
        (
            b'{"once":1,"period":"1","starts":1,"since":0,"runs":[]}',
            coterie.UsageError,
            "no record",
        ),
        (b'{"period":"1"}', coterie.UsageError, "no record"),
        (RECORD % (b"1" * 400, b"1"), coterie.UsageError, "no record"),
        (RECORD % (b"1", b"1" * 400), coterie.UsageError, "no record"),
        (RECORD % (b"1", b"-1"), coterie.UsageError, "no record"),
        (b"\xff", coterie.UsageError, "no record"),
    ],
)
def test_what_is_no_record_of_ours_is_left_alone(
    data: bytes, kind: type[Exception], complaint: str
) -> None:
    with pytest.raises(kind, match=complaint):
        decode("nightly", data)


def test_a_record_stays_small(machines: Machines) -> None:
    for day in range(30):
        machines.come(fails=day % 2 == 0)
        machines.clock.move("1d")
    record = machines.record()
    assert len(record.runs) <= 16
    assert record.counts == {"failed": 15, "done": 15}
    assert record.last.period == "2026-12-16"
    with coterie.sync.connect(machines.folder) as c:
        value = c.read("nightly")
        assert value is not None
        assert len(value.data) <= 4096


@in_loop
async def test_operators_see_all_jobs(tmp_path: Path) -> None:
    with WallClock("2026-11-17 02:00", BERLIN) as clock:
        async with coterie.connect(tmp_path) as c:
            async with c.once("done", every="1d", at="02:00", zone=BERLIN):
                pass
            async with c.lock("text") as held:
                await held.write(b"row 4711")
            async with c.once("running", "2026-11-17"):
                found = await look(c)
            assert [(each.name, each.condition) for each in found] == [
                ("done", "done"),
                ("running", "running"),
            ]
            assert [each.next_begin for each in found] == [clock.wall() + 86400, None]
            assert not found[0].is_overdue
            clock.move("25h")
            assert (await look(c, "done"))[0].is_overdue


# Servers that are away for a moment


class Outages(ValueMemory):
    """Answers each other call with an error, and carries out a write or not before that."""

    def __init__(self, *, carries_out: bool) -> None:
        super().__init__()
        self.carries_out = carries_out
        self.calls = 0
        self.lease_seconds = 60.0

    def fail(self) -> None:
        self.calls += 1
        if self.calls % 2:
            raise coterie.Unavailable("the server does not answer")

    async def read_value(self, name: str, claim: MemoryClaim | None = None) -> coterie.Value | None:
        if claim is not None:
            self.fail()
        return await super().read_value(name, claim)

    async def write_value(
        self, claim: MemoryClaim, sequence: int, data: bytes | None
    ) -> coterie.Value | None:
        if self.carries_out:
            await super().write_value(claim, sequence, data)
        self.fail()
        return await super().write_value(claim, sequence, data)


@pytest.mark.parametrize("carries_out", [True, False])
@in_loop
async def test_a_record_is_written_again_while_the_hold_lasts(
    carries_out: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(once, "RETRY_SECONDS", 0.0)
    engine = Outages(carries_out=carries_out)
    async with coterie.Coordinator(engine, "memory:") as c:
        async with c.once("nightly", "1", attempts=2) as run:
            assert run.attempt == 1
        assert engine.calls == 6
        record = decode("nightly", engine.records["nightly"].data or b"")
        assert (record.starts, record.last.state, len(record.runs)) == (1, "done", 1)


@in_loop
async def test_a_record_is_not_written_any_more_when_the_lease_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(once, "RETRY_SECONDS", 3600.0)  # more than the lease
    engine = Outages(carries_out=False)
    engine.calls = 1  # the first read succeeds
    async with coterie.Coordinator(engine, "memory:") as c:
        with pytest.raises(coterie.Unavailable):
            await c.once("nightly", "1").acquire()
        assert not await c.locked("nightly")


# Programs that are killed: `python -m tests.locks.once_kills 50` kills many more, before each line, and on servers


@pytest.mark.parametrize("attempts", [1, 2])
def test_programs_that_are_killed_in_each_step(tmp_path: Path, attempts: int) -> None:
    killed = subprocess.run(
        [sys.executable, "-m", "tests.locks.once_kills", "--some", str(attempts), str(tmp_path)],
        check=True,
        stdout=subprocess.PIPE,
    )
    assert int(killed.stdout) >= 7
