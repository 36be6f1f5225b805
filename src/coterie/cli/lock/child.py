"""The child process: the command that runs while a lock is held."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING

from coterie.cli.lock.process_group import Group

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from coterie.cli.lock.guard import Guard


class Child:
    """A group that is waited for in the event loop."""

    def __init__(
        self,
        program: tuple[str, ...],
        environment: Mapping[str, str],
        lifelines: Sequence[int],
        guard: Guard | None,
    ) -> None:
        """Start it; raise `OSError` if that is impossible.

        Where there are no lifelines, the guard ends the program if we are killed.
        """
        self._guard = guard
        self._loop = asyncio.get_running_loop()
        self._status: asyncio.Future[int] = self._loop.create_future()
        self._loop.add_signal_handler(signal.SIGCHLD, self._look)
        self._loop.add_signal_handler(signal.SIGCONT, self._go_on)
        try:
            self._group = Group(
                program, environment, lifelines, signal.pthread_sigmask(signal.SIG_BLOCK, ())
            )
        except OSError:
            self._close()
            raise
        if guard is not None:
            guard.watch(self._group.pid)
        self._go_on()
        self._look()

    @property
    def pid(self) -> int:
        """The number of the process, and of its group."""
        return self._group.pid

    @property
    def processes(self) -> list[int]:
        """The processes that go on when we are killed: its own, and the guard that ends its group."""
        guard = None if self._guard is None else self._guard.pid
        return [self.pid] if guard is None else [self.pid, guard]

    async def wait(self) -> int:
        """Wait for its end and return its exit status, 128 + n if signal n killed it."""
        return await asyncio.shield(self._status)

    def signal(self, number: int) -> None:
        """Send a signal to the whole group, which includes what the program has started."""
        self._group.signal(number)

    async def stop(self, seconds: float) -> None:
        """Send TERM to the group, and KILL after that many seconds."""
        if self._guard is not None:
            self._guard.hurry()
        self._group.ask_to_end()
        await asyncio.wait({self._status}, timeout=max(0.0, seconds))
        self.kill()
        await self.wait()

    def kill(self) -> None:
        """Kill the group, also processes of it that outlived the program itself."""
        self.signal(signal.SIGKILL)

    def _look(self) -> None:
        if self._status.done():
            return
        if self._guard is not None and self._has_ended():
            self._guard.dismiss()  # before another group can get the number of this one
        status = self._group.reap()
        if status is not None:
            self._status.set_result(status)
            self._close()

    def _has_ended(self) -> bool:
        """Return whether it has ended, without reaping it; False where that is impossible."""
        if not hasattr(os, "waitid"):  # as on macOS before Python 3.13
            return False
        look = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self.pid, look) is not None

    def _go_on(self) -> None:
        self._group.go_on()

    def _close(self) -> None:
        if self._guard is not None:
            self._guard.dismiss()
        self._loop.remove_signal_handler(signal.SIGCHLD)
        self._loop.remove_signal_handler(signal.SIGCONT)
