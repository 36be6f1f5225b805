"""APScheduler: a job that every machine has in its schedule, and that one of them runs in each period.

add_once_job(scheduler, c, report, "nightly", every="1d", at="02:00", zone="Europe/Berlin")
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.interval import IntervalTrigger

from coterie.locks.once.period import DAY, Schedule

if TYPE_CHECKING:
    from collections.abc import Callable

    from apscheduler.job import Job
    from apscheduler.schedulers.base import BaseScheduler

    import coterie
    import coterie.sync


def add_once_job(
    scheduler: BaseScheduler,
    c: coterie.Coordinator | coterie.sync.Coordinator,
    function: Callable[..., Any],
    name: str,
    *,
    every: float | str = "1d",
    at: str | None = None,
    zone: str | None = None,
    attempts: int = 1,
) -> Job:
    """Add a job to the schedule of this machine that runs at the beginning of each period, once among all machines.

    The function gets the run as its first argument. For an `AsyncIOScheduler` and an `async def`, take the coordinator
    from `coterie.connect`, else from `coterie.sync.connect`. It is open as long as the scheduler runs. Where a period is not
    due, because another machine runs it, the job returns None.
    """
    schedule = Schedule(every, at, zone)
    decorate: Any = c.once(name, every=every, at=at, zone=zone, attempts=attempts)
    return scheduler.add_job(
        decorate(function),
        _trigger(schedule),
        id=name,
        name=name,
        coalesce=True,  # of periods that were missed the newest runs
        # A machine that wakes up late still comes for its period, while that lasts.
        misfire_grace_time=max(1, int(schedule.every - 2 * schedule.slack)),
    )


def _trigger(schedule: Schedule) -> Any:
    """Return what fires at the beginning of each period."""
    if schedule.every == DAY:
        hours, minutes, seconds = ([*(schedule.at or "00:00").split(":"), "0"])[:3]
        return CronTrigger(
            hour=hours, minute=minutes, second=seconds, timezone=schedule.zone or "UTC"
        )
    begin = schedule.period_at(datetime.now(UTC).timestamp()).begin
    return IntervalTrigger(
        seconds=schedule.every, start_date=datetime.fromtimestamp(begin, UTC), timezone=UTC
    )
