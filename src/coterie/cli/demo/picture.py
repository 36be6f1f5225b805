"""The live picture: redrawn in place on a terminal, else a line every second."""

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

    from coterie.cli.demo.stage import Stage

DRAW_SECONDS = 0.1
PLAIN_SECONDS = 1.0
LINES_MIN = 20  # less is not enough to redraw the picture in place
COLOURS = {"up": "green", "holds": "green", "dead": "red", "stopped": "yellow"}
HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
ERASE_REST = "\x1b[K"


class Picture:
    """Shows the stage on stderr."""

    def __init__(self, stage: Stage) -> None:
        """Find out what stderr is."""
        self._stage = stage
        tall = shutil.get_terminal_size().lines >= LINES_MIN
        self._terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb" and tall
        self._coloured = not os.environ.get("NO_COLOR")
        self._drawn = 0  # lines that stand on the terminal
        self._told = 0  # acts that were announced
        self._due = 0.0

    @contextlib.asynccontextmanager
    async def shown(self) -> AsyncIterator[None]:
        """Show how it stands while the body runs, and leave the last state on the screen."""
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
            self._tell()

    def _draw(self) -> None:
        width, _ = shutil.get_terminal_size()
        lines = [self._colour(line[: width - 1]) + ERASE_REST for line in picture(self._stage)]
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

    def _tell(self) -> None:
        for act in self._stage.acts[self._told :]:
            click.echo(f"{act.began_at - self._stage.began_at:5.1f} s  {act.title}", err=True)
            self._told += 1
        now = time.monotonic()
        if now >= self._due and self._stage.workers:
            self._due = now + PLAIN_SECONDS
            click.echo(summary(self._stage), err=True)


def picture(stage: Stage) -> list[str]:
    """Draw nodes, workers, and what is going on; always the same lines for the same cast."""
    lines = [f"  {title_of(stage)}", ""]
    lines += [
        f"  {node.name}  {node.condition:8}  process {node.process.pid:<8} {node.address}"
        for node in stage.nodes
    ]
    lines.append("")
    for worker in stage.workers:
        token = f"token {worker.token}" if worker.condition in ("holds", "stopped") else ""
        count = f"{len(worker.written):,} entries"
        lines.append(
            f"  {worker.name}  {worker.condition:8}  process {worker.process.pid:<8} {count:14} {token}"
        )
    lines += ["", f"  {holder_of(stage)}; {stage.entries:,} entries so far", ""]
    return lines


def summary(stage: Stage) -> str:
    """Say it in one line."""
    seconds = time.monotonic() - stage.began_at
    nodes = "  ".join(f"{node.name} {node.condition}" for node in stage.nodes)
    return f"{seconds:5.1f} s  {nodes}  {holder_of(stage)}  {stage.entries:,} entries"


def title_of(stage: Stage) -> str:
    """Say what is going on."""
    seconds = time.monotonic() - stage.began_at
    return f"{seconds:4.1f} s  {stage.acts[-1].title}" if stage.acts else ""


def holder_of(stage: Stage) -> str:
    """Say who holds the lock, and with which token."""
    holder = stage.holder
    return f"{holder.name} holds with token {holder.token}" if holder else "nobody holds"
