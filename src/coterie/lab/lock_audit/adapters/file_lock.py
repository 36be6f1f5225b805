"""`FileLock` of filelock: flock(2) on a file of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import filelock

if TYPE_CHECKING:
    from coterie.lab.lock_audit.adapter import AuditedLock, LockPlace

LIBRARY = "filelock"


def lock(place: LockPlace, name: str) -> AuditedLock:
    """Lock a file in the folder."""
    made: AuditedLock = filelock.FileLock(Path(place.folder) / name)
    return made
