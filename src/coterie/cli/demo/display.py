"""The live display: redrawn in place on a terminal, otherwise one line a second."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
import time
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from coterie.cli.demo.state import DemoState

DRAW_SECONDS = 0.1
PLAIN_SECONDS = 1.0
LINES_MIN = 20  # less is not enough to redraw the picture in place
COLOURS = {"up": "green", "holds": "green", "dead": "red", "stopped": "yellow"}
HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
ERASE_REST = "\x1b[K"


class Display:
    """Shows the state of the demonstration on stderr."""

    def __init__(self, state: DemoState) -> None:
        """Find out whether stderr is a terminal."""
        self._state = state
        tall = shutil.get_terminal_size().lines >= LINES_MIN
        self._terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb" and tall
        self._coloured = not os.environ.get("NO_COLOR")
        self._drawn = 0  # lines that stand on the terminal
        self._announced = 0  # phases
        self._due = 0.0

    @contextlib.asynccontextmanager
    async def shown(self) -> AsyncIterator[None]:
        """Show the state while the body runs, and leave the last one on the screen."""
        showing = asyncio.ensure_future(self._show())
        try:
            yield
        finally:
            showing.cancel()
            self._refresh()
            if self._terminal:
                click.echo(SHOW_CURSOR, err=True, nl=False)

    async def _show(self) -> None:
        while True:
            self._refresh()
            await asyncio.sleep(DRAW_SECONDS)

    def _refresh(self) -> None:
        if self._terminal:
            self._draw()
        else:
            self._print()

    def _draw(self) -> None:
        width, _ = shutil.get_terminal_size()
        lines = [self._colour(line[: width - 1]) + ERASE_REST for line in picture(self._state)]
        back = f"\x1b[{self._drawn}F" if self._drawn else ""
        click.echo(HIDE_CURSOR + back + "\n".join(lines), err=True)
        self._drawn = max(self._drawn, len(lines))

    def _colour(self, line: str) -> str:
        if not self._coloured:
            return line
        for word, colour in COLOURS.items():
            if f" {word} " in line:
                return line.replace(f" {word} ", f" {click.style(word, fg=colour)} ", 1)
        return line

    def _print(self) -> None:
        for phase in self._state.phases[self._announced :]:
            click.echo(f"{phase.began_at - self._state.began_at:5.1f} s  {phase.title}", err=True)
            self._announced += 1
        now = time.monotonic()
        if now >= self._due and self._state.workers:
            self._due = now + PLAIN_SECONDS
            click.echo(summary(self._state), err=True)


def picture(state: DemoState) -> list[str]:
    """Return the lines that show nodes, workers and holder; their number never changes."""
    lines = [f"  {title_of(state)}", ""]
    lines += [
        f"  {node.name}  {node.condition:8}  process {node.process.pid:<8} {node.address}"
        for node in state.nodes
    ]
    lines.append("")
    for worker in state.workers:
        token = f"token {worker.token}" if worker.condition in ("holds", "stopped") else ""
        count = f"{len(worker.written):,} entries"
        lines.append(
            f"  {worker.name}  {worker.condition:8}  process {worker.process.pid:<8} {count:14} {token}"
        )
    lines += ["", f"  {holder_of(state)}; {state.entries:,} entries so far", ""]
    return lines


def summary(state: DemoState) -> str:
    """Return the same in one line."""
    seconds = time.monotonic() - state.began_at
    nodes = "  ".join(f"{node.name} {node.condition}" for node in state.nodes)
    return f"{seconds:5.1f} s  {nodes}  {holder_of(state)}  {state.entries:,} entries"


def title_of(state: DemoState) -> str:
    """Return the title of the current phase, with the time."""
    seconds = time.monotonic() - state.began_at
    return f"{seconds:4.1f} s  {state.phases[-1].title}" if state.phases else ""


def holder_of(state: DemoState) -> str:
    """Name the worker that holds the lock, and its token."""
    holder = state.holder
    return f"{holder.name} holds with token {holder.token}" if holder else "no holder"
