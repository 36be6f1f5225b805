"""What a coordinator tells about its locks, and to whom."""

from __future__ import annotations

from typing import Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

Outcome: TypeAlias = Literal["obtained", "busy", "timeout", "deadlock", "failed", "cancelled"]
"""How a request ended: with the lock; as a non-blocking attempt that failed; by its timeout; as the victim
of a deadlock; by another error; or because its task was cancelled or did not need it any more."""


class HoldObserver(Protocol):
    """Is told when one hold ends."""

    def end(self, *, lost: bool) -> None:
        """Take note of the end; `lost` if the lock was taken away before it was given back."""


class Observer(Protocol):
    """Is told of the locks of a program: in the thread that takes or gives back, so it must be quick.

    An error that it raises is logged, and changes nothing for the lock.
    """

    def obtained(self, name: str, token: int, *, shared: bool, wait_seconds: float) -> HoldObserver:
        """Take note of a lock that is held now; return what is to be told of its end."""

    def missed(self, name: str, outcome: Outcome, *, shared: bool, wait_seconds: float) -> None:
        """Take note of a request that ended without the lock."""


RunEnd: TypeAlias = Literal["done", "failed"]
"""How a run of a job ended."""


class JobState(NamedTuple):
    """What is recorded of a job that runs once per period."""

    name: str
    starts: int  # of the latest period
    success: float  # when the last run ended that ended well, in seconds since 1970; else when the first began
    every: int | None  # seconds of a period; None: periods are named by hand


@runtime_checkable
class JobObserver(Protocol):
    """An observer that is notified of jobs as well: those that this program runs, or tries to run."""

    def job_seen(self, job: JobState) -> None:
        """Take note of a record that was read or written."""

    def run_began(self, name: str) -> None:
        """Take note of a run that this program has begun."""

    def run_ended(self, name: str, end: RunEnd) -> None:
        """Take note of a run of this program whose end is recorded."""
