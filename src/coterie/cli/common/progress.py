"""Progress of long work, on stderr: one changing line on a terminal, else a line every ten seconds."""

from __future__ import annotations

import sys
import time

import click

PLAIN_INTERVAL_SECONDS = 10.0


class ProgressLine:
    """Shows the latest state of long work, and nothing for short work."""

    def __init__(self) -> None:
        """Start the clock."""
        self._terminal = sys.stderr.isatty()
        self._interval = 0.2 if self._terminal else PLAIN_INTERVAL_SECONDS
        self._due = time.monotonic() + self._interval
        self._shown = False

    def show(self, text: str) -> None:
        """Show this text if the interval has passed."""
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + self._interval
        self._shown = True
        click.echo(f"\r\x1b[K{text}" if self._terminal else text, err=True, nl=not self._terminal)

    def say(self, text: str) -> None:
        """Print a line that stays."""
        click.echo(f"\r\x1b[K{text}" if self._terminal else text, err=True)

    def close(self) -> None:
        """Clear the line on a terminal."""
        if self._shown and self._terminal:
            click.echo("\r\x1b[K", err=True, nl=False)
