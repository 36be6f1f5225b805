"""Durations as people write them: 5, 5s, 250ms, 2m, 1h."""

from __future__ import annotations

import re

from coterie.errors import UsageError

UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
PATTERN = re.compile(r"(\d+(?:\.\d+)?|\.\d+)(ms|s|m|h|)")


def duration(text: str) -> float:
    """Read a duration into seconds."""
    match = PATTERN.fullmatch(text)
    if match is None:
        raise UsageError(f"{text!r} is no duration; write it like 5, 5s, 250ms or 2m")
    return float(match[1]) * UNITS[match[2]]
