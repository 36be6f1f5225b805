"""A program in a process group of its own, as a shell runs a job."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING

from coterie.cli.lock.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

# Python ignores these; a program expects them as the system made them.
RESTORED = (signal.SIGPIPE, signal.SIGXFSZ)
KILLED_BY = 128


class Group:
    """The program and all that it has started, with our stdin, stdout and stderr."""

    def __init__(
        self,
        program: tuple[str, ...],
        environment: Mapping[str, str],
        lifelines: Sequence[int],
        mask: Iterable[int],
    ) -> None:
        """Start it with these signals blocked; raise `OSError` if that is impossible.

        It inherits the lifelines of the lock: if we are killed, the lock stays taken until the
        program has ended, too.
        """
        self._terminal = Terminal()
        self.pid = os.posix_spawnp(
            program[0],
            program,
            environment,
            file_actions=[(os.POSIX_SPAWN_DUP2, line, line) for line in lifelines],
            setpgroup=0,
            setsigmask=mask,
            setsigdef=RESTORED,
        )

    def signal(self, number: int) -> None:
        """Send a signal to the whole group, which includes what the program has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def ask_to_end(self) -> None:
        """Send TERM to the group."""
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)  # a stopped process handles no other signal

    def go_on(self) -> None:
        """Follow `fg` and `bg`."""
        self._terminal.lend(self.pid)
        self.signal(signal.SIGCONT)

    def reap(self) -> int | None:
        """Return its exit status if it has ended, 128 + n if signal n killed it; else follow Ctrl-Z."""
        pid, status = os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED)
        if not pid:
            return None
        if os.WIFSTOPPED(status):
            self._stop_too()
            return None
        self._terminal.take_back()
        code = os.waitstatus_to_exitcode(status)
        return code if code >= 0 else KILLED_BY - code

    def _stop_too(self) -> None:
        """Let the shell see us stop, and get the terminal back."""
        if self._terminal.present:
            self._terminal.take_back()
            signal.raise_signal(signal.SIGSTOP)
