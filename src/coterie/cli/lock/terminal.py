"""The terminal, lent to a child's process group as a shell does for a job in the foreground."""

from __future__ import annotations

import contextlib
import os
import signal
import sys


class Terminal:
    """Hands the terminal to a child, so that it can read from it and Ctrl-C reaches it."""

    def __init__(self) -> None:
        """Remember our own process group; without a terminal on stdin, do nothing later."""
        self.present = os.isatty(sys.__stdin__.fileno()) if sys.__stdin__ else False
        self._own = os.getpgrp()
        self._lent = False

    def lend(self, group: int) -> None:
        """Put that group into the foreground, if we are in it."""
        if self._in_foreground():
            self._set_foreground(group)
            self._lent = True

    def take_back(self) -> None:
        """Return to the foreground, if we have lent the terminal."""
        if self._lent:
            self._lent = False
            self._set_foreground(self._own)

    def _in_foreground(self) -> bool:
        try:
            return self.present and os.tcgetpgrp(0) == self._own
        except OSError:  # it is not our terminal, or it has hung up
            return False

    def _set_foreground(self, group: int) -> None:
        # A group in the background that does this is stopped by SIGTTOU, unless it ignores it.
        before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        try:
            # The terminal may have hung up, or the group may have ended.
            with contextlib.suppress(OSError):
                os.tcsetpgrp(0, group)
        finally:
            signal.signal(signal.SIGTTOU, before)
