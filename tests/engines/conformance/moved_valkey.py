"""A Valkey whose time of day can be moved, and which keeps its memory over a restart or loses it."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from tests.engines.conformance.suppliers import Absent, Child, ValkeySupplier

if TYPE_CHECKING:
    from collections.abc import Iterator

FAKETIME = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))


class MovedValkey(ValkeySupplier):
    """A server whose time of day can be moved."""

    name = "valkey-aof"

    def __init__(self, folder: Path, *options: str) -> None:
        if not FAKETIME:
            raise Absent("no libfaketime: install the package faketime")
        super().__init__(folder, *options)
        self._offset = folder / "offset"
        self.move(0)
        changes = {
            "LD_PRELOAD": FAKETIME[0],
            "FAKETIME_TIMESTAMP_FILE": self._offset,
            "FAKETIME_NO_CACHE": 1,
        }
        words = [f"{name}={value}" for name, value in changes.items()]
        self.child = Child(folder, ["env", *words, *self.child.command])

    def move(self, seconds: int) -> None:
        """Let the time of day be that of this machine, moved by so many seconds."""
        made = self._offset.with_suffix(".new")
        made.write_text(f"{seconds:+d}\n")
        made.rename(self._offset)

    def lose_memory(self) -> None:
        """Lose what it had written; it is not running."""
        shutil.rmtree(self.child.folder / "appendonlydir", ignore_errors=True)


@contextlib.contextmanager
def moved_valkey(folder: Path, *options: str) -> Iterator[MovedValkey]:
    made = MovedValkey(folder, *options)
    try:
        made.start()
        yield made
    finally:
        made.kill()


@contextlib.contextmanager
def valkey_aof(folder: Path) -> Iterator[MovedValkey]:
    """Run one that has written each change before it answers."""
    with moved_valkey(folder, "--appendonly", "yes", "--appendfsync", "always") as made:
        yield made
