"""Which tasks hold a lock or wait for it, as the boards of all programs say."""

from __future__ import annotations

import os
import pwd
from typing import TYPE_CHECKING, NamedTuple

from coterie.engines.file.directory import byte_lock
from coterie.engines.file.directory.folder import BOARDS, READ
from coterie.engines.file.directory.lock_file import LOCK_FILE, LockBytes
from coterie.engines.file.directory.program_record import (
    HOLDS,
    WAITS,
    BoardEntry,
    ReadingLimit,
    programs,
    read_board,
)
from coterie.locks.engine import Party

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from coterie.engines.file.directory.folder import Directory


class LockParties(NamedTuple):
    """The tasks that hold a lock, by their tokens, and those that wait for it, the next first."""

    inside: list[BoardEntry]
    waiting: list[BoardEntry]


def parties_of(directory: Directory, name: str) -> LockParties:
    """Read which tasks hold one lock, or wait for it."""
    return all_parties(directory, {name}).get(name, LockParties([], []))


def all_parties(
    directory: Directory, only: Container[str] | None = None, limit: ReadingLimit | None = None
) -> dict[str, LockParties]:
    """Read which tasks hold or wait for which locks, or for these; nothing is changed.

    A directory that does not exist, or is removed meanwhile, has no locks. The limit counts what is left out.
    """
    try:
        with directory.open() as folder, folder.enter(BOARDS) as boards:
            lock_file = os.open(LOCK_FILE, READ, dir_fd=folder.descriptor)
            try:
                return _all_parties(boards.descriptor, lock_file, only, limit or ReadingLimit())
            finally:
                os.close(lock_file)
    except FileNotFoundError:
        return {}


def _all_parties(
    boards: int, lock_file: int, only: Container[str] | None, limit: ReadingLimit
) -> dict[str, LockParties]:
    entries: dict[str, list[BoardEntry]] = {}
    for program in programs(boards):
        for entry in read_board(boards, program, lock_file, limit):
            if only is None or entry.name in only:
                entries.setdefault(entry.name, []).append(entry)
    parties = {}
    for name, found in entries.items():
        lock_bytes = LockBytes(name)
        credible = [entry for entry in found if entry.offset == lock_bytes.offset]
        is_held = byte_lock.blocked(lock_file, lock_bytes.alone)
        inside = _inside(credible) if is_held else []
        waiting = [entry for entry in credible if entry.state == WAITS]
        waiting.sort(key=lambda entry: entry.position)
        if inside or waiting:
            parties[name] = LockParties(inside, waiting)
    return parties


def _inside(entries: Iterable[BoardEntry]) -> list[BoardEntry]:
    """List the holders: the one with the highest token, or all that share after the last that did not.

    A slot is cleared a moment after its lock is given back, when another may have it already.
    """
    holders = sorted(
        (entry for entry in entries if entry.state == HOLDS), key=lambda entry: entry.token
    )
    inside: list[BoardEntry] = []
    for entry in holders:
        if not entry.shared:
            inside.clear()
        inside.append(entry)
    return [entry for entry in inside if entry.shared] or inside


def party(entry: BoardEntry) -> Party:
    """Describe a task for people; one inside has a token."""
    holds = entry.state == HOLDS
    owner = entry.process
    if entry.user != os.geteuid():
        owner = f"{owner} ({user_name(entry.user)})"
    if not holds:
        return Party(entry.name, owner, entry.since, None, entry.shared)
    since = entry.granted or entry.since
    waited = since - entry.since
    return Party(entry.name, owner, since, entry.token, entry.shared, waited, entry.note)


def user_name(user: int) -> str:
    """Name a user, by the system."""
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"uid {user}"
