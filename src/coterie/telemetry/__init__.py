"""What a program can be told about its own locks: as figures, or as spans of a trace."""

from coterie.telemetry.metrics import Metrics
from coterie.telemetry.observer import (
    HoldObserver,
    JobObserver,
    JobState,
    Observer,
    Outcome,
    RunEnd,
)
from coterie.telemetry.spans import Spans

__all__ = [
    "HoldObserver",
    "JobObserver",
    "JobState",
    "Metrics",
    "Observer",
    "Outcome",
    "RunEnd",
    "Spans",
]
