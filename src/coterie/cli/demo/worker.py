"""A worker, as a process of its own: `python -m coterie.cli.demo.worker NAME URL FOLDER`.

It enters again and again and prints what happens. SIGTERM ends it after the current entry, the end of
its input at once. After SIGUSR1 it stops itself inside the next entry, as a paused virtual machine or
a debugger would do, until it gets SIGCONT.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import click

import coterie
from coterie.cli.common.stdin import on_end_of_input
from coterie.cli.demo.fence import Refused
from coterie.cli.demo.ledger import Entry, Ledger

LOCK = "ledger"
WORK_SECONDS = 0.02
RETRY_SECONDS = 0.1


class Program:
    """A worker: enters, writes to the ledger, prints what happened."""

    def __init__(self, name: str, ledger: Ledger) -> None:
        """Handle signals and the end of input from now on."""
        self._name = name
        self._ledger = ledger
        self._over = asyncio.Event()
        self._to_stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._over.set)
        loop.add_signal_handler(signal.SIGUSR1, self._to_stop.set)
        on_end_of_input(lambda: os.kill(os.getpid(), signal.SIGKILL))

    async def run(self, url: str) -> None:
        """Enter until told to end; after a loss or without a quorum, try again."""
        async with coterie.connect(url) as coordinator:
            while not self._over.is_set():
                click.echo("waits")
                try:
                    async with coordinator.lock(LOCK) as held:
                        await self._enter(held.token)
                except coterie.LockLost:
                    click.echo("lost")
                except coterie.NoQuorum:
                    click.echo("cut-off")
                    await asyncio.sleep(RETRY_SECONDS)

    async def _enter(self, token: int) -> None:
        click.echo(f"holds {token}")
        try:
            number = self._ledger.last_number(token)
            await asyncio.sleep(WORK_SECONDS)
            # No check can help from here on: the lease may run out between it and the write.
            self._stop_if_told()
            self._ledger.append(Entry(number + 1, self._name, token, time.monotonic()))
        except Refused:
            click.echo(f"refused {token}")
        else:
            click.echo(f"wrote {token}")

    def _stop_if_told(self) -> None:
        if self._to_stop.is_set():
            self._to_stop.clear()
            click.echo("stops")
            os.kill(os.getpid(), signal.SIGSTOP)


async def main(name: str, url: str, folder: str) -> None:
    """Work until told to end."""
    await Program(name, Ledger(Path(folder))).run(url)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
