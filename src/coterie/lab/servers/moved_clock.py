"""A time of day that can be moved, for servers that run on the C library or Java."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from coterie.lab.servers.child import SystemServerMissing

if TYPE_CHECKING:
    from collections.abc import Iterator

FAKETIME = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
READABLE = 0o755  # PostgreSQL does not run as root


class MovedClock:
    """The time of day that a program shows which is started by `prefix`; its monotonic clock stays."""

    def __init__(self, folder: Path) -> None:
        """Keep the offset in a folder; raise `SystemServerMissing` without libfaketime."""
        if not FAKETIME:
            raise SystemServerMissing("no libfaketime: install the package faketime")
        self._offset = folder / "offset"
        self.move(0)
        changes = {
            "LD_PRELOAD": FAKETIME[0],
            "FAKETIME_TIMESTAMP_FILE": self._offset,
            "FAKETIME_NO_CACHE": 1,
            "FAKETIME_DONT_FAKE_MONOTONIC": 1,
        }
        self.prefix = ("env", *(f"{name}={value}" for name, value in changes.items()))

    def move(self, seconds: int) -> None:
        """Let the time of day be that of this machine, moved by so many seconds."""
        made = self._offset.with_suffix(".new")
        made.write_text(f"{seconds:+d}\n")
        made.rename(self._offset)


@contextlib.contextmanager
def moved_clock() -> Iterator[MovedClock]:
    """Make a clock for the time of a block."""
    with tempfile.TemporaryDirectory(prefix="coterie-clock-") as folder:
        Path(folder).chmod(READABLE)
        yield MovedClock(Path(folder))
