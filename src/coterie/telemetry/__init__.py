"""What a program can be told about its own locks: as figures, or as spans of a trace."""

from coterie.telemetry.metrics import Metrics
from coterie.telemetry.observer import HoldObserver, Observer, Outcome
from coterie.telemetry.spans import Spans

__all__ = ["HoldObserver", "Metrics", "Observer", "Outcome", "Spans"]
