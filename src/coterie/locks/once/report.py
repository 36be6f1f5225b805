"""What operators see and do of jobs that run once per period: all records of a URL, and the orders to run again and to forget."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from coterie import system
from coterie.errors import UsageError
from coterie.locks.internals import engine_of, opened_to_look
from coterie.locks.names import check_name
from coterie.locks.once.period import Schedule
from coterie.locks.once.record import OnceRecord, decode, encode
from coterie.system import calendar
from coterie.telemetry.text import Metric, Sample, render

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.locks.coordinator import Coordinator
    from coterie.locks.engine import Engine
    from coterie.locks.value import Value, ValueEngine

Condition: TypeAlias = Literal["running", "done", "failed", "interrupted", "again"]


class JobView(msgspec.Struct, frozen=True):
    """A job, by its record and by who holds its lock."""

    name: str
    condition: Condition  # of the latest period
    next_begin: (
        float | None
    )  # when the period after the latest one begins; None: periods are named by hand
    doubtful: bool  # a later record may have been lost, with its servers
    record: OnceRecord

    @property
    def is_overdue(self) -> bool:
        """Whether a later period has begun, and no program has come for it."""
        return self.next_begin is not None and self.next_begin < system.wall()

    @property
    def is_bad(self) -> bool:
        """Whether an operator has to look at it."""
        return self.is_overdue or self.condition in ("failed", "interrupted")


def schedule_of(record: OnceRecord) -> Schedule | None:
    """Return the schedule of a record; None if its periods are named by hand."""
    if record.every is None:
        return None
    return Schedule(record.every, record.at, record.zone)


def local(record: OnceRecord, moment: float) -> str:
    """Return a moment as people of the job's time zone write it."""
    zone = record.zone
    with contextlib.suppress(UsageError):
        return calendar.local_name(moment, calendar.check_zone(zone))
    return calendar.moment_name(moment)


async def look(coordinator: Coordinator, name: str | None = None) -> list[JobView]:
    """Return all jobs by their names, or one; raise `UsageError` if there is no record of that."""
    async with opened_to_look(coordinator) as values:
        found = await _records(values, name)
        return [
            await _view(engine_of(coordinator), values, each, value, record)
            for each, (value, record) in sorted(found.items())
        ]


async def _records(values: ValueEngine, name: str | None) -> dict[str, tuple[Value, OnceRecord]]:
    """Return the records of all jobs by their names, or that of one."""
    if name is not None:
        value = await values.read_value(check_name(name))
        if value is None:
            raise _never_run(name)
        return {name: (value, decode(name, value.data))}
    records = {}
    for each, value in (await values.all_values()).items():
        with contextlib.suppress(UsageError):  # it is a value of another program
            records[each] = value, decode(each, value.data)
    return records


def _never_run(name: str) -> UsageError:
    return UsageError(f"no run of {name!r} is recorded at this URL")


async def order_again(coordinator: Coordinator, name: str, wait: float) -> OnceRecord:
    """Have the latest period of a job run again; return its record. Raise `AcquireTimeout` while it runs."""
    async with coordinator.lock(name, timeout=wait) as held:
        value = await held.read()
        if value is None:
            raise _never_run(name)
        process = engine_of(coordinator).waits.process
        record = decode(name, value.data).again(held.token, process, system.wall())
        await held.write(encode(record))
        return record


def figures(views: Sequence[JobView]) -> str:
    """Return the figures of jobs in the text format of Prometheus, for an alert on a job that does not run."""
    runs, succeeded, periods, running = [], [], [], []
    for view in views:
        labels, record = {"name": view.name}, view.record
        counts = dict(record.counts)
        if view.condition == "interrupted":
            counts["interrupted"] = counts.get("interrupted", 0) + 1
        runs += [Sample({**labels, "state": state}, counts[state]) for state in sorted(counts)]
        running.append(Sample(labels, view.condition == "running"))
        # A job that has never succeeded is as old as its first run.
        succeeded.append(Sample(labels, record.success or record.since))
        if record.every is not None:
            periods.append(Sample(labels, record.every))
    metrics = [
        Metric("coterie_once_runs_total", "counter", "Runs that have ended, by their end.", runs),
        Metric("coterie_once_running", "gauge", "Whether a run goes on.", running),
        Metric(
            "coterie_once_last_success_seconds",
            "gauge",
            "When the last run ended that ended well, in seconds since 1970.",
            succeeded,
        ),
        Metric("coterie_once_every_seconds", "gauge", "Length of a period.", periods),
    ]
    return render(metrics)


async def forget(coordinator: Coordinator, name: str, wait: float) -> None:
    """Delete the record of a job; raise `AcquireTimeout` while it runs."""
    async with coordinator.lock(name, timeout=wait) as held:
        value = await held.read()
        if value is None:
            raise _never_run(name)
        decode(name, value.data)  # the value of another program is left alone
        await held.delete()


async def _view(
    engine: Engine, values: ValueEngine, name: str, value: Value, record: OnceRecord
) -> JobView:
    condition: Condition = "running" if record.last.state == "started" else record.last.state
    if condition == "running":
        holders = await engine.holders(name)
        if all(party.token != record.last.token for party in holders):
            # It may have ended well between the two looks.
            again = await values.read_value(name)
            if again is not None and again.version != value.version:
                return await _view(engine, values, name, again, decode(name, again.data))
            condition = "interrupted"
    begin = None
    with contextlib.suppress(UsageError):  # a time zone that is unknown here
        schedule = schedule_of(record)
        begin = None if schedule is None else schedule.period_of(record.period).end
    return JobView(name, condition, begin, value.doubtful, record)
