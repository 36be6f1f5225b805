"""Which process coordinates a resource, and which ones stand in for it, by rendezvous hashing."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coterie.process import ProcessId


def succession(resource: str, members: Iterable[ProcessId]) -> tuple[ProcessId, ...]:
    """Order the members by their rank for this resource, the same everywhere and at all times.

    Each member's rank depends on itself and the resource alone (rendezvous hashing), so when one
    leaves, only the resources that it coordinated move. Without a name the lowest id comes first.
    """
    if not resource:
        return tuple(sorted(members))
    ranks = {member: hashlib.sha256(f"{member} {resource}".encode()).digest() for member in members}
    return tuple(sorted(ranks, key=lambda member: ranks[member], reverse=True))


def coordinator_of(resource: str, members: Iterable[ProcessId]) -> ProcessId:
    """Choose the member that comes first for this resource."""
    return succession(resource, members)[0]
