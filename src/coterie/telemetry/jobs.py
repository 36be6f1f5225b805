"""Figures of jobs that run once per period, as one program knows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.telemetry.text import Metric, Sample

if TYPE_CHECKING:
    from coterie.telemetry.observer import JobState, RunEnd


class JobFigures:
    """One job: what this program has run of it, and what it last saw in the record."""

    def __init__(self) -> None:
        """Begin at zero."""
        self.starts = 0  # by this program
        self.ends: dict[RunEnd, int] = {"done": 0, "failed": 0}  # of these
        self.seen: JobState | None = None


def job_metrics(jobs: dict[str, JobFigures]) -> list[Metric]:
    """Return the figures of all jobs, by their names."""
    starts = [Sample({"name": name}, job.starts) for name, job in jobs.items()]
    ends = [
        Sample({"name": name, "state": state}, count)
        for name, job in jobs.items()
        for state, count in job.ends.items()
    ]
    seen = [job.seen for job in jobs.values() if job.seen is not None]
    attempts = [Sample({"name": job.name}, job.starts) for job in seen]
    successes = [Sample({"name": job.name}, job.success) for job in seen]
    periods = [Sample({"name": job.name}, job.every) for job in seen if job.every is not None]
    return [
        Metric("coterie_job_starts_total", "counter", "Runs that this program has begun.", starts),
        Metric("coterie_job_ends_total", "counter", "Runs of this program that ended.", ends),
        Metric("coterie_job_attempts", "gauge", "Starts of the latest period seen.", attempts),
        Metric(
            "coterie_job_last_success_seconds",
            "gauge",
            "When the last run ended that ended well, as last seen, in seconds since 1970.",
            successes,
        ),
        Metric("coterie_job_every_seconds", "gauge", "Length of a period.", periods),
    ]
