"""The ledger of the demonstration, and the fence in front of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from coterie.cli.demo_worker import Entry, Ledger, Refused

if TYPE_CHECKING:
    from pathlib import Path


def test_who_comes_with_the_largest_token_so_far_may_read_and_write(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    for token in (7, 9):
        number = ledger.last_number(token) + 1
        ledger.append(Entry(number, "w1", token, 0.0))
    assert [entry.number for entry in ledger.entries()] == [1, 2]


def test_a_write_is_refused_once_somebody_with_a_larger_token_has_written(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.append(Entry(1, "w2", 9, 0.0))
    with pytest.raises(Refused, match="7 is older than 9"):
        ledger.append(Entry(1, "w1", 7, 0.0))
    assert len(ledger.entries()) == 1


def test_a_write_is_refused_once_somebody_with_a_larger_token_has_read(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    late = ledger.last_number(7) + 1
    ledger.last_number(9)
    with pytest.raises(Refused):
        ledger.append(Entry(late, "w1", 7, 0.0))
