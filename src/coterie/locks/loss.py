"""The error for a lock that was lost."""

from __future__ import annotations

from coterie.errors import LockLost

NOT_IN_FORCE = "it is no longer in force"


def loss(name: str, token: int, reason: str) -> LockLost:
    """Make the error, which says what is to be done."""
    return LockLost(
        f"lock {name!r} (token {token}) was lost: {reason};"
        " another process may hold it now. Stop work, and have the resource reject this token"
    )
