"""What the dashboard shows of jobs that run once per period: of each the latest runs, a square for each with its fate."""

from __future__ import annotations

import asyncio
import time

import msgspec

from coterie.errors import CoterieError
from coterie.locks.coordinator import connect
from coterie.locks.once import report
from coterie.locks.once.record import RunRecord

SECONDS = 10.0  # between two looks, which open a connection each


class JobRow(msgspec.Struct, frozen=True):
    """A job, by its record."""

    name: str
    condition: report.Condition
    next_begin: float | None  # None: periods are named by hand
    is_overdue: bool
    runs: tuple[RunRecord, ...]


class JobBoard:
    """Looks at the records of jobs, at most once in a while, however many pages ask."""

    def __init__(self, url: str) -> None:
        """Remember where to look."""
        self._url = url
        self._turn = asyncio.Lock()
        self._looked_at = -SECONDS
        self._jobs: list[JobRow] = []

    async def jobs(self) -> list[JobRow]:
        """Return all jobs; none where no values are kept, and where no server answers, as the rest of the page says."""
        async with self._turn:
            if time.monotonic() >= self._looked_at + SECONDS:
                try:
                    self._jobs = [_job(view) for view in await report.look(connect(self._url))]
                except (CoterieError, OSError):
                    self._jobs = []
                self._looked_at = time.monotonic()
            return self._jobs


def _job(view: report.JobView) -> JobRow:
    runs = view.record.runs
    if view.condition == "interrupted":
        runs = (*runs[:-1], msgspec.structs.replace(runs[-1], state="interrupted"))
    return JobRow(view.name, view.condition, view.next_begin, view.is_overdue, runs)
