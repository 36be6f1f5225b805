"""Numbers that are never given twice."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from coterie import ConfigError
from coterie.engines.file import numbers
from coterie.engines.file.directory import Directory
from coterie.engines.file.numbers import RESERVED_AT_ONCE, next_number

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from coterie.engines.file.directory import Folder


@pytest.fixture
def counter(tmp_path: Path) -> Iterator[int]:
    descriptor = os.open(tmp_path / "counter", os.O_RDWR | os.O_CREAT)
    yield descriptor
    os.close(descriptor)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    with Directory(tmp_path).open() as opened:
        yield opened


def reserve(folder: Path) -> int:
    return int((folder / "reserve").read_text())


def reboot(folder: Path, monkeypatch: pytest.MonkeyPatch, boot: str = "another boot") -> None:
    (folder / "boot").write_text(boot.replace(" ", "-"))
    monkeypatch.setattr(numbers, "BOOT_ID", folder / "boot")


def test_numbers_follow_each_other_and_are_reserved_before_they_are_given(
    tmp_path: Path, folder: Folder, counter: int
) -> None:
    first = next_number(counter, folder)
    for expected in range(first + 1, first + 2 * RESERVED_AT_ONCE + 2):
        assert next_number(counter, folder) == expected
        assert expected <= reserve(tmp_path)


def test_the_reservation_is_synced_once_for_many_numbers(
    folder: Folder, counter: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    for _ in range(RESERVED_AT_ONCE):
        next_number(counter, folder)
    assert len(synced) == 2  # the file and its directory


@pytest.mark.parametrize(
    "left",
    [b"", b"\0" * 200, b"garbage", b"1 2 not-this-boot\n"],
    ids=["empty", "zeros", "garbage", "old"],
)
def test_after_a_power_failure_the_counter_may_be_anything(
    tmp_path: Path, folder: Folder, counter: int, monkeypatch: pytest.MonkeyPatch, left: bytes
) -> None:
    before = next_number(counter, folder)
    reboot(tmp_path, monkeypatch)
    os.ftruncate(counter, 0)
    os.pwrite(counter, left, 0)
    assert next_number(counter, folder) == before + RESERVED_AT_ONCE
    assert next_number(counter, folder) == before + RESERVED_AT_ONCE + 1


def test_whoever_is_killed_between_the_reservation_and_its_use_repeats_nothing(
    folder: Folder, counter: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException): ...

    given = [next_number(counter, folder)]
    real = os.pwrite

    def killed(*_: object) -> int:
        raise Killed

    for _ in range(RESERVED_AT_ONCE + 5):
        monkeypatch.setattr(os, "pwrite", killed)
        with pytest.raises(Killed):
            next_number(counter, folder)
        monkeypatch.setattr(os, "pwrite", real)
        given.append(next_number(counter, folder))
    assert given == sorted(set(given))


def test_a_kernel_without_a_name_for_its_boot_costs_syncs_and_not_safety(
    tmp_path: Path, folder: Folder, counter: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numbers, "BOOT_ID", tmp_path / "nowhere")
    given = []
    for _ in range(3):
        given.append(next_number(counter, folder))
        assert reserve(tmp_path) >= given[-1]
    assert given == sorted(set(given))


def test_a_deleted_directory_goes_on_above_the_old_numbers(
    tmp_path: Path, folder: Folder, counter: int
) -> None:
    old = [next_number(counter, folder) for _ in range(10)]
    (tmp_path / "reserve").unlink()
    os.ftruncate(counter, 0)
    assert next_number(counter, folder) > max(old)
    assert max(old) < 2**53


def test_a_damaged_reserve_is_refused_rather_than_guessed(
    tmp_path: Path, folder: Folder, counter: int
) -> None:
    (tmp_path / "reserve").write_text("?")
    with pytest.raises(ConfigError, match="damaged"):
        next_number(counter, folder)
