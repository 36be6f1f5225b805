"""What boards and cells say of a holder: whose end a waiter watches for, and which token was drawn last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.engines.file.directory.board import ASKS, HOLDS, programs, read_board
from coterie.engines.file.directory.pipes import lent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from coterie.engines.file.directory.board import Entry
    from coterie.engines.file.directory.line import Waiter
    from coterie.engines.file.directory.words import Word, Words


def life_to_watch(words: Words, before: Waiter | None, word: Word) -> str | None:
    """Name the life of the one before in the line, or of the holder; None if there seems to be none."""
    return _holder(words, word) if before is None else f"{before.program:016x}"


def last_drawn(words: Words, word: Word) -> tuple[int, int]:
    """Return what the cell of a lock says, and the token of its holder on the board of the last drawer.

    Whenever the lock is taken, one of them changes: a program that draws ahead leaves the cell as it is.
    """
    last, drawer, drawn_for = word.cell.read(words.descriptor)
    entries = _entries(words, drawer, word, HOLDS) if drawn_for == word.offset else ()
    return last, max((entry.token for entry in entries), default=0)


def _holder(words: Words, word: Word) -> str | None:
    """Name the life of a holder, by the boards; None if the lock seems to be free."""
    _, drawer, drawn_for = word.cell.read(words.descriptor)
    # Most often it is the program that drew the last token, and no other board need be read.
    likely = _life(words, drawer, word, HOLDS) if drawn_for == word.offset else None
    if likely is not None:
        return likely
    # One that only asks may have been refused; it counts if no other has the lock.
    everyone = programs(words.boards.descriptor)
    for state in (HOLDS, ASKS):
        for program in everyone:
            found = _life(words, program, word, state)
            if found is not None:
                return found
    return None


def _life(words: Words, program: int, word: Word, state: int) -> str | None:
    """Name the life of a program if a slot of its board says so; that of a seat if it was lent."""
    for entry in _entries(words, program, word, state):
        return lent(program, entry.life) if entry.lent else f"{program:016x}"
    return None


def _entries(words: Words, program: int, word: Word, state: int) -> Iterator[Entry]:
    """Find what the board of a program says of a lock."""
    for entry in read_board(words.boards.descriptor, program, words.descriptor):
        if entry.word == word.offset and entry.state == state:
            yield entry
