"""An alarm that rings by the clock that leases are counted on."""

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

SOON_SECONDS = 0.001  # clocks of one machine that agree are no further apart
TFD_TIMER_ABSTIME = 1

logger = logging.getLogger("coterie")


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
        if system.now() < due - SOON_SECONDS:
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
        logger.debug(
            "no timer that counts sleep: %s",
            os.strerror(ctypes.get_errno()),
            extra={"event": "sleep-timer-missing"},
        )
        return None
    return int(descriptor)


def _set(descriptor: int, due: float) -> None:
    seconds = max(0.0, due)
    whole = int(seconds)
    # No interval; a time of 0 would disarm it.
    nanoseconds = max(1, int((seconds - whole) * 1e9))
    value = (ctypes.c_long * 4)(0, 0, whole, nanoseconds)
    _libc().timerfd_settime(descriptor, TFD_TIMER_ABSTIME, ctypes.byref(value), None)
