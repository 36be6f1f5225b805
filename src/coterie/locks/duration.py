"""Durations as people write them: 5, 5s, 250ms, 2m, 1h, 1d, 2w."""

from __future__ import annotations

import re

from coterie.errors import UsageError

UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
PATTERN = re.compile(r"(\d+(?:\.\d+)?|\.\d+)(ms|s|m|h|d|w|)")


def duration(text: str) -> float:
    """Return a duration in seconds."""
    match = PATTERN.fullmatch(text)
    if match is None:
        raise UsageError(f"expected a duration such as 5, 5s, 250ms, 2m or 1d, got {text!r}")
    return float(match[1]) * UNITS[match[2]]


def is_number(given: object) -> bool:
    """Return whether this is a number, whatever its type was said to be."""
    return isinstance(given, int | float)


def spelled(seconds: float) -> str:
    """Return a duration as it would be written, in the largest unit of which it is a whole number."""
    for unit in ("w", "d", "h", "m", "s"):
        count, rest = divmod(seconds, UNITS[unit])
        if count and not rest:
            return f"{count:g}{unit}"
    return f"{seconds:g}s"
