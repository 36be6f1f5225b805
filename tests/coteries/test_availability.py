"""Availability: exact, and estimated."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.coteries import Coterie, grid, projective_plane, relaxed_plane, singleton, tree
from coterie.errors import UsageError
from tests.coteries.strategies import coteries


@given(coteries(), st.floats(0, 1))
def test_it_is_the_sum_over_all_sets_of_live_members(coterie: Coterie, p: float) -> None:
    size = len(coterie.members)
    expected = 0.0
    for subset in range(1 << size):
        alive = [member for place, member in enumerate(coterie.members) if subset >> place & 1]
        if coterie.contains_quorum(alive):
            expected += p ** len(alive) * (1 - p) ** (size - len(alive))
    found = coterie.availability(p)
    assert found.exact
    assert found.error == 0
    assert found.probability == pytest.approx(expected)


def test_the_fano_plane_beats_one_member_above_one_half() -> None:
    """Of the sets of 3 members 7 are lines; of those of 4, 28 contain one; all larger ones do."""
    p = 0.9
    q = 1 - p
    expected = 7 * p**3 * q**4 + 28 * p**4 * q**3 + 21 * p**5 * q**2 + 7 * p**6 * q + p**7
    assert projective_plane(2).availability(p).probability == pytest.approx(expected)
    assert expected > singleton([1, 2, 3]).availability(p).probability == pytest.approx(p)


def test_a_nondominated_coterie_is_available_half_the_time_when_its_members_are() -> None:
    for coterie in (projective_plane(2), tree(range(1, 16)), relaxed_plane(3)):
        assert coterie.is_nondominated()
        assert coterie.availability(0.5).probability == pytest.approx(0.5)


def test_a_large_coterie_is_sampled_reproducibly_and_says_so() -> None:
    coterie = grid(range(1, 26))
    one = coterie.availability(0.9, samples=2000, seed=7)
    assert not one.exact
    assert one.error > 0
    assert one == coterie.availability(0.9, samples=2000, seed=7)
    assert one != coterie.availability(0.9, samples=2000, seed=8)


def test_a_sample_without_a_failure_does_not_claim_certainty() -> None:
    found = grid(range(1, 26)).availability(1.0, samples=10)
    assert found.probability == 1
    assert found.error > 0


def test_an_estimate_needs_a_sample() -> None:
    with pytest.raises(UsageError, match="at least one sample"):
        grid(range(1, 26)).availability(0.9, samples=0)


def test_the_estimate_agrees_with_the_exact_value_of_a_5_by_5_grid() -> None:
    """A cross is alive iff a row and a column are: 1 - 2P(no row) + P(no row and no column)."""
    p, side = 0.9, 5
    no_row = (1 - p**side) ** side
    # No row and no column is full, by inclusion and exclusion over the full rows.
    neither = sum(
        (-1) ** rows * math.comb(side, rows) * p ** (rows * side) * (1 - p ** (side - rows)) ** side
        for rows in range(side + 1)
    )
    exact = 1 - 2 * no_row + neither
    found = grid(range(1, 26)).availability(p, samples=5000, seed=1)
    assert abs(found.probability - exact) < 4 * found.error


@pytest.mark.parametrize("p", [-0.1, 1.1])
def test_a_probability_lies_between_0_and_1(p: float) -> None:
    with pytest.raises(UsageError, match="between 0 and 1"):
        grid([1, 2, 3]).availability(p)
