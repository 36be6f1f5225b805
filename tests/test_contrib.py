"""Jobs that run once per period, in Celery, APScheduler and Django themselves."""

from __future__ import annotations

import asyncio
import io
import queue
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import coterie
import coterie.sync

if TYPE_CHECKING:
    from coterie.testing import WallClock

BOUND_SECONDS = 20

pytestmark = pytest.mark.usefixtures("coterie_file")


def test_a_task_of_celery_runs_once_a_night(coterie_clock: WallClock) -> None:
    from celery import Celery  # noqa: PLC0415 - takes long to import
    from celery.contrib.testing.worker import start_worker  # noqa: PLC0415 - as above

    from coterie.contrib.celery import OnceTask  # noqa: PLC0415 - as above

    app = Celery("shop", broker="memory://", backend="cache+memory://")
    app.conf.broker_transport_options = {"polling_interval": 0.01}

    @app.task(base=OnceTask, bind=True, every="1d", at="02:00", name="report")  # type: ignore[untyped-decorator]
    def report(self: OnceTask, to: str) -> str:
        assert self.request.id
        assert coterie.current_token() == self.once_run.token
        return f"{self.once_run.period} {to}"

    @app.task(base=OnceTask, every="1h", attempts=2, name="fails")  # type: ignore[untyped-decorator]
    def fails() -> None:
        raise KeyError("it fails")

    coterie_clock.set("2026-11-17 02:00")
    with start_worker(app, pool="solo", perform_ping_check=False):
        sent = [report.delay("ann") for _ in range(3)]
        found = [each.get(BOUND_SECONDS, interval=0.01) for each in sent]
        assert found == ["2026-11-17 ann", None, None]
        coterie_clock.move("1d")
        assert report.delay("bob").get(BOUND_SECONDS, interval=0.01) == "2026-11-18 bob"
        for _ in range(2):
            with pytest.raises(KeyError):
                fails.delay().get(BOUND_SECONDS, interval=0.01)
        assert fails.delay().get(BOUND_SECONDS, interval=0.01) is None


def test_a_job_of_apscheduler_runs_once_among_machines() -> None:
    from apscheduler.events import EVENT_JOB_EXECUTED, JobExecutionEvent  # noqa: PLC0415 - as above
    from apscheduler.schedulers.background import BackgroundScheduler  # noqa: PLC0415 - as above

    from coterie.contrib.apscheduler import add_once_job  # noqa: PLC0415 - as above

    ran: list[str] = []
    ended: queue.Queue[str] = queue.Queue()

    def note(event: JobExecutionEvent) -> None:
        ended.put(event.job_id)

    with coterie.sync.connect() as c:
        schedulers = [BackgroundScheduler(timezone=UTC) for _ in range(2)]
        for scheduler in schedulers:
            job = add_once_job(
                scheduler, c, lambda run: ran.append(run.period), "often", every="1h"
            )
            scheduler.add_listener(note, EVENT_JOB_EXECUTED)
            scheduler.start()
            job.modify(next_run_time=datetime.now(UTC))
        try:
            assert [ended.get(timeout=BOUND_SECONDS) for _ in schedulers] == ["often"] * 2
        finally:
            for scheduler in schedulers:
                scheduler.shutdown()
    assert len(ran) == 1


def test_an_async_job_of_apscheduler_runs_once_too() -> None:
    from apscheduler.schedulers.asyncio import AsyncIOScheduler  # noqa: PLC0415 - as above

    from coterie.contrib.apscheduler import add_once_job  # noqa: PLC0415 - as above

    async def main() -> str:
        ran: asyncio.Queue[str] = asyncio.Queue()

        async def work(run: coterie.Run) -> None:
            await ran.put(run.name)

        async with coterie.connect() as c:
            scheduler = AsyncIOScheduler(timezone=UTC)
            job = add_once_job(scheduler, c, work, "often", every="1h")
            scheduler.start()
            job.modify(next_run_time=datetime.now(UTC))
            async with asyncio.timeout(BOUND_SECONDS):
                name = await ran.get()
            scheduler.shutdown()
        return name

    assert asyncio.run(main()) == "often"


@pytest.mark.parametrize(
    ("options", "times"),
    [
        ({"every": "1d"}, ["2026-11-17T00:00Z", "2026-11-18T00:00Z", "2026-11-19T00:00Z"]),
        ({"every": "6h", "at": "02:00"}, ["2026-11-17T02:00Z", "2026-11-17T08:00Z"]),
        (
            {"every": "1d", "at": "02:30", "zone": "Europe/Berlin"},
            ["2026-03-28T02:30+01:00", "2026-03-29T03:00+02:00", "2026-03-30T02:30+02:00"],
        ),
        (
            {"every": "1w", "at": "02:00", "zone": "Europe/Berlin"},
            ["2026-10-19T02:00+02:00", "2026-10-26T02:00+01:00", "2026-11-02T02:00+01:00"],
        ),
    ],
)
def test_its_trigger_fires_as_each_period_begins(options: dict[str, Any], times: list[str]) -> None:
    from coterie.contrib.apscheduler import PeriodTrigger  # noqa: PLC0415 - as above
    from coterie.locks.once.period import Schedule  # noqa: PLC0415 - as above

    trigger = PeriodTrigger(Schedule(**options))
    expected = [datetime.fromisoformat(time) for time in times]
    before, now = None, expected[0] - timedelta(minutes=1)
    for time in expected:
        before = trigger.get_next_fire_time(before, now)
        assert before == time
        now = time


def test_a_command_of_django_runs_once() -> None:
    import django  # noqa: PLC0415 - configured first
    from django.conf import settings  # noqa: PLC0415 - as above
    from django.core.management import CommandError, call_command  # noqa: PLC0415 - as above

    from coterie.contrib.django.management.commands.once import Command  # noqa: PLC0415 - as above

    if not settings.configured:
        settings.configure()
    django.setup()
    asked = ("nightly", "--period", "2026-11-17", "--attempts", "2")
    printed = io.StringIO()
    for command in (("no-such-command",), ("diffsettings", "--all"), ("no-such-command",)):
        try:
            call_command(Command(stderr=printed), *asked, "--verbosity", "2", "--", *command)
        except CommandError:
            assert command == ("no-such-command",)
    assert "period 2026-11-17 is done" in printed.getvalue()
    with coterie.sync.connect() as c:
        value = c.read("nightly")
        assert value is not None
        assert b'"starts":2' in value.data
    with pytest.raises(CommandError, match="required: command"):
        call_command(Command(), "nightly", "--every", "1d")
    with pytest.raises(CommandError, match="asked for every 1d here") as refused:
        call_command(Command(), "nightly", "--every", "1d", "--", "check")
    assert refused.value.returncode == 64
