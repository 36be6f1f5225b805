"""Coordination between processes that share no memory."""

from __future__ import annotations

# As in `typing`, whose import takes as long as all that the shortest commands do: type checkers
# know the name.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from coterie import sync
    from coterie.cluster.join import join
    from coterie.cluster.store import join_store
    from coterie.errors import (
        AcquireTimeout,
        ChangeConflict,
        ConfigError,
        Conflict,
        CoterieError,
        DeadlockDetected,
        LockLost,
        MisuseError,
        NoQuorum,
        NotDue,
        NotFormed,
        NotHeld,
        OutcomeUnknown,
        ProtocolError,
        ReplayError,
        Unavailable,
        Undeclared,
        UsageError,
    )
    from coterie.locks import (
        Coordinator,
        ElectionCoordinator,
        GroupMember,
        Held,
        HeldAll,
        Lock,
        LockAll,
        LockAny,
        Members,
        Once,
        Party,
        Run,
        Semaphore,
        connect,
    )
    from coterie.locks.current import current_token
    from coterie.locks.value import Value
    from coterie.transactions import Store, Transaction

    __version__: str

__all__ = [
    "AcquireTimeout",
    "ChangeConflict",
    "ConfigError",
    "Conflict",
    "Coordinator",
    "CoterieError",
    "DeadlockDetected",
    "ElectionCoordinator",
    "GroupMember",
    "Held",
    "HeldAll",
    "Lock",
    "LockAll",
    "LockAny",
    "LockLost",
    "Members",
    "MisuseError",
    "NoQuorum",
    "NotDue",
    "NotFormed",
    "NotHeld",
    "Once",
    "OutcomeUnknown",
    "Party",
    "ProtocolError",
    "ReplayError",
    "Run",
    "Semaphore",
    "Store",
    "Transaction",
    "Unavailable",
    "Undeclared",
    "UsageError",
    "Value",
    "__version__",
    "connect",
    "current_token",
    "join",
    "join_store",
    "sync",
]

_HOMES = {
    "cluster.join": ("join",),
    "cluster.store": ("join_store",),
    "errors": (
        "AcquireTimeout",
        "ChangeConflict",
        "ConfigError",
        "Conflict",
        "CoterieError",
        "DeadlockDetected",
        "LockLost",
        "MisuseError",
        "NoQuorum",
        "NotDue",
        "NotFormed",
        "NotHeld",
        "OutcomeUnknown",
        "ProtocolError",
        "ReplayError",
        "Unavailable",
        "Undeclared",
        "UsageError",
    ),
    "locks.coordinator": ("Coordinator", "ElectionCoordinator", "connect"),
    "locks.current": ("current_token",),
    "locks.engine": ("Party",),
    "locks.held": ("Held", "HeldAll"),
    "locks.lock": ("Lock",),
    "locks.members": ("GroupMember", "Members"),
    "locks.once.once": ("Once", "Run"),
    "locks.semaphore": ("Semaphore",),
    "locks.several": ("LockAll", "LockAny"),
    "locks.value": ("Value",),
    "transactions": ("Store", "Transaction"),
}


def __getattr__(name: str) -> Any:
    """Import on first use: a command that starts often pays for what it needs and no more."""
    import importlib  # noqa: PLC0415 - as above

    if name == "sync":
        return importlib.import_module("coterie.sync")
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("coterie")
    for home, names in _HOMES.items():
        if name in names:
            value = getattr(importlib.import_module(f"coterie.{home}"), name)
            globals()[name] = value  # later uses do not come here
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Name what a program may use, imported or not."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
