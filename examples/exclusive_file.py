"""An adapter for `coterie audit-locks`: a lock file that is made by who comes first, and removed at the end."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coterie.lab.lock_audit.adapter import LockPlace


class ExclusiveFile:
    """The lock file that many programs make for themselves."""

    def __init__(self, path: Path) -> None:
        """Lock by a file at this path."""
        self.path = path

    def acquire(self) -> bool:
        """Wait until the file can be made."""
        while True:
            try:
                self.path.touch(exist_ok=False)
            except FileExistsError:
                time.sleep(0.01)
            else:
                return True

    def release(self) -> None:
        """Remove the file."""
        self.path.unlink()


def lock(place: LockPlace, name: str) -> ExclusiveFile:
    """Return the lock of that name."""
    return ExclusiveFile(Path(place.folder) / name)
