"""Figures of the locks of a program, whatever grants them."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import TYPE_CHECKING, get_args

from coterie import system
from coterie.telemetry.histogram import Histogram
from coterie.telemetry.jobs import JobFigures, job_metrics
from coterie.telemetry.observer import Outcome
from coterie.telemetry.text import counter, gauge, histogram, render

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.telemetry.observer import JobState, RunEnd


class Metrics:
    """Counts what happens to the locks of a program: `coterie.connect(url, observers=[metrics])`.

    One object may serve several coordinators, and any thread may read it at any time.
    """

    def __init__(self) -> None:
        """Begin at zero."""
        self._mutex = threading.Lock()
        self.waits: dict[Outcome, Histogram] = {
            outcome: Histogram() for outcome in get_args(Outcome)
        }
        self.holds = Histogram()  # that have ended
        self.held = 0  # now
        self.losses = 0
        self.jobs: defaultdict[str, JobFigures] = defaultdict(JobFigures)  # by their names

    def obtained(self, name: str, token: int, *, shared: bool, wait_seconds: float) -> CountedHold:
        """Count a lock that is held now."""
        with self._mutex:
            self.waits["obtained"].add(wait_seconds)
            self.held += 1
        return CountedHold(self._end)

    def missed(self, name: str, outcome: Outcome, *, shared: bool, wait_seconds: float) -> None:
        """Count a request that ended without the lock."""
        with self._mutex:
            self.waits[outcome].add(wait_seconds)

    def _end(self, seconds: float, lost: bool) -> None:
        with self._mutex:
            self.holds.add(seconds)
            self.held -= 1
            self.losses += lost

    def job_seen(self, job: JobState) -> None:
        """Remember what is recorded of a job."""
        with self._mutex:
            self.jobs[job.name].seen = job

    def run_began(self, name: str) -> None:
        """Count a run that has begun."""
        with self._mutex:
            self.jobs[name].starts += 1

    def run_ended(self, name: str, end: RunEnd) -> None:
        """Count a run whose end is recorded."""
        with self._mutex:
            self.jobs[name].ends[end] += 1

    def text(self) -> str:
        """Return the figures in the text format of Prometheus, for a page `/metrics` of the program."""
        with self._mutex:
            waits = [({"outcome": outcome}, waited) for outcome, waited in self.waits.items()]
            metrics = [
                gauge("client_held", "Locks that this program holds.", self.held),
                counter("client_losses", "Locks lost while held.", self.losses),
                histogram("client_wait_seconds", "How long requests took, by their end.", waits),
                histogram("client_hold_seconds", "How long locks were held.", [({}, self.holds)]),
                *job_metrics(self.jobs),
            ]
        return render(metrics)


class CountedHold:
    """One hold that goes on."""

    __slots__ = ("_began", "_count")

    def __init__(self, count: Callable[[float, bool], object]) -> None:
        """Begin now; `count` is called with the seconds that it took, and whether it was lost."""
        self._count = count
        self._began = system.monotonic()

    def end(self, *, lost: bool) -> None:
        """Count it."""
        self._count(system.monotonic() - self._began, lost)
