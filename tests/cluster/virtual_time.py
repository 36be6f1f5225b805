"""Time that passes only when nobody has anything to do, and a clock for each program of its own.

Nodes, programs and proxies run in one event loop over real sockets. Its time jumps to the next timer
as soon as nothing is ready, so a test of ten leases takes no longer than the work in them, and a slow
machine only makes it slower. Whoever is started in `owning` a clock counts leases by that one, as a
process on another machine would: tasks, timers and sockets keep the context in which they were made.
"""

from __future__ import annotations

import asyncio
import contextlib
import selectors
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, Any, TypeVar

from coterie import system
from coterie.cluster.runtime import host

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    import pytest

EPOCH = 1000.0
UNDER_WAY_SECONDS = 0.001  # for bytes that the kernel has and the other end has not
TURN_SECONDS = 1e-6  # that a turn of the loop takes, so that no timer rings at one instant for ever
SHORT_SECONDS = 0.05  # bytes that come so much later in virtual time have been a little slow
BUSY_SECONDS_MAX = 100.0  # of virtual time: a run that takes longer is stuck

Result = TypeVar("Result")


class Clock:
    """Shows `rate` times what passes; can be made to jump, and to stand still."""

    def __init__(self, rate: float = 1.0) -> None:
        self._shown = EPOCH
        self._since = EPOCH
        self._rate = rate
        self._alarms: list[Callable[[], None]] = []

    def read(self, time: float) -> float:
        return self._shown + (time - self._since) * self._rate

    def run(self, rate: float) -> None:
        """Run at another rate from now on; 0 stands still."""
        time = asyncio.get_running_loop().time()
        self._shown, self._since, self._rate = self.read(time), time, rate

    def jump(self, seconds: float) -> None:
        """Count time in which the machine sleeps: its timers do not, but for its alarms."""
        self._shown += seconds
        for check in self._alarms:
            check()

    def at_jumps(self, check: Callable[[], None]) -> None:
        self._alarms.append(check)


_own: ContextVar[Clock | None] = ContextVar("own", default=None)


@contextlib.contextmanager
def owning(own: Clock) -> Iterator[Clock]:
    """Let what is started here count by that clock, also when it goes on elsewhere."""
    token = _own.set(own)
    try:
        yield own
    finally:
        _own.reset(token)


class Alarm:
    """Rings when the machine awakes after a sleep, as the timer of the system would."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._due: float | None = None
        self._context = copy_context()
        own = _own.get()
        if own is not None:
            own.at_jumps(self._check)

    def set(self, due: float) -> None:
        self._due = due if self._due is None else min(due, self._due)

    def close(self) -> None:
        self._due = None

    def _check(self) -> None:
        due = self._due
        if due is not None and due <= self._context.run(system.now):
            self._due = None
            asyncio.get_running_loop().call_soon(self._ring, context=self._context)


class _Selector(selectors.DefaultSelector):
    """Waits for nobody: if nothing is ready, the time of waiting is over."""

    def __init__(self) -> None:
        super().__init__()
        self.time = EPOCH

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.time += TURN_SECONDS
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        assert timeout is not None, "nothing will ever happen again"
        ready = super().select(UNDER_WAY_SECONDS if timeout > SHORT_SECONDS else 0)
        if not ready:
            self.time += timeout
        return ready


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.virtual = _Selector()
        super().__init__(self.virtual)

    def time(self) -> float:
        return self.virtual.time


def run(monkeypatch: pytest.MonkeyPatch, main: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
    """Run a test in virtual time."""

    def now() -> float:
        time = asyncio.get_running_loop().time()
        own = _own.get()
        return time if own is None else own.read(time)

    virtual = system.RealSystem()
    virtual.now = now
    monkeypatch.setattr(host, "Alarm", Alarm)

    async def bounded() -> Result:
        async with asyncio.timeout(BUSY_SECONDS_MAX):
            return await main()

    before = system.move_to(virtual)
    try:
        with asyncio.Runner(loop_factory=_Loop) as runner:
            return runner.run(bounded())
    finally:
        system.move_to(before)


def sleep_through(seconds: float) -> None:
    """Let time pass as for a process that is stopped: nothing happens in it."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, _Loop), "only in virtual time"
    loop.virtual.time += seconds


async def passing(seconds: float) -> None:
    """Let time pass; everything that is due in it happens."""
    await asyncio.sleep(seconds)
