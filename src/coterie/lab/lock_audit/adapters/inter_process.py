"""`InterProcessLock` of fasteners: lockf(3) on a file of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import fasteners

if TYPE_CHECKING:
    from coterie.lab.lock_audit.adapter import AuditedLock, LockPlace

LIBRARY = "fasteners"


def lock(place: LockPlace, name: str) -> AuditedLock:
    """Lock a file in the folder."""
    made: AuditedLock = fasteners.InterProcessLock(Path(place.folder) / name)
    return made
