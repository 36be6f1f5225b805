"""A worker of the demonstration, as a process: `python -m coterie.cli.demo_worker NAME URL FOLDER`.

It enters again and again and prints what happens. SIGTERM ends it after the current entry, the end of
its input at once. After SIGUSR1 it stops itself inside the next entry, as a paused virtual machine or
a debugger would do, until it gets SIGCONT.

The workers share numbered entries in a file behind a fence. An entry is a read, some work, and a write of
the next number: two workers that are inside at the same time write the same number, and one update is lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

import coterie
from coterie.cli.common.stdin import on_end_of_input
from coterie.errors import CoterieError

if TYPE_CHECKING:
    from collections.abc import Iterator

LOCK = "ledger"
WORK_SECONDS = 0.02
RETRY_SECONDS = 0.1
DIGITS = 20  # of a 64-bit number


class Refused(CoterieError):  # noqa: N818 - says what happened, like the errors of locks
    """An access with a token that is older than one that the fence has seen."""

    definite = True


class Fence:
    """The largest token seen so far, kept in a file under an OS lock.

    Tokens grow with each grant of a lock, so a holder that is refused has lost the lock to a later
    holder that has been here since. It rests on no assumption about time.
    """

    def __init__(self, path: Path) -> None:
        """Use the file of that name, which is created on first use."""
        self._path = path

    @contextlib.contextmanager
    def passed(self, token: int) -> Iterator[None]:
        """Run the body while no other process is past the fence; raise `Refused` if too old."""
        file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            largest = int(os.pread(file, DIGITS, 0) or b"0")
            if token < largest:
                raise Refused(f"token {token} is older than {largest}, which the fence has seen")
            os.pwrite(file, b"%0*d" % (DIGITS, token), 0)
            yield
        finally:
            os.close(file)


class Entry(msgspec.Struct, frozen=True):
    """One line of the ledger."""

    number: int  # one more than what its writer has read
    worker: str
    token: int
    written_at: float  # by `time.monotonic()`, which all processes of a machine share


class Ledger:
    """The file of entries.

    The fence counts reads, too: otherwise a worker that comes back late could still write between the read
    and the write of its successor.
    """

    def __init__(self, folder: Path) -> None:
        """Keep the entries and the fence in that folder."""
        self._path = folder / "ledger"
        self._fence = Fence(folder / "fence")

    def last_number(self, token: int) -> int:
        """Return the number of the last entry, 0 before the first; raise `Refused` if too old."""
        with self._fence.passed(token):
            entries = self.entries()
            return entries[-1].number if entries else 0

    def append(self, entry: Entry) -> None:
        """Append an entry; raise `Refused` if its token is too old."""
        with self._fence.passed(entry.token), self._path.open("ab") as file:
            file.write(msgspec.json.encode(entry) + b"\n")

    def entries(self) -> list[Entry]:
        """Return all entries, in the order in which they were written."""
        if not self._path.exists():
            return []
        return msgspec.json.Decoder(Entry).decode_lines(self._path.read_bytes())


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
