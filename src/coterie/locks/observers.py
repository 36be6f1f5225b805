"""The observers of one coordinator. Whatever they do, locks are granted and given back."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from coterie.telemetry.observer import HoldObserver, JobState, Observer, Outcome, RunEnd

logger = logging.getLogger("coterie.locks")


class Observers:
    """Tells them all; an error of one is logged, and costs neither the lock nor the others."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        """Tell these, in this order."""
        from coterie.telemetry.observer import JobObserver  # noqa: PLC0415 - not for programs without observers

        self._observers = tuple(observers)
        self._of_jobs = [each for each in observers if isinstance(each, JobObserver)]

    def obtained(self, name: str, token: int, *, shared: bool, wait_seconds: float) -> ObservedHold:
        """Tell them all that a lock is held."""
        holds = []
        for observer in self._observers:
            try:
                hold = observer.obtained(name, token, shared=shared, wait_seconds=wait_seconds)
                holds.append(hold)
            except Exception:
                logger.exception(
                    "%r failed to note that lock %r is held",
                    observer,
                    name,
                    extra={"event": "observer-failed"},
                )
        return ObservedHold(name, holds)

    def missed(self, name: str, outcome: Outcome, *, shared: bool, wait_seconds: float) -> None:
        """Tell them all that a request ended without the lock."""
        for observer in self._observers:
            missed = partial(observer.missed, name, outcome, shared=shared)
            _tell(
                observer, f"a request for lock {name!r}", partial(missed, wait_seconds=wait_seconds)
            )

    def job_seen(self, job: JobState) -> None:
        """Tell those that want to know of jobs what is recorded of one."""
        for observer in self._of_jobs:
            _tell(observer, f"the record of job {job.name!r}", partial(observer.job_seen, job))

    def run_began(self, name: str) -> None:
        """Tell them that a run has begun here."""
        for observer in self._of_jobs:
            _tell(observer, f"a run of job {name!r}", partial(observer.run_began, name))

    def run_ended(self, name: str, end: RunEnd) -> None:
        """Tell them that the end of a run is recorded."""
        for observer in self._of_jobs:
            _tell(observer, f"the end of job {name!r}", partial(observer.run_ended, name, end))


def _tell(observer: object, what: str, tell: Callable[[], object]) -> None:
    try:
        tell()
    except Exception:
        logger.exception("%r failed to note %s", observer, what, extra={"event": "observer-failed"})


class ObservedHold:
    """One hold, for all that want to know of its end."""

    __slots__ = ("_holds", "_name")

    def __init__(self, name: str, holds: list[HoldObserver]) -> None:
        """Remember what is to be told."""
        self._name = name
        self._holds = holds

    def end(self, *, lost: bool) -> None:
        """Tell them, once."""
        holds, self._holds = self._holds, []
        for hold in holds:
            try:
                hold.end(lost=lost)
            except Exception:
                logger.exception(
                    "%r failed to note the end of lock %r",
                    hold,
                    self._name,
                    extra={"event": "observer-failed"},
                )
