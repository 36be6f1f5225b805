"""Keeping the watches of a process to the peers that matter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coterie.process import Outbox, ProcessId


def watch_only(
    wanted: Iterable[ProcessId], watched: set[ProcessId], out: Outbox[Any]
) -> set[ProcessId]:
    """Watch these and no others, and return the set that is watched from now on."""
    from_now_on = set(wanted)
    for peer in sorted(watched - from_now_on):
        out.unwatch(peer)
    for peer in sorted(from_now_on - watched):
        out.watch(peer)
    return from_now_on
