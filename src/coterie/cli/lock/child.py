"""The child process: the command that runs while a lock is held."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from typing import TYPE_CHECKING

from coterie.cli.lock.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from coterie.cli.lock.guard import Guard

# Python ignores these; a program expects them as the system made them.
RESTORED = (signal.SIGPIPE, signal.SIGXFSZ)
NOT_FOUND = 127
NOT_EXECUTABLE = 126
KILLED_BY = 128


class Child:
    """A program in a process group of its own, with our stdin, stdout and stderr."""

    def __init__(
        self,
        program: tuple[str, ...],
        environment: Mapping[str, str],
        lifelines: Sequence[int],
        guard: Guard | None,
    ) -> None:
        """Start it; raise `OSError` if that is impossible.

        It inherits the lifelines of the lock: if we are killed, the lock stays taken until the
        program has ended, too. Where there are none, the guard ends the program in that case.
        """
        self._guard = guard
        self._loop = asyncio.get_running_loop()
        self._status: asyncio.Future[int] = self._loop.create_future()
        self._loop.add_signal_handler(signal.SIGCHLD, self._look)
        self._loop.add_signal_handler(signal.SIGCONT, self._go_on)
        self._terminal = Terminal()
        try:
            self.pid = os.posix_spawnp(
                program[0],
                program,
                environment,
                file_actions=[(os.POSIX_SPAWN_DUP2, line, line) for line in lifelines],
                setpgroup=0,
                setsigdef=RESTORED,
            )
        except OSError:
            self._close()
            raise
        if guard is not None:
            guard.watch(self.pid)
        self._go_on()
        self._look()

    async def wait(self) -> int:
        """Wait for its end and return its exit status, 128 + n if signal n killed it."""
        return await asyncio.shield(self._status)

    def signal(self, number: int) -> None:
        """Send a signal to the whole group, which includes what the program has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    async def stop(self, seconds: float) -> None:
        """Send TERM to the group, and KILL after that many seconds."""
        if self._guard is not None:
            self._guard.hurry()
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)  # a stopped process handles no other signal
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
        pid, status = os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED)
        if not pid:
            return
        if os.WIFSTOPPED(status):
            self._stop_too()
            return
        code = os.waitstatus_to_exitcode(status)
        self._status.set_result(code if code >= 0 else KILLED_BY - code)
        self._close()

    def _has_ended(self) -> bool:
        """Return whether it has ended, without reaping it; False where that is impossible."""
        if not hasattr(os, "waitid"):  # as on macOS before Python 3.13
            return False
        look = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self.pid, look) is not None

    def _stop_too(self) -> None:
        """Follow Ctrl-Z: the shell sees us stop, and gets the terminal back."""
        if self._terminal.present:
            self._terminal.take_back()
            signal.raise_signal(signal.SIGSTOP)

    def _go_on(self) -> None:
        """Follow `fg` and `bg`."""
        self._terminal.lend(self.pid)
        self.signal(signal.SIGCONT)

    def _close(self) -> None:
        if self._guard is not None:
            self._guard.dismiss()
        self._terminal.take_back()
        self._loop.remove_signal_handler(signal.SIGCHLD)
        self._loop.remove_signal_handler(signal.SIGCONT)


def failure(error: OSError) -> int:
    """Return the exit status by which shells report that a program could not be started."""
    return NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
