"""Days and times of day in time zones: which moment they are, and the other way round.

Nothing here reads a clock: a moment is given, in seconds since 1970.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from coterie.errors import UsageError

if TYPE_CHECKING:
    from datetime import tzinfo

SECOND = timedelta(seconds=1)


def check_zone(name: str | None) -> tzinfo:
    """Return a time zone by its name, UTC for None; raise `UsageError` if this machine knows none of that name."""
    if name is None:
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UsageError(
            f"unknown time zone {name!r}: expected a name such as Europe/Berlin or UTC. Where the system has no"
            " time zones, pip install tzdata"
        ) from None


def moment(day: int, seconds: int, zone: tzinfo) -> float:
    """Return when it is this time of day on this day, counted from 1 January of year 1, which is day 1.

    A time that comes twice, as clocks are set back, is the first one. A time that is skipped, as they are set forward,
    is the moment in which they are.
    """
    wanted = datetime.combine(date.fromordinal(day), datetime.min.time(), zone) + timedelta(
        seconds=seconds
    )
    # In a gap the first reading counts by the offset before it, and so comes after it; the second one before.
    first, second = (wanted.replace(fold=fold).astimezone(UTC) for fold in (0, 1))
    if second >= first:
        return first.timestamp()
    return _jump(second, first, zone)


def _jump(before: datetime, after: datetime, zone: tzinfo) -> float:
    """Return when clocks are set forward, between two moments."""
    offset = before.astimezone(zone).utcoffset()
    while after - before > SECOND:
        middle = before + (after - before) // 2
        middle = middle.replace(microsecond=0)
        if middle.astimezone(zone).utcoffset() == offset:
            before = middle
        else:
            after = middle
    return after.timestamp()


def day_of(at: float, zone: tzinfo) -> int:
    """Return the day that it is at a moment."""
    return datetime.fromtimestamp(at, zone).toordinal()


def day_name(day: int) -> str:
    """Return a day as 2026-11-17."""
    return date.fromordinal(day).isoformat()


def day_named(name: str) -> int:
    """Return the day of a name; raise `ValueError` if it is none."""
    return date.fromisoformat(name).toordinal()


def moment_name(at: float) -> str:
    """Return a moment as 2026-11-17T02:00:00Z."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%S}Z"


def moment_named(name: str) -> float:
    """Return the moment of a name; raise `ValueError` if it is none."""
    return datetime.strptime(name, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp()


def local_name(at: float, zone: tzinfo) -> str:
    """Return a moment as people of a zone write it: 2026-11-17 02:00 CET."""
    return f"{datetime.fromtimestamp(at, zone):%Y-%m-%d %H:%M %Z}"
