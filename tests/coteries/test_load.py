"""The optimal load."""

from __future__ import annotations

from fractions import Fraction

import networkx as nx  # type: ignore[import-untyped]  # ships no types
import pytest
from hypothesis import given

from coterie.coteries import Coterie, grid, majority, projective_plane, tree
from coterie.coteries.load import Load
from tests.coteries.strategies import coteries


def exactly(value: Fraction) -> Load:
    return Load(value, value)


@pytest.mark.parametrize("order", [2, 3, 4, 5])
def test_a_plane_shares_the_load_evenly(order: int) -> None:
    assert projective_plane(order).load() == exactly(Fraction(order + 1, order**2 + order + 1))


def test_a_majority_asks_more_than_half() -> None:
    assert majority(range(1, 8)).load() == exactly(Fraction(4, 7))


def test_a_square_grid_asks_a_row_and_a_column() -> None:
    assert grid(range(1, 10)).load() == exactly(Fraction(5, 9))


def test_a_wheel_spares_its_hub() -> None:
    """Asking the rim with 2/5 and each spoke with 1/5 gives everybody 3/5; nothing is better."""
    wheel = Coterie(range(1, 5), [{1, 4}, {2, 4}, {3, 4}, {1, 2, 3}])
    assert wheel.load() == exactly(Fraction(3, 5))


def test_seven_members_in_a_tree_carry_a_half() -> None:
    assert tree(range(1, 8)).load() == exactly(Fraction(1, 2))


@given(coteries())
def test_the_load_lies_between_the_bounds_of_naor_and_wool(coterie: Coterie) -> None:
    load = coterie.load()
    assert load.exact
    smallest = min(map(len, coterie.quorums))
    assert load.low >= Fraction(1, smallest)
    assert load.low >= Fraction(smallest, len(coterie.members))
    assert load.low <= 1


@given(coteries())
def test_no_weighting_of_the_members_certifies_a_higher_load(coterie: Coterie) -> None:
    """Weak duality with a weighting that fits the coterie: the members of one quorum, alike."""
    for quorum in coterie.quorums:
        certified = min(Fraction(len(quorum & other), len(quorum)) for other in coterie.quorums)
        assert certified <= coterie.load().low


@given(coteries(least=3))
def test_for_quorums_of_two_the_load_is_that_of_a_star_or_a_triangle(coterie: Coterie) -> None:
    """Pairwise meeting pairs are a star (load 1) or a triangle (load 2/3), as graph theory says."""
    pairs = [quorum for quorum in coterie.quorums if len(quorum) == 2]
    if len(pairs) < 2:
        return
    graph = nx.Graph(tuple(sorted(pair)) for pair in pairs)
    load = Coterie(coterie.members, pairs).load()
    cyclic = bool(nx.cycle_basis(graph))
    assert load == exactly(Fraction(2, 3) if cyclic else Fraction(1))


def test_too_large_a_program_gives_bounds_that_are_certain() -> None:
    coterie = tree(range(1, 24))
    load = coterie.load()
    assert not load.exact
    assert load.low < load.high
