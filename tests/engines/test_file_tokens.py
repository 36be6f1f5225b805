"""Tokens that only grow."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING, Any

import pytest

from coterie import ConfigError
from coterie.engines.file.directory import byte_lock, tokens
from coterie.engines.file.directory.folder import Directory
from coterie.engines.file.directory.tokens import (
    AHEAD_MAX,
    CELL,
    HEADER,
    MAGIC,
    RESERVED_AT_ONCE,
    TokenCell,
    TokenSource,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Drawer:
    """A program that draws tokens from one cell, or from another."""

    def __init__(self, folder: Path, program: int = 1) -> None:
        self._program = program
        self._folder = Directory(str(folder)).open()
        flags = os.O_RDWR | os.O_CREAT
        self.words = os.open("words", flags, dir_fd=self._folder.descriptor)
        self.cell = TokenCell(7)
        try:
            self._tokens = TokenSource(self.words, self._folder, "words")
        except BaseException:
            self.close()
            raise

    def draw(self, cell: TokenCell | None = None, word: int = 2, *, ahead: bool = False) -> int:
        token = self._tokens.draw(self.words, cell or self.cell, self._program, word, ahead=ahead)
        assert token is not None
        return token

    def close(self) -> None:
        os.close(self.words)
        self._folder.close()


@pytest.fixture
def drawer(tmp_path: Path) -> Iterator[Drawer]:
    made = Drawer(tmp_path)
    yield made
    made.close()


def reserve(folder: Path) -> int:
    return int((folder / "reserve").read_text())


def reboot(folder: Path, monkeypatch: pytest.MonkeyPatch, boot: str = "another-boot") -> None:
    (folder / "boot").write_text(boot)
    monkeypatch.setattr(tokens, "BOOT_ID", str(folder / "boot"))


def test_tokens_follow_each_other_and_are_reserved_before_they_are_given(
    tmp_path: Path, drawer: Drawer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "RESERVED_AT_ONCE", 100)
    first = drawer.draw()
    for expected in range(first + 1, first + 250):
        assert drawer.draw() == expected
        assert expected <= reserve(tmp_path)


def test_programs_and_cells_go_on_where_others_are(tmp_path: Path, drawer: Drawer) -> None:
    other = Drawer(tmp_path)
    given = [each.draw() for each in (drawer, other, other, drawer, other)]
    assert given == sorted(set(given))
    assert drawer.draw(TokenCell(8)) < given[-1], "locks with other cells have their own sequence"
    other.close()


def test_a_program_learns_of_the_reservation_of_another(
    tmp_path: Path, drawer: Drawer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "RESERVED_AT_ONCE", 10)
    other = Drawer(tmp_path)
    token = drawer.draw()
    beyond = token + RESERVED_AT_ONCE
    os.pwrite(drawer.words, CELL.pack(reserve(tmp_path), 0, 0), drawer.cell.offset)
    assert drawer.draw() == beyond
    assert other.draw() == beyond + 1
    other.close()


def test_the_reservation_is_synced_once_for_many_tokens(
    tmp_path: Path, drawer: Drawer, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    for _ in range(1000):
        drawer.draw()
    assert not synced
    os.pwrite(drawer.words, CELL.pack(reserve(tmp_path) - 500, 0, 0), drawer.cell.offset)
    for _ in range(1000):
        drawer.draw()
    assert len(synced) == 2  # the file and its directory


@pytest.mark.parametrize(
    "left",
    [b"", b"\0" * 64, b"\xff" * 64, b"garbage" * 9],
    ids=["empty", "zeros", "ones", "garbage"],
)
def test_after_a_power_failure_the_file_may_hold_anything(
    tmp_path: Path, drawer: Drawer, monkeypatch: pytest.MonkeyPatch, left: bytes
) -> None:
    before = [drawer.draw() for _ in range(5)]
    end = reserve(tmp_path)
    reboot(tmp_path, monkeypatch)
    os.ftruncate(drawer.words, 0)
    os.pwrite(drawer.words, left, 0)
    os.pwrite(drawer.words, left, drawer.cell.offset)
    after = Drawer(tmp_path)
    given = [after.draw() for _ in range(3)]
    assert max(before) <= end < given[0]
    assert given == [end + 1, end + 2, end + 3]
    after.close()


def test_a_power_failure_that_keeps_an_older_cell_repeats_nothing(
    tmp_path: Path, drawer: Drawer, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = drawer.draw()
    kept = os.pread(drawer.words, CELL.size, drawer.cell.offset)
    given = [drawer.draw() for _ in range(10)]
    os.pwrite(drawer.words, kept, drawer.cell.offset)
    reboot(tmp_path, monkeypatch)
    after = Drawer(tmp_path)
    assert after.draw() > max(first, *given)
    after.close()


def test_one_that_is_killed_between_the_reservation_and_its_use_repeats_nothing(
    drawer: Drawer, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException): ...

    monkeypatch.setattr(tokens, "RESERVED_AT_ONCE", 3)
    given = [drawer.draw()]
    os.pwrite(drawer.words, CELL.pack(given[0] + RESERVED_AT_ONCE - 5, 0, 0), drawer.cell.offset)
    real = os.pwrite

    def killed(*_: object) -> int:
        raise Killed

    for _ in range(20):
        monkeypatch.setattr(os, "pwrite", killed)
        with pytest.raises(Killed):
            drawer.draw()
        monkeypatch.setattr(os, "pwrite", real)
        given.append(drawer.draw())
    assert given == sorted(set(given))


def test_a_kernel_without_a_name_for_its_boot_costs_tokens_and_not_safety(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "BOOT_ID", str(tmp_path / "nowhere"))
    drawers = [Drawer(tmp_path)]
    given = [drawers[0].draw()]
    for _ in range(3):
        drawers.append(Drawer(tmp_path))
        given += [drawer.draw() for drawer in reversed(drawers)]
        assert reserve(tmp_path) >= given[-1]
    assert given == sorted(set(given))
    for drawer in drawers:
        drawer.close()


def test_a_deleted_directory_goes_on_above_the_old_tokens(tmp_path: Path, drawer: Drawer) -> None:
    old = [drawer.draw() for _ in range(10)]
    (tmp_path / "reserve").unlink()
    (tmp_path / "words").unlink()
    after = Drawer(tmp_path)
    assert after.draw() > max(old)
    assert max(old) < 2**53
    after.close()


def test_a_damaged_reserve_is_refused_rather_than_guessed(tmp_path: Path) -> None:
    (tmp_path / "reserve").write_text("?")
    with pytest.raises(ConfigError, match="damaged"):
        Drawer(tmp_path)


def test_a_cell_that_makes_no_sense_is_not_believed(drawer: Drawer) -> None:
    token = drawer.draw()
    os.pwrite(drawer.words, CELL.pack(2**60, 0, 0), drawer.cell.offset)
    assert drawer.draw() <= token + 1


def test_tokens_stay_below_2_to_the_53(drawer: Drawer, tmp_path: Path) -> None:
    header = os.pread(drawer.words, HEADER.size, 0)
    _, boot, _, _ = HEADER.unpack(header)
    end = 2**53 - 1
    os.pwrite(drawer.words, HEADER.pack(MAGIC, boot, end - 1, end), 0)
    after = Drawer(tmp_path)
    assert after.draw() == end
    with pytest.raises(ConfigError, match="2\\^53"):
        after.draw()
    after.close()


def test_a_cell_at_which_another_process_is_stopped_is_not_waited_for(
    tmp_path: Path, drawer: Drawer
) -> None:
    other = Drawer(tmp_path)
    assert byte_lock.attempt(other.words, other.cell.lock)
    folder = Directory(str(tmp_path)).open()
    with folder:
        assert (
            TokenSource(drawer.words, folder, "words").draw(drawer.words, drawer.cell, 1, 2) is None
        )
    other.close()
    drawer.draw()


def test_one_that_draws_alone_and_ahead_writes_seldom_and_leaves_out_few(
    tmp_path: Path, drawer: Drawer, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[bytes] = []
    real = os.pwrite

    def noted(descriptor: int, content: bytes, offset: int) -> int:
        written.append(content)
        return real(descriptor, content, offset)

    monkeypatch.setattr(os, "pwrite", noted)
    first = drawer.draw(ahead=True)
    given = [first, *(drawer.draw(ahead=True) for _ in range(1000))]
    assert given == list(range(first, first + 1001))
    assert len(written) < 2 * 1000 / AHEAD_MAX
    other = Drawer(tmp_path, 2)
    assert given[-1] < other.draw(ahead=True) <= given[-1] + AHEAD_MAX
    other.close()


def test_what_is_drawn_ahead_is_reserved(
    tmp_path: Path, drawer: Drawer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "RESERVED_AT_ONCE", 100)
    os.pwrite(drawer.words, CELL.pack(reserve(tmp_path) - 500, 0, 0), drawer.cell.offset)
    for _ in range(1000):
        assert drawer.draw(ahead=True) <= reserve(tmp_path)
    assert CELL.unpack(os.pread(drawer.words, CELL.size, drawer.cell.offset))[0] <= reserve(
        tmp_path
    )


@pytest.mark.parametrize("seed", range(20))
def test_tokens_of_each_lock_grow_whoever_draws_ahead_from_its_cell(
    tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    drawers = [Drawer(tmp_path, program) for program in (1, 2, 3)]
    words = (5, 6)  # two locks of one cell
    cells = {(drawer, word): TokenCell(7) for drawer in drawers for word in words}
    last = dict.fromkeys(words, 0)
    drawer = drawers[0]
    given = 0
    for _ in range(500):
        if chance.random() < 0.1:
            drawer = chance.choice(drawers)
        if chance.random() < 0.01:  # as when a program has known too many names
            cells[drawer, words[0]] = TokenCell(7)
        word = chance.choice(words) if chance.random() < 0.1 else words[0]
        token = drawer.draw(cells[drawer, word], word, ahead=chance.random() < 0.9)
        assert token > last[word], f"seed {seed}"
        last[word] = token
        given += 1
    left = os.pread(drawer.words, CELL.size, cells[drawer, words[0]].offset)
    assert (
        CELL.unpack(left)[0] - int((tmp_path / "reserve").read_text()) + RESERVED_AT_ONCE
        <= 2 * given
    )
    for each in drawers:
        each.close()


def test_another_lock_of_the_cell_may_draw_while_one_takes_what_it_has_drawn_ahead(
    tmp_path: Path, drawer: Drawer, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, third = Drawer(tmp_path, 2), Drawer(tmp_path, 3)
    for _ in range(10):
        drawer.draw(ahead=True)
    real = os.pread
    meanwhile: list[int] = []

    def late(*arguments: Any) -> bytes:
        found = real(*arguments)
        monkeypatch.undo()
        meanwhile.extend(other.draw(TokenCell(7), 3) for _ in range(100))
        return found

    monkeypatch.setattr(os, "pread", late)
    given = drawer.draw(ahead=True)
    assert len(meanwhile) == 100
    assert other.draw(TokenCell(7), 3) > meanwhile[-1]
    assert third.draw(ahead=True) > given
    assert drawer.draw(ahead=True) > given + 1
    for each in (other, third):
        each.close()


def test_one_that_is_interrupted_as_it_draws_ahead_repeats_nothing(
    drawer: Drawer, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = [drawer.draw(ahead=True) for _ in range(8)]
    real = byte_lock.call

    def interrupted(*arguments: Any) -> Any:
        result = real(*arguments)
        if arguments[2] == drawer.cell.unlock:
            raise KeyboardInterrupt
        return result

    monkeypatch.setattr(byte_lock, "call", interrupted)
    for _ in range(100):
        try:
            given.append(drawer.draw(ahead=True))
        except KeyboardInterrupt:
            continue
    assert given == sorted(set(given))
