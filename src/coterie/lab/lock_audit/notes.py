"""The record of an audit: notes of programs in the order of the clock of this machine, and turns made of them.

All times are of CLOCK_MONOTONIC, which the processes of a machine share. A note of an answer that a lock is still
held has the time *before* the question, and a note of an entry the time *after* the call has returned. So a hold in
this record is never longer than the library has called it held, and two that overlap here did overlap.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

# Kinds of notes. ASKED: `acquire` is called. STILL: the library calls the lock held, without a question to the server.
# CONFIRMED: it does so after one. TOLD: it says that the lock is lost. LEFT: `release` has returned.
ASKED, ENTERED, STILL, CONFIRMED = "asked", "entered", "still", "confirmed"
TOLD, LEFT, FAILED = "told", "left", "failed"

BY_ITSELF, BY_QUESTION, BY_RELEASE = "by itself", "by a question", "by release"  # how TOLD


class AuditNote(msgspec.Struct, array_like=True):
    """What a program has seen, and when."""

    program: int
    turn: int
    kind: str
    at: float
    token: int | None = None
    how: str = ""  # TOLD
    text: str = ""  # of an error


class NoteWriter:
    """Appends notes to the file that all programs share; each is one write, so they do not mix."""

    def __init__(self, path: str, program: int) -> None:
        """Write as one program."""
        self._program = program
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._encode = msgspec.json.Encoder().encode

    def add(
        self,
        turn: int,
        kind: str,
        at: float,
        *,
        token: int | None = None,
        how: str = "",
        text: str = "",
    ) -> None:
        """Append a note."""
        note = AuditNote(self._program, turn, kind, at, token, how, text[:200])
        os.write(self._file, self._encode(note) + b"\n")


class NoteReader:
    """Reads what programs have noted so far."""

    def __init__(self, path: Path) -> None:
        """Read from the beginning."""
        self._path = path
        self._read = 0  # bytes
        self._decode = msgspec.json.Decoder(AuditNote).decode

    def new(self) -> list[AuditNote]:
        """Return the notes since the last call."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._read)
            whole, newline, _ = file.read().rpartition(b"\n")
        self._read += len(whole) + len(newline)
        return [self._decode(line) for line in whole.split(b"\n") if line]


class Turn(msgspec.Struct):
    """One attempt of a program to take the lock, and its stay inside."""

    place: int  # of the program, in the order in which they stand
    program: int  # its process id
    asked: float
    entered: float | None = None
    token: int | None = None
    until: float = 0.0  # when the library has called it held for the last time, without a question to the server
    confirmed: float | None = None  # and when, after one
    told: float | None = None
    told_how: str = ""
    told_text: str = ""
    left: float | None = None
    failed: str = ""

    def note(self, note: AuditNote) -> None:
        """Take over what was seen of this turn."""
        match note.kind:  # `ASKED` has made the turn
            case "entered":
                self.entered = self.until = note.at
                self.token = note.token
            case "still":
                self.until = note.at
            case "confirmed":
                self.confirmed = note.at
            case "told":
                if self.told is None:  # the first time counts
                    self.told, self.told_how, self.told_text = note.at, note.how, note.text
            case "left":
                self.left = note.at
            case _:
                self.failed = note.text


class Turns:
    """The turns of all programs, made of notes as these come."""

    def __init__(self) -> None:
        """Begin with none."""
        self.all: list[Turn] = []
        self.places: dict[int, int] = {}  # of programs, by process id
        self._turns: dict[tuple[int, int], Turn] = {}

    def add(self, notes: Iterable[AuditNote]) -> None:
        """Take over notes, each of which comes after those of the same program that are older."""
        for note in notes:
            key = note.program, note.turn
            if note.kind == ASKED:
                self._turns[key] = Turn(self.places.get(note.program, 0), note.program, note.at)
                self.all.append(self._turns[key])
            else:
                self._turns[key].note(note)

    def inside(self) -> list[Turn]:
        """List the turns that have entered and not left, as far as is known."""
        return [
            turn
            for turn in self.all
            if turn.entered is not None and turn.left is None and turn.told is None
        ]
