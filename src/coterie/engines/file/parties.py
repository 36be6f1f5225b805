"""Which tasks hold a lock or wait for it, as the boards of all programs say."""

from __future__ import annotations

import os
import pwd
from typing import TYPE_CHECKING, NamedTuple

from coterie.engines.file.directory import BOARDS, READ, byte_lock
from coterie.engines.file.directory.board import HOLDS, WAITS, Entry, programs, read_board
from coterie.engines.file.directory.words import WORDS, Word
from coterie.locks.engine import Party

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coterie.engines.file.directory import Directory


class Standing(NamedTuple):
    """The tasks that hold a lock, by their tokens, and those that wait for it, the next first."""

    inside: list[Entry]
    waiting: list[Entry]


def line_of(directory: Directory, name: str) -> Standing:
    """Read which tasks hold one lock, or wait for it."""
    return all_lines(directory, name).get(name, Standing([], []))


def all_lines(directory: Directory, only: str | None = None) -> dict[str, Standing]:
    """Read which tasks hold or wait for which locks, or for one of them; nothing is changed.

    A directory that does not exist, or is removed meanwhile, has no locks.
    """
    try:
        with directory.open() as folder, folder.enter(BOARDS) as boards:
            words = os.open(WORDS, READ, dir_fd=folder.descriptor)
            try:
                return _all_lines(boards.descriptor, words, only)
            finally:
                os.close(words)
    except FileNotFoundError:
        return {}


def _all_lines(boards: int, words: int, only: str | None) -> dict[str, Standing]:
    entries: dict[str, list[Entry]] = {}
    for program in programs(boards):
        for entry in read_board(boards, program, words):
            if only is None or entry.name == only:
                entries.setdefault(entry.name, []).append(entry)
    lines = {}
    for name, found in entries.items():
        word = Word(name)
        credible = [entry for entry in found if entry.word == word.offset]
        is_held = byte_lock.blocked(words, word.alone)
        inside = _inside(credible) if is_held else []
        waiting = [entry for entry in credible if entry.state == WAITS]
        waiting.sort(key=lambda entry: entry.position)
        if inside or waiting:
            lines[name] = Standing(inside, waiting)
    return lines


def _inside(entries: Iterable[Entry]) -> list[Entry]:
    """List the holders: the one with the highest token, or all that share after the last that did not.

    A slot is cleared a moment after its lock is given back, when another may have it already.
    """
    holders = sorted(
        (entry for entry in entries if entry.state == HOLDS), key=lambda entry: entry.token
    )
    inside: list[Entry] = []
    for entry in holders:
        if not entry.shared:
            inside.clear()
        inside.append(entry)
    return [entry for entry in inside if entry.shared] or inside


def party(entry: Entry) -> Party:
    """Describe a task for people; one inside has a token."""
    token = entry.token if entry.state == HOLDS else None
    owner = entry.process
    if entry.user != os.geteuid():
        owner = f"{owner} ({_user_name(entry.user)})"
    return Party(entry.name, owner, entry.since, token, entry.shared)


def _user_name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"uid {user}"
