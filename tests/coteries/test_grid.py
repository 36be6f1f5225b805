"""Grids."""

from __future__ import annotations

import math

import pytest

from coterie.coteries import grid
from coterie.errors import ConfigError


def test_every_size_gives_a_coterie_with_the_member_in_its_quorum() -> None:
    for size in range(1, 150):
        coterie = grid(range(1, size + 1))
        coterie.check()
        assert all(member in coterie.quorum_for(member) for member in coterie.members)
        assert max(map(len, coterie.quorums)) <= 2 * math.sqrt(size) + 1


def test_in_a_square_a_quorum_is_a_row_and_a_column() -> None:
    coterie = grid(range(1, 10))
    assert coterie.quorum_for(5) == {4, 5, 6, 2, 8}
    assert len(coterie.quorums) == 9


def test_four_members_have_quorums_of_three() -> None:
    assert str(grid(range(1, 5))) == "1,2,3 1,2,4 1,3,4 2,3,4"


def test_rows_differ_by_at_most_one_and_the_column_wraps_around() -> None:
    """Rows 1,2,3 / 4,5,6 / 7,8,9,10: the column of 10 goes on at 1 and 4."""
    assert grid(range(1, 11)).quorum_for(10) == {7, 8, 9, 10, 1, 4}


def test_members_need_not_be_consecutive() -> None:
    assert grid([10, 20, 30, 40]).quorum_for(40) == {20, 30, 40}


def test_nobody_makes_no_grid() -> None:
    with pytest.raises(ConfigError, match="at least one member"):
        grid([])


def test_a_hundred_thousand_members_have_their_crosses() -> None:
    coterie = grid(range(1, 100_001))
    assert len(coterie.quorum_for(100_000)) == 317 + 316 - 1
    assert coterie.quorum_for(1) & coterie.quorum_for(100_000)
