"""Which slots of the boards count: those of programs that live, and of locks that a child keeps."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from coterie.engines.file.directory import byte_lock
from coterie.engines.file.directory.folder import Directory
from coterie.engines.file.directory.lock_file import LockDirectory
from coterie.engines.file.directory.program_record import EARLIER, LIFE_OFFSET, MAGIC, read_board

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from coterie.engines.file.directory.program_record import BoardEntry

EVERY_BYTE = byte_lock.request(byte_lock.ALONE, 0, 0)


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[list[LockDirectory]]:
    opened = [LockDirectory(Directory(str(tmp_path)), f"host:{number}") for number in (1, 2)]
    yield opened
    for program in opened:
        program.close()


def seen(reader: LockDirectory, program: int) -> list[BoardEntry]:
    return read_board(reader.boards.descriptor, program, reader.descriptor)


def test_a_program_that_holds_nothing_locks_nothing_in_the_file_of_all(
    programs: list[LockDirectory],
) -> None:
    """The kernel looks through all locks of a file at each call."""
    program, reader = programs
    handle = program.try_acquire("a")
    assert handle is not None
    assert byte_lock.blocked(reader.descriptor, EVERY_BYTE)
    handle.release()
    program.give(handle)
    assert not byte_lock.blocked(reader.descriptor, EVERY_BYTE)


def test_the_slots_of_a_program_that_has_ended_do_not_count(programs: list[LockDirectory]) -> None:
    program, reader = programs
    held = program.try_acquire("a")
    assert held is not None
    assert [entry.name for entry in seen(reader, program.program)] == ["a"]
    program.abandon()
    assert seen(reader, program.program) == []


def test_the_slot_of_a_lock_that_a_child_keeps_counts_as_long_as_the_child_does(
    programs: list[LockDirectory],
) -> None:
    program, reader = programs
    held = program.try_acquire("a")
    assert held is not None
    inherited = [os.dup(descriptor) for descriptor in held.lend()]
    program.abandon()
    (entry,) = seen(reader, program.program)
    assert entry.lent
    for descriptor in inherited:
        os.close(descriptor)
    assert seen(reader, program.program) == []


def test_the_slot_of_a_seat_that_was_dropped_does_not_count(programs: list[LockDirectory]) -> None:
    program, reader = programs
    handle = program.try_acquire("a")
    assert handle is not None
    del handle
    assert seen(reader, program.program) == []


def test_a_slot_of_an_earlier_program_counts_by_the_byte_that_it_locks(
    programs: list[LockDirectory], tmp_path: Path
) -> None:
    program, reader = programs
    handle = program.try_acquire("a")
    (now,) = seen(reader, program.program)
    board = (tmp_path / "boards" / f"{program.program:016x}").read_bytes()
    (tmp_path / "boards" / f"{1:016x}").write_bytes(board.replace(MAGIC, EARLIER, 1))
    assert seen(reader, 1) == []
    words = os.open(tmp_path / "words", os.O_RDWR)
    try:
        life = byte_lock.request(byte_lock.ALONE, LIFE_OFFSET + now.life)
        assert byte_lock.attempt(words, life)
        assert [(entry.name, entry.process) for entry in seen(reader, 1)] == [("a", "host:1")]
    finally:
        os.close(words)
    assert handle is not None
