"""Projective planes, and what is cut from them for other sizes."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from coterie.coteries import Coterie, projective_plane, relaxed_plane
from coterie.errors import UsageError

ORDERS = (2, 3, 4, 5, 7, 8, 9, 11, 13, 16)

# Figure 2 of the survey, with the indices put right so that i is in S_i.
FIGURE_2A = "123 246 356 145 257 167 347"
FIGURE_2B = (
    "1,2,3,4 2,5,8,11 3,6,8,13 4,6,10,11 1,5,6,7 2,6,9,12 2,7,10,13 1,8,9,10 3,7,9,11 3,5,10,12"
    " 1,11,12,13 4,7,8,12 4,5,9,13"
)


def figure_2a() -> list[frozenset[int]]:
    return [frozenset(map(int, quorum)) for quorum in FIGURE_2A.split()]


def figure_2b() -> list[frozenset[int]]:
    return [frozenset(map(int, quorum.split(","))) for quorum in FIGURE_2B.split()]


@pytest.mark.parametrize(
    ("order", "figure"), [(2, figure_2a()), (3, figure_2b())], ids=["K=3", "K=4"]
)
def test_figure_2_of_the_survey_is_the_plane_of_order_2_and_3(
    order: int, figure: list[frozenset[int]]
) -> None:
    assert all(member in quorum for member, quorum in enumerate(figure, start=1))
    drawn = Coterie(range(1, len(figure) + 1), figure)
    drawn.check()
    assert drawn == projective_plane(order)


@pytest.mark.parametrize("order", ORDERS)
def test_a_plane_meets_the_four_conditions_of_the_survey(order: int) -> None:
    """(1) quorums meet, (2) are equally large, (3) use members equally, and (4) i is in S_i."""
    plane = projective_plane(order)
    plane.check()
    assert len(plane.quorums) == len(plane.members) == order**2 + order + 1
    assert {len(quorum) for quorum in plane.quorums} == {order + 1}
    uses = Counter(member for quorum in plane.quorums for member in quorum)
    assert set(uses.values()) == {order + 1}
    assigned = [plane.quorum_for(member) for member in plane.members]
    assert all(member in quorum for member, quorum in zip(plane.members, assigned, strict=True))
    assert set(assigned) == set(plane.quorums)


@pytest.mark.parametrize("order", [2, 3, 4, 5, 7, 8, 9])
def test_a_perfect_matching_is_found_also_without_coordinates(order: int) -> None:
    plane = projective_plane(order)
    listed = Coterie(plane.members, plane.quorums)
    assigned = [listed.quorum_for(member) for member in listed.members]
    assert all(member in quorum for member, quorum in zip(listed.members, assigned, strict=True))
    assert set(assigned) == set(plane.quorums)


@pytest.mark.parametrize("order", [-1, 0, 1, 6, 10, 12, 14, 15])
def test_an_order_that_is_no_prime_power_is_refused_with_the_choices(order: int) -> None:
    with pytest.raises(UsageError, match=rf"order {order} .* 2, 3, 4, 5, 7, 8, 9, 11, 13, 16"):
        projective_plane(order)


@pytest.mark.slow
def test_every_size_up_to_the_plane_of_order_16_gets_a_coterie_near_the_square_root() -> None:
    for size in range(1, 274):
        coterie = relaxed_plane(size)
        coterie.check()
        assert coterie.members == tuple(range(1, size + 1))
        # Orders 6 and 10 being absent, the worst ratio is at 32 members, K = 8.
        assert max(map(len, coterie.quorums)) <= 1.5 * math.sqrt(size) + 1
        for member in coterie.members:
            quorum = coterie.quorum_for(member)
            assert member in quorum
            assert quorum in coterie.quorums


@pytest.mark.parametrize(("size", "largest"), [(1, 1), (2, 2), (3, 2), (7, 3), (13, 4), (21, 5)])
def test_where_there_is_a_plane_the_relaxed_one_is_it(size: int, largest: int) -> None:
    coterie = relaxed_plane(size)
    assert {len(quorum) for quorum in coterie.quorums} == {largest}


def test_three_members_form_the_triangle() -> None:
    triangle = relaxed_plane(3)
    assert [sorted(triangle.quorum_for(member)) for member in (1, 2, 3)] == [[1, 2], [2, 3], [1, 3]]


def test_dropping_points_without_stand_ins_makes_lines_disjoint() -> None:
    """Why there are stand-ins: lines of the plane of order 3 that met in 13 no longer meet."""
    plain = [quorum - {13} for quorum in projective_plane(3).quorums]
    assert any(one.isdisjoint(other) for one in plain for other in plain)


def test_a_hundred_thousand_members_have_quorums_that_meet_without_listing_them() -> None:
    coterie = relaxed_plane(100_000)
    sample = [1, 2, 318, 319, 320, 5_000, 50_000, 77_777, 99_999, 100_000]
    quorums = [coterie.quorum_for(member) for member in sample]
    assert all(member in quorum for member, quorum in zip(sample, quorums, strict=True))
    assert all(one & other for one in quorums for other in quorums)
    assert max(map(len, quorums)) <= 318
    assert max(map(max, quorums)) <= 100_000
    with pytest.raises(UsageError, match="too many quorums to list"):
        _ = coterie.quorums


def test_all_quorums_share_the_ids_so_that_they_fit_in_memory() -> None:
    coterie = relaxed_plane(1000)
    ids = {member: id(member) for member in coterie.quorum_for(1000)}
    shared = {member: id(member) for member in coterie.members}
    assert all(shared[member] == place for member, place in ids.items())


def test_a_plane_of_a_stranger_is_refused() -> None:
    with pytest.raises(UsageError, match="at least one member"):
        relaxed_plane(0)
