"""The clock that leases are counted on, an alarm that rings by it, and the one that numbers start from.

Leases need a clock that counts the time in which the machine sleeps: a holder that slept through
its lease must find it over. `time.monotonic` does not do that on Linux.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import functools
import logging
import math
import os
import sys
import time
from typing import TYPE_CHECKING

from coterie import system

if TYPE_CHECKING:
    from collections.abc import Callable

YEAR_2020 = 1_577_836_800
NUMBERS_PER_SECOND = 1 << 22  # below 2**53 until the year 2088
SOON_SECONDS = 0.001  # clocks of one machine that agree are no further apart
TFD_TIMER_ABSTIME = 1

logger = logging.getLogger("coterie.cluster")

now = system.now  # what leases are counted on
wall = system.wall  # where numbers start from
boot = system.boot  # the run of the machine, in which readings of `now` can be compared


def number() -> int:
    """Return a number that grows with the time of day, faster than tokens are used up.

    It is 0 before 2020: a clock that shows that was never set.
    """
    return max(0, int((wall() - YEAR_2020) * NUMBERS_PER_SECOND))


def error_borne(lease: float) -> float:
    """Return how far a time of day may be off where numbers rest on it: a second, or less.

    After a restart numbers go on two such errors and an interval above the time of day. That must be
    less than the abstention, or numbers would run away from the clock.
    """
    return min(1.0, lease / 4)


def passed(seconds: float) -> int:
    """Return by how much a logical clock that follows the time moves in so many seconds."""
    return max(0, int(seconds * NUMBERS_PER_SECOND))


class RunningClock:
    """Makes a logical clock that stands still between events follow the time as well.

    Between two readings it goes on by `NUMBERS_PER_SECOND`, as tokens are used up more slowly. All
    programs of a cluster go on from readings of the same nodes, so those that ask one after another
    get ages in that order, however long each of them had nothing to do. No time of day is involved,
    and nothing but the order of service depends on it: a program whose clock is wrong has another
    place in the queue than it should have.
    """

    def __init__(self) -> None:
        """Begin with 0."""
        self._number = 0
        self._read_at = now()

    def read(self, logical: int) -> int:
        """Return a number that is not below the logical clock, nor below any reading before."""
        time_now = now()
        self._number = max(logical, self._number + passed(time_now - self._read_at))
        self._read_at = time_now
        return self._number


class Alarm:
    """Wakes the event loop at a time of `now`, or as soon as the machine is awake after it.

    The timers of an event loop count only the time in which the machine is awake. After a sleep they
    ring late, by as much of the sleep as lay before them, while the leases of this process may be
    over: the user of a lock has to hear of its loss now, and not when a heartbeat would have been due.
    On Linux a timerfd on `CLOCK_BOOTTIME` rings as soon as the machine is awake. Elsewhere there is
    nothing of the kind.
    """

    def __init__(self, ring: Callable[[], None]) -> None:
        """Prepare; `ring` is called in the event loop that runs now."""
        self._ring = ring
        self._due = math.inf
        self._loop = asyncio.get_running_loop()
        self._descriptor = _timer()
        if self._descriptor is not None:
            try:
                self._loop.add_reader(self._descriptor, self._wake)
            except NotImplementedError:  # an event loop that is not of this machine
                os.close(self._descriptor)
                self._descriptor = None

    def set(self, due: float) -> None:
        """Ring at that time, unless it rings earlier anyway."""
        if due < self._due and self._descriptor is not None:
            self._due = due
            _set(self._descriptor, due)

    def close(self) -> None:
        """Ring no more."""
        if self._descriptor is not None:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None

    def _wake(self) -> None:
        if self._descriptor is None:
            return
        with contextlib.suppress(BlockingIOError):
            os.read(self._descriptor, 8)
        due, self._due = self._due, math.inf
        if now() < due - SOON_SECONDS:
            self.close()  # leases are not counted by the clock of this machine
        else:
            self._ring()


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _timer() -> int | None:
    """Return the descriptor of a timer that counts sleep, where there is one to be had."""
    if sys.platform != "linux" or ctypes.sizeof(ctypes.c_long) != 8:
        return None
    try:
        descriptor = _libc().timerfd_create(time.CLOCK_BOOTTIME, os.O_NONBLOCK | os.O_CLOEXEC)
    except (AttributeError, OSError):
        return None
    if descriptor < 0:
        logger.debug("no timer that counts sleep: %s", os.strerror(ctypes.get_errno()))
        return None
    return int(descriptor)


def _set(descriptor: int, due: float) -> None:
    seconds = max(0.0, due)
    whole = int(seconds)
    # No interval; a time of 0 would disarm it.
    nanoseconds = max(1, int((seconds - whole) * 1e9))
    value = (ctypes.c_long * 4)(0, 0, whole, nanoseconds)
    _libc().timerfd_settime(descriptor, TFD_TIMER_ABSTIME, ctypes.byref(value), None)
