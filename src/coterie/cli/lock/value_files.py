"""The value of a lock in files, for `coterie lock --read` and `--write`: a command that knows no coterie goes on where the last one ended."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from coterie.errors import UsageError
from coterie.locks.held import Held, HeldAll
from coterie.locks.once.once import insist
from coterie.locks.value import DATA_BYTES_MAX

if TYPE_CHECKING:
    from coterie.locks.held import Holding

STREAM = "-"  # standard output, or standard input


class ValueFiles:
    """Where the value goes before the command, and where it comes from when that has ended with status 0."""

    def __init__(
        self, name: str, read: str | None, write: str | None, *, has_command: bool
    ) -> None:
        """Check what was asked for; without a command the new value is read at once, and not while the lock is held."""
        for option, path in (("--read", read), ("--write", write)):
            if path == STREAM and has_command:
                raise UsageError(
                    f"{option} -: standard input and output are the command's; name a file"
                )
        self._name = name
        self._read = read
        self._write = write
        self._data = None if write is None or has_command else _content(write)

    async def fill(self, holding: Holding) -> None:
        """Write the value into its file, which is empty if there is none."""
        if self._read is None:
            return
        held = self._held(holding)
        value = await insist(held, held.read)
        data = b"" if value is None else value.data
        _put(self._read, data)

    async def keep(self, holding: Holding) -> None:
        """Make what is in its file the value."""
        if self._write is None:
            return
        held = self._held(holding)
        data = _content(self._write) if self._data is None else self._data
        await insist(held, partial(held.write, data))

    def _held(self, holding: Holding) -> Held:
        """Return the lock of that name, of several that are held."""
        part = holding[self._name] if isinstance(holding, HeldAll) else holding
        assert isinstance(part, Held), "no permit has a value"
        return part


def _put(path: str, data: bytes) -> None:
    if path == STREAM:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    try:
        Path(path).write_bytes(data)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None


def _content(path: str) -> bytes:
    """Read a file, or standard input; raise `UsageError` if it can be no value."""
    limit = DATA_BYTES_MAX + 1  # of what is longer no more is needed
    try:
        if path == STREAM:
            data = sys.stdin.buffer.read(limit)
        else:
            with Path(path).open("rb") as file:
                data = file.read(limit)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    if len(data) > DATA_BYTES_MAX:
        raise UsageError(
            f"{path}: a value has at most {DATA_BYTES_MAX} bytes: put the data elsewhere, and its name into the value"
        )
    return data
