"""The laws that hold for every coterie."""

from __future__ import annotations

import itertools
import pickle
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.coteries import Coterie, majority, projective_plane
from coterie.errors import ConfigError
from tests.coteries.strategies import all_coteries, coteries

if TYPE_CHECKING:
    from random import Random

WHEEL = Coterie([1, 2, 3, 4], [{1, 4}, {2, 4}, {3, 4}, {1, 2, 3}])


def sets(*quorums: str) -> list[frozenset[int]]:
    return [frozenset(map(int, quorum)) for quorum in quorums]


def test_members_and_quorums_come_sorted_whatever_order_they_were_given_in() -> None:
    coterie = Coterie([3, 1, 2], [[3, 2], [1, 2], [2, 3], [3, 1]])
    assert coterie.members == (1, 2, 3)
    assert coterie.quorums == tuple(sets("12", "13", "23"))
    assert str(coterie) == "1,2 1,3 2,3"


def test_equal_quorums_make_equal_coteries_whatever_made_them() -> None:
    listed = Coterie([1, 2, 3], sets("12", "13", "23"))
    assert listed == majority([1, 2, 3])
    assert hash(listed) == hash(majority([1, 2, 3]))
    assert listed != Coterie([1, 2, 3, 4], sets("12", "13", "23"))
    assert listed != Coterie([1, 2, 3], sets("12", "13"))
    assert listed != "1,2 1,3 2,3"


def test_a_coterie_survives_pickling_for_executors_in_other_processes() -> None:
    encoded = pickle.dumps(projective_plane(2))
    assert pickle.loads(encoded) == projective_plane(2)  # noqa: S301  # our own bytes


def test_members_and_quorums_cannot_be_assigned() -> None:
    with pytest.raises(AttributeError):
        WHEEL.members = (1,)  # type: ignore[misc]  # the point of the test
    with pytest.raises(AttributeError):
        WHEEL.quorums = ()  # type: ignore[misc]  # the point of the test


def test_check_names_the_two_quorums_that_do_not_meet() -> None:
    with pytest.raises(ConfigError, match=r"\{1,2\} and \{3,4\} have no member in common"):
        Coterie(range(1, 5), sets("12", "34")).check()


def test_check_names_the_quorum_that_contains_another_in_either_order() -> None:
    with pytest.raises(ConfigError, match=r"quorum \{1,2,3\} contains quorum \{1,2\}"):
        Coterie(range(1, 4), sets("12", "123")).check()
    with pytest.raises(ConfigError, match=r"quorum \{1,2,3\} contains quorum \{2,3\}"):
        Coterie(range(1, 4), sets("123", "23")).check()


@pytest.mark.parametrize(
    ("quorums", "problem"),
    [
        ([], "at least one quorum"),
        ([[]], "at least one member"),
        ([[1, 5]], "names 5, which is not a member"),
    ],
)
def test_quorums_must_exist_and_be_made_of_members(quorums: list[list[int]], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        Coterie([1, 2, 3], quorums)


@pytest.mark.slow
@given(coteries())
def test_the_quorum_for_a_member_is_a_smallest_one_around_it(coterie: Coterie) -> None:
    for member in coterie.members:
        quorum = coterie.quorum_for(member)
        around = [other for other in coterie.quorums if member in other] or coterie.quorums
        assert quorum in around
        assert len(quorum) == min(map(len, around))


@pytest.mark.slow
@given(coteries(), st.randoms(use_true_random=False))
def test_the_quorum_for_a_member_does_not_depend_on_the_order_of_the_input(
    coterie: Coterie, random: Random
) -> None:
    quorums = list(coterie.quorums)
    random.shuffle(quorums)
    again = Coterie(coterie.members, quorums)
    assert [again.quorum_for(member) for member in again.members] == [
        coterie.quorum_for(member) for member in coterie.members
    ]


def test_as_many_members_as_possible_have_a_quorum_of_their_own() -> None:
    """Four members share three smallest quorums; the fourth takes one that is used least."""
    coterie = Coterie(range(1, 5), sets("12", "13", "14"))
    used = [coterie.quorum_for(member) for member in coterie.members]
    assert len(set(used)) == 3


def test_an_augmenting_path_moves_earlier_members_aside() -> None:
    """Member 1 takes {1,2} first and must leave it, because member 2 has no other choice."""
    coterie = Coterie(range(1, 6), sets("12", "13", "14", "15"))
    assert [sorted(coterie.quorum_for(member)) for member in (2, 3, 4, 5)] == [
        [1, 2],
        [1, 3],
        [1, 4],
        [1, 5],
    ]


def test_a_stranger_has_no_quorum() -> None:
    with pytest.raises(ConfigError, match="9 is not a member"):
        WHEEL.quorum_for(9)


@pytest.mark.slow
@given(coteries(), st.frozensets(st.integers(1, 7)))
def test_without_gives_a_smallest_quorum_that_avoids_the_suspects(
    coterie: Coterie, suspects: frozenset[int]
) -> None:
    usable = [quorum for quorum in coterie.quorums if not quorum & suspects]
    found = coterie.without(suspects)
    assert (found is None) == (not usable)
    assert found is None or (found in usable and len(found) == min(map(len, usable)))
    assert coterie.contains_quorum(set(coterie.members) - suspects) == bool(usable)


def dominates(better: Coterie, worse: Coterie) -> bool:
    """Apply the definition."""
    return better != worse and all(
        any(quorum <= other for quorum in better.quorums) for other in worse.quorums
    )


def test_nondominated_means_that_no_other_coterie_is_better_for_all_of_up_to_four_members() -> None:
    """There are 1, 3, 11 and 80 coteries, and 1, 2, 4 and 12 nondominated ones."""
    counts = []
    for size in range(1, 5):
        everything = list(all_coteries(size))
        best = [
            coterie
            for coterie in everything
            if not any(dominates(other, coterie) for other in everything)
        ]
        assert [coterie for coterie in everything if coterie.is_nondominated()] == best
        counts.append((len(everything), len(best)))
    assert counts == [(1, 1), (3, 2), (11, 4), (80, 12)]


@pytest.mark.slow
@given(coteries())
def test_a_coterie_is_dominated_iff_some_set_and_its_complement_hold_no_quorum(
    coterie: Coterie,
) -> None:
    everyone = set(coterie.members)
    undecided = any(
        not coterie.contains_quorum(part) and not coterie.contains_quorum(everyone - set(part))
        for length in range(len(everyone) + 1)
        for part in itertools.combinations(coterie.members, length)
    )
    assert coterie.is_nondominated() == (not undecided)
