"""APScheduler: a job that every machine has in its schedule, and that one of them runs in each period.

add_once_job(scheduler, c, report, "nightly", every="1d", at="02:00", zone="Europe/Berlin")
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from apscheduler.triggers.base import BaseTrigger

from coterie.locks.once.period import Schedule

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
    due, because another machine runs it, the job returns None. Keep it in a job store of the memory: each machine adds
    it as it starts.
    """
    schedule = Schedule(every, at, zone)
    decorate: Any = c.once(name, every=every, at=at, zone=zone, attempts=attempts)
    return scheduler.add_job(
        decorate(function),
        PeriodTrigger(schedule),
        id=name,
        name=name,
        coalesce=True,  # of periods that were missed the newest runs
        # A machine that wakes up late still comes for its period, while that lasts.
        misfire_grace_time=max(1, int(schedule.every - 2 * schedule.slack)),
    )


class PeriodTrigger(BaseTrigger):  # type: ignore[misc] # APScheduler has no types
    """Fires as each period begins, also where clocks are set: a week is not always of the same length."""

    def __init__(self, schedule: Schedule) -> None:
        """Follow a schedule."""
        self._schedule = schedule

    def __str__(self) -> str:
        """Show the schedule, as lists of jobs do."""
        return str(self._schedule)

    def get_next_fire_time(
        self, previous_fire_time: datetime | None, now: datetime
    ) -> datetime | None:
        """Return the beginning of the next period, later than the one before."""
        period = self._schedule.period_at(now.timestamp())
        while period.begin < now.timestamp() or (
            previous_fire_time is not None and period.begin <= previous_fire_time.timestamp()
        ):
            period = self._schedule.next(period)
        return datetime.fromtimestamp(period.begin, UTC)
