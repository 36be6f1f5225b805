"""Coordination between processes that share no memory."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from coterie.errors import (
    AcquireTimeout,
    ConfigError,
    CoterieError,
    LockLost,
    MisuseError,
    NoQuorum,
    NotHeld,
    ProtocolError,
    ReplayError,
    Unavailable,
    UsageError,
)

if TYPE_CHECKING:
    from coterie import sync
    from coterie.cluster.joining import join
    from coterie.coordinator import (
        Coordinator,
        Held,
        HeldAll,
        Lock,
        LockAll,
        LockAny,
        Party,
        Semaphore,
        connect,
    )

__all__ = [
    "AcquireTimeout",
    "ConfigError",
    "Coordinator",
    "CoterieError",
    "Held",
    "HeldAll",
    "Lock",
    "LockAll",
    "LockAny",
    "LockLost",
    "MisuseError",
    "NoQuorum",
    "NotHeld",
    "Party",
    "ProtocolError",
    "ReplayError",
    "Semaphore",
    "Unavailable",
    "UsageError",
    "connect",
    "join",
    "sync",
]


def __getattr__(name: str) -> Any:
    """Import on first use what needs asyncio, which simulations and commands can do without."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "sync":
        return importlib.import_module("coterie.sync")
    if name == "join":
        return importlib.import_module("coterie.cluster.joining").join
    return getattr(importlib.import_module("coterie.coordinator"), name)
