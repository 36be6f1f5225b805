"""Locks, leaders and semaphores for real programs, over whatever engine grants them.

Programs reach them by `coterie.connect`, for tasks, and `coterie.sync.connect`, for threads. A
name with an underscore is not for programs: commands and tests reach it through `internals`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coterie.locks.coordinator import Coordinator, ElectionCoordinator, connect
    from coterie.locks.engine import Claim, Engine, Party
    from coterie.locks.held import Held, HeldAll, Holding, LossEvent
    from coterie.locks.lock import Acquirable, Lock
    from coterie.locks.members import GroupMember, Members
    from coterie.locks.once.once import Once, Run
    from coterie.locks.semaphore import Semaphore
    from coterie.locks.several import LockAll, LockAny
    from coterie.locks.value import Value

__all__ = [
    "Acquirable",
    "Claim",
    "Coordinator",
    "ElectionCoordinator",
    "Engine",
    "GroupMember",
    "Held",
    "HeldAll",
    "Holding",
    "Lock",
    "LockAll",
    "LockAny",
    "LossEvent",
    "Members",
    "Once",
    "Party",
    "Run",
    "Semaphore",
    "Value",
    "connect",
]

_HOMES = {
    "Acquirable": "lock",
    "Claim": "engine",
    "Coordinator": "coordinator",
    "ElectionCoordinator": "coordinator",
    "Engine": "engine",
    "Held": "held",
    "HeldAll": "held",
    "Holding": "held",
    "Lock": "lock",
    "LockAll": "several",
    "LockAny": "several",
    "LossEvent": "held",
    "GroupMember": "members",
    "Members": "members",
    "Once": "once.once",
    "Party": "engine",
    "Run": "once.once",
    "Semaphore": "semaphore",
    "Value": "value",
    "connect": "coordinator",
}


def __getattr__(name: str) -> Any:
    """Import on first use: the URL and the names of locks can be read without an event loop."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value  # later uses do not come here
    return value


def __dir__() -> list[str]:
    """Name what is there and what would be imported."""
    return sorted({*globals(), *__all__})
