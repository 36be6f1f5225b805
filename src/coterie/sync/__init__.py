"""The coordinator for code without an event loop.

    with coterie.sync.connect() as c:
        with c.lock("nightly-report", timeout=10) as held:
            save(row, fence=held.token)

The objects are those of `coterie.connect`, run by an event loop in a thread of its own; what is
held belongs to the thread that acquired it. A thread cannot be cancelled, so a loss shows itself by
`on_lost`, which is called from the thread of the loop, by `held.lost`, from `held.ensure()` and at
the end of the `with`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coterie.sync.coordinator import Coordinator, connect
    from coterie.sync.held import Held, HeldAll, Holding
    from coterie.sync.lock import Acquirable, Lock, LockAll, LockAny, Semaphore
    from coterie.sync.members import GroupMember, Members
    from coterie.sync.once import Once, Run

__all__ = [
    "Acquirable",
    "Coordinator",
    "GroupMember",
    "Held",
    "HeldAll",
    "Holding",
    "Lock",
    "LockAll",
    "LockAny",
    "Members",
    "Once",
    "Run",
    "Semaphore",
    "connect",
]

_HOMES = {
    "Acquirable": "lock",
    "Coordinator": "coordinator",
    "GroupMember": "members",
    "Held": "held",
    "HeldAll": "held",
    "Holding": "held",
    "Lock": "lock",
    "LockAll": "lock",
    "LockAny": "lock",
    "Members": "members",
    "Once": "once",
    "Run": "once",
    "Semaphore": "lock",
    "connect": "coordinator",
}


def __getattr__(name: str) -> Any:
    """Import on first use: a program that takes no lock in this run starts without an event loop."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value  # later uses do not come here
    return value


def __dir__() -> list[str]:
    """Name what a program may use, imported or not."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
