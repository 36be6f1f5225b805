"""Coteries as users write them."""

from __future__ import annotations

import pytest

from coterie.coteries import (
    Coterie,
    grid,
    majority,
    parse_coterie,
    projective_plane,
    relaxed_plane,
    singleton,
    tree,
    unanimous,
    weighted,
)
from coterie.errors import ConfigError, CoterieError, UsageError

SEVEN = range(1, 8)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plane", relaxed_plane(7)),
        ("plane:2", projective_plane(2)),
        ("grid", grid(SEVEN)),
        ("majority", majority(SEVEN)),
        ("tree", tree(SEVEN)),
        ("singleton", singleton(SEVEN)),
        ("unanimous", unanimous(SEVEN)),
        ("weighted:3,1,1,1,0,0,0", weighted({1: 3, 2: 1, 3: 1, 4: 1, 5: 0, 6: 0, 7: 0})),
        (" 1,2  2,3 1,3 ", Coterie(SEVEN, [{1, 2}, {2, 3}, {1, 3}])),
    ],
)
def test_a_coterie_is_named_or_listed(text: str, expected: Coterie) -> None:
    assert parse_coterie(text, 7) == expected


def test_what_a_coterie_prints_can_be_read_again() -> None:
    assert parse_coterie(str(tree(SEVEN)), 7) == tree(SEVEN)


@pytest.mark.parametrize(
    ("text", "error", "problem"),
    [
        ("fano", UsageError, "unknown coterie: 'fano'; choose from: grid, majority, plane"),
        ("", UsageError, "unknown coterie"),
        ("grid:3", UsageError, "unknown coterie"),
        ("plane:6", UsageError, "order 6 is known; choose a prime power: 2, 3, 4"),
        ("plane:two", UsageError, "'two' is not the order of a plane"),
        ("plane:2,3", UsageError, "'2,3' is not the order of a plane"),
        ("plane:3", ConfigError, "order 3 has 13 members, not 7"),
        ("weighted:1,2", ConfigError, "2 vote counts for 7 processes"),
        ("weighted:", UsageError, "'' is not a number of votes"),
        ("weighted:1,1,-1", UsageError, "'1,1,-1' is not a number of votes"),
        ("weighted:99999999,1,1,1,1,1,1", UsageError, "more than 10,000 votes in all"),
        ("weighted:" + "9" * 5_000, UsageError, "is not a number of votes"),
        ("weighted:0,0,0,0,0,0,0", ConfigError, "at least one member must have a vote"),
        ("1,2 3,4", ConfigError, r"quorums \{1,2\} and \{3,4\} have no member in common"),
        ("1,2 1,2,3", ConfigError, r"quorum \{1,2,3\} contains quorum \{1,2\}"),
        ("1,9", ConfigError, "names 9, which is not a member"),
        ("1,,2", UsageError, "'1,,2' is not a process id"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(
    text: str, error: type[CoterieError], problem: str
) -> None:
    with pytest.raises(error, match=problem) as caught:
        parse_coterie(text, 7)
    assert "\n" not in str(caught.value)


def test_a_coterie_of_nobody_is_refused() -> None:
    with pytest.raises(UsageError, match="at least one member"):
        parse_coterie("plane", 0)
