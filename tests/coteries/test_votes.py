"""Coteries by votes."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.coteries import Coterie, majority, projective_plane, singleton, unanimous, weighted
from coterie.errors import ConfigError, UsageError
from tests.coteries.strategies import smallest

if TYPE_CHECKING:
    from coterie.coteries.votes import Votes


@st.composite
def assignments(draw: st.DrawFn) -> Votes:
    """Draw votes, some zero, and a threshold above half of them."""
    votes = draw(st.lists(st.integers(0, 4), min_size=1, max_size=7).filter(any))
    total = sum(votes)
    threshold = draw(st.integers(total // 2 + 1, total))
    return weighted(dict(enumerate(votes, start=1)), threshold)


@pytest.mark.slow
@given(assignments())
def test_the_quorums_are_the_smallest_sets_with_enough_votes(coterie: Votes) -> None:
    enough = []
    for subset in range(1 << len(coterie.members)):
        chosen = frozenset(m for place, m in enumerate(coterie.members) if subset >> place & 1)
        if sum(coterie.votes[member] for member in chosen) >= coterie.threshold:
            enough.append(chosen)
    assert set(coterie.quorums) == smallest(enough)
    coterie.check()


@pytest.mark.slow
@given(assignments(), st.frozensets(st.integers(1, 7)), st.floats(0, 1))
def test_what_votes_answer_by_counting_is_what_the_list_of_quorums_says(
    coterie: Votes, suspects: frozenset[int], p: float
) -> None:
    listed = Coterie(coterie.members, coterie.quorums)
    assert coterie.is_nondominated() == listed.is_nondominated()
    assert coterie.contains_quorum(suspects) == listed.contains_quorum(suspects)
    assert coterie.load() == listed.load()
    assert coterie.availability(p).probability == pytest.approx(listed.availability(p).probability)
    found, expected = coterie.without(suspects), listed.without(suspects)
    assert (found is None) == (expected is None)
    assert found is None or (found in listed.quorums and not found & suspects)
    assert found is None or expected is None or len(found) == len(expected)
    for member in coterie.members:
        quorum, around = coterie.quorum_for(member), listed.quorum_for(member)
        assert quorum in listed.quorums
        assert len(quorum) == len(around)
        assert (member in quorum) == (member in around)


def test_one_vote_each_is_the_majority() -> None:
    assert weighted({1: 1, 2: 1, 3: 1, 4: 1, 5: 1}) == majority(range(1, 6))
    assert {len(quorum) for quorum in majority(range(1, 6)).quorums} == {3}
    assert {len(quorum) for quorum in majority(range(1, 5)).quorums} == {3}


def test_all_votes_on_one_member_is_the_centralised_system() -> None:
    assert weighted({1: 0, 2: 5, 3: 0}) == singleton([1, 2, 3], chosen=2)
    assert singleton([1, 2, 3]).quorums == (frozenset({1}),)
    assert singleton([1, 2, 3]).quorum_for(3) == {1}


def test_needing_all_votes_is_unanimity() -> None:
    assert unanimous([1, 2, 3]).quorums == (frozenset({1, 2, 3}),)


@pytest.mark.parametrize("threshold", [0, 2, 5])
def test_half_of_the_votes_is_not_enough_and_more_than_all_is_impossible(threshold: int) -> None:
    with pytest.raises(ConfigError, match=rf"{threshold} of 4 votes .* 3 to 4"):
        weighted({1: 1, 2: 1, 3: 1, 4: 1}, threshold)


@pytest.mark.parametrize("votes", [{}, {1: 0, 2: 0}])
def test_somebody_must_have_a_vote(votes: dict[int, int]) -> None:
    with pytest.raises(ConfigError, match="at least one member must have a vote"):
        weighted(votes)


def test_votes_cannot_be_negative() -> None:
    with pytest.raises(UsageError, match="negative"):
        weighted({1: 3, 2: -1})


def test_a_stranger_cannot_be_the_only_voter() -> None:
    with pytest.raises(ConfigError, match="at least one member must have a vote"):
        singleton([1, 2, 3], chosen=9)


def test_equal_voters_spread_their_quorums_around_the_circle() -> None:
    coterie = majority(range(1, 6))
    assert [sorted(coterie.quorum_for(member)) for member in coterie.members] == [
        [1, 2, 3],
        [2, 3, 4],
        [3, 4, 5],
        [1, 4, 5],
        [1, 2, 5],
    ]


def test_large_majorities_work_without_a_list_of_their_quorums() -> None:
    coterie = majority(range(1, 102))
    assert len(coterie.quorum_for(101)) == 51
    assert coterie.without(range(1, 51)) == frozenset(range(51, 102))
    assert coterie.without(range(1, 52)) is None
    assert coterie.load().low == Fraction(51, 101)
    assert coterie.is_nondominated()
    assert coterie.availability(0.5).probability == pytest.approx(0.5)
    with pytest.raises(UsageError, match="too many quorums to list"):
        _ = coterie.quorums
    with pytest.raises(UsageError, match="too many quorums to list"):
        _ = weighted({member: 1 + member % 2 for member in range(1, 102)}).quorums


def test_the_fano_plane_is_not_a_vote_assignment() -> None:
    """By symmetry the votes can be equal; then the complement of a line outweighs the line."""
    plane = projective_plane(2)
    line = plane.quorums[0]
    rest = set(plane.members) - line
    assert len(rest) > len(line)
    assert not plane.contains_quorum(rest)
