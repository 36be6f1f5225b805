"""What happened between two looks, in a line each: changes that came and went between them are not seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from coterie.locks.status import Look

if TYPE_CHECKING:
    from collections.abc import Iterator

    from coterie.dashboard.snapshot import Lock, Snapshot


class Event(msgspec.Struct, frozen=True):
    """Something that has changed."""

    at: float
    look: Look
    text: str


def events_between(old: Snapshot, new: Snapshot) -> list[Event]:
    """Return the changes that a person would want to read about."""
    lines = [*_nodes(old, new), *_programs(old, new), *_locks(old, new), *_deadlocks(old, new)]
    return [Event(round(new.at, 1), look, text) for look, text in lines]


def _nodes(old: Snapshot, new: Snapshot) -> Iterator[tuple[Look, str]]:
    for name, node in new.nodes.items():
        before = old.nodes.get(name)
        if before is None or before.state != node.state:
            yield node.look, f"{name}: {node.state}"


def _programs(old: Snapshot, new: Snapshot) -> Iterator[tuple[Look, str]]:
    for name in sorted(new.programs.keys() - old.programs.keys()):
        yield "good", f"{name} has connected"
    for name in sorted(old.programs.keys() - new.programs.keys()):
        yield "warning", f"{name} has gone"


def _locks(old: Snapshot, new: Snapshot) -> Iterator[tuple[Look, str]]:
    for name, lock in new.locks.items():
        before = old.locks.get(name)
        for owner, token in _holds(lock):
            if before and (owner, token) in _holds(before):
                continue
            yield "good", f"{name}: held by {owner}, token {token}"
        if lock.silent and not (before and before.silent):
            yield "warning", f"{name}: {', '.join(lock.silent)} does not answer"
    for name in sorted(old.locks.keys() - new.locks.keys()):
        yield "good", f"{name}: free"


def _holds(lock: Lock) -> list[tuple[str, str | None]]:
    return [(holder.owner, holder.token) for holder in lock.holders]


def _deadlocks(old: Snapshot, new: Snapshot) -> Iterator[tuple[Look, str]]:
    for name in sorted(new.deadlocks.keys() - old.deadlocks.keys()):
        yield "bad", f"deadlock: {name}"
    for name in sorted(old.deadlocks.keys() - new.deadlocks.keys()):
        yield "good", f"the deadlock of {name} is over"
