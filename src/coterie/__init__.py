"""Coordination between processes that share no memory."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from coterie.errors import (
    AcquireTimeout,
    ConfigError,
    Conflict,
    CoterieError,
    DeadlockDetected,
    LockLost,
    MisuseError,
    NoQuorum,
    NotHeld,
    OutcomeUnknown,
    ProtocolError,
    ReplayError,
    Unavailable,
    Undeclared,
    UsageError,
)

if TYPE_CHECKING:
    from coterie import sync
    from coterie.cluster.join import join
    from coterie.cluster.store import join_store
    from coterie.locks import (
        Coordinator,
        Held,
        HeldAll,
        Lock,
        LockAll,
        LockAny,
        Party,
        Semaphore,
    )
    from coterie.locks.connect import connect
    from coterie.transactions import Store, Transaction

__all__ = [
    "AcquireTimeout",
    "ConfigError",
    "Conflict",
    "Coordinator",
    "CoterieError",
    "DeadlockDetected",
    "Held",
    "HeldAll",
    "Lock",
    "LockAll",
    "LockAny",
    "LockLost",
    "MisuseError",
    "NoQuorum",
    "NotHeld",
    "OutcomeUnknown",
    "Party",
    "ProtocolError",
    "ReplayError",
    "Semaphore",
    "Store",
    "Transaction",
    "Unavailable",
    "Undeclared",
    "UsageError",
    "connect",
    "join",
    "join_store",
    "sync",
]


_HOMES = {
    "Store": "transactions",
    "Transaction": "transactions",
    "join": "cluster.join",
    "join_store": "cluster.store",
}


def __getattr__(name: str) -> Any:
    """Import on first use what needs asyncio, which simulations and commands can do without."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "sync":
        return importlib.import_module("coterie.sync")
    return getattr(importlib.import_module(f"coterie.{_HOMES.get(name, 'locks')}"), name)
