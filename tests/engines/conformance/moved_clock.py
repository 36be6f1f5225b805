"""Servers whose time of day can be moved; a Valkey that keeps its memory over a restart or loses it."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.engines.conformance.suppliers import Absent, Child, ValkeySupplier

if TYPE_CHECKING:
    from collections.abc import Iterator

FAKETIME = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
READABLE = 0o755  # PostgreSQL does not run as root


class MovedClock:
    """The time of day that a program shows which is started by `prefix`; its monotonic clock stays."""

    def __init__(self, folder: Path) -> None:
        if not FAKETIME:
            raise Absent("no libfaketime: install the package faketime")
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


class MovedValkey(ValkeySupplier):
    """A server whose time of day can be moved."""

    name = "valkey-aof"

    def __init__(self, folder: Path, clock: MovedClock, *options: str) -> None:
        super().__init__(folder, *options)
        self.move = clock.move
        self.child = Child(folder, [*clock.prefix, *self.child.command])

    def lose_memory(self) -> None:
        """Lose what it had written; it is not running."""
        shutil.rmtree(self.child.folder / "appendonlydir", ignore_errors=True)


@contextlib.contextmanager
def moved_valkey(folder: Path, *options: str) -> Iterator[MovedValkey]:
    with moved_clock() as clock:
        made = MovedValkey(folder, clock, *options)
        try:
            made.start()
            yield made
        finally:
            made.kill()
