"""Durations on the command line: 5, 5s, 250ms, 2m, 1h."""

from __future__ import annotations

import re

from coterie.errors import UsageError

UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
PATTERN = re.compile(r"(\d+(?:\.\d+)?|\.\d+)(ms|s|m|h|)")


def duration(text: str) -> float:
    """Return a duration in seconds."""
    match = PATTERN.fullmatch(text)
    if match is None:
        raise UsageError(f"expected a duration such as 5, 5s, 250ms or 2m, got {text!r}")
    return float(match[1]) * UNITS[match[2]]
