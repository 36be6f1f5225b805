"""The clock that leases are counted on, and the one that numbers start from.

Leases need a clock that counts the time in which the machine sleeps: a holder that slept through
its lease must find it over. `time.monotonic` does not do that on Linux.
"""

from __future__ import annotations

import time
from pathlib import Path

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
YEAR_2020 = 1_577_836_800
NUMBERS_PER_SECOND = 1 << 22  # below 2**53 until the year 2088
_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


def now() -> float:
    """Give the seconds since some fixed instant, asleep or awake."""
    return time.monotonic() if _BOOTTIME is None else time.clock_gettime(_BOOTTIME)


def boot() -> str:
    """Name this run of the machine, in which readings of the clock can be compared; or empty."""
    try:
        return BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def wall() -> float:
    """Give the time of day, in seconds since 1970."""
    return time.time()


def number() -> int:
    """Give a number that grows with the time of day, faster than tokens are used up."""
    return int((wall() - YEAR_2020) * NUMBERS_PER_SECOND)


def error_borne(lease: float) -> float:
    """Tell how far a time of day may be off where numbers rest on it: a second, or less.

    After a restart numbers go on two such errors and an interval above the time of day. That must be
    less than the abstention, or numbers would run away from the clock.
    """
    return min(1.0, lease / 4)
