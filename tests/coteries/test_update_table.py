"""Update tables: lemmas 1 to 4 of 1996 and the worked example of figure 5."""

from __future__ import annotations

import itertools

import networkx as nx  # type: ignore[import-untyped]  # ships no types
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.coteries import Coterie, Keep, UpdateTable, projective_plane
from coterie.errors import ConfigError
from tests.coteries.strategies import coteries

FIGURE_5: Coterie = projective_plane(2)
INITIAL = UpdateTable.cyclic(range(1, 8))
BETTER_CYCLE = UpdateTable.cyclic([1, 2, 5, 3, 7, 6, 4])


def family(text: str) -> set[frozenset[int]]:
    return {frozenset(map(int, quorum)) for quorum in text.split()}


def tables(size: int) -> st.SearchStrategy[UpdateTable]:
    """Draw any table of `size` members."""
    return st.lists(st.integers(1, size), min_size=size, max_size=size).map(
        lambda row: UpdateTable.of(dict(enumerate(row, start=1)))
    )


def one_after_the_other(table: UpdateTable, failed: tuple[int, ...]) -> UpdateTable:
    for member in failed:
        table = table.after([member])
    return table


def test_figure_5_a_the_coterie_and_the_initial_table() -> None:
    assert set(FIGURE_5.quorums) == family("123 246 356 145 257 167 347")
    assert INITIAL.stand_ins == (2, 3, 4, 5, 6, 7, 1)


def test_figure_5_b_after_the_failure_of_1() -> None:
    assert INITIAL.after([1]).stand_ins == (2, 3, 4, 5, 6, 7, 2)
    updated = INITIAL.coterie_after(FIGURE_5, [1])
    assert set(updated.quorums) == family("23 246 356 245 257 267 347")


def test_figure_5_c_after_the_failure_of_1_and_5() -> None:
    assert INITIAL.after([1, 5]).stand_in(4) == 6
    updated = INITIAL.coterie_after(FIGURE_5, [5, 1])
    assert set(updated.quorums) == family("23 246 36 267 347")


def test_failing_1_to_6_in_order_ends_with_7_alone() -> None:
    expected = ["345 346 347 356 357 367", "456 457 467", "567", "67", "7"]
    for last, quorums in enumerate(expected, start=2):
        updated = INITIAL.coterie_after(FIGURE_5, range(1, last + 1))
        assert set(updated.quorums) == family(quorums)


@given(st.permutations(range(1, 8)), st.integers(0, 6))
def test_lemma_3_the_table_does_not_depend_on_the_order_of_failures(
    order: list[int], count: int
) -> None:
    failed = tuple(order[:count])
    assert one_after_the_other(INITIAL, failed) == INITIAL.after(failed)


@given(tables(6), st.permutations(range(1, 7)))
def test_lemma_3_holds_for_any_table_up_to_its_fault_tolerance(
    table: UpdateTable, order: list[int]
) -> None:
    failed = tuple(order[: table.fault_tolerance()])
    assert one_after_the_other(table, failed) == table.after(failed)


@pytest.mark.parametrize("keep", ["larger", "smaller"])
def test_lemma_4_the_coterie_does_not_depend_on_the_order_of_failures(keep: Keep) -> None:
    """All sequences of up to three failures on figure 5, in every order."""
    for count in (2, 3):
        for failed in itertools.permutations(range(1, 8), count):
            coterie, table = FIGURE_5, INITIAL
            for dead in failed:
                table = table.after([dead])
                coterie = coterie.replace(dead, table.stand_in(dead), keep=keep)
            assert coterie == INITIAL.coterie_after(FIGURE_5, failed, keep=keep)


@pytest.mark.slow
@given(coteries(least=3), st.data(), st.sampled_from(["larger", "smaller"]))
def test_lemma_4_holds_for_any_coterie(coterie: Coterie, data: st.DataObject, keep: Keep) -> None:
    table = UpdateTable.cyclic(coterie.members)
    failed = data.draw(st.permutations(coterie.members))[: len(coterie.members) - 1]
    updated, current = coterie, table
    for dead in failed:
        current = current.after([dead])
        updated = updated.replace(dead, current.stand_in(dead), keep=keep)
    assert updated == table.coterie_after(coterie, failed, keep=keep)
    assert len(updated.quorums) == 1


def tolerates(table: UpdateTable, failures: int) -> bool:
    """Definition 8: among any 1 to K members one has its stand-in outside."""
    return all(
        any(table.stand_in(member) not in group for member in group)
        for count in range(1, failures + 1)
        for group in itertools.combinations(table.members, count)
    )


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_k_fault_tolerant_means_no_cycle_of_length_k_or_less(size: int) -> None:
    """Definition 8 against the graph, for every table of up to five members."""
    for row in itertools.product(range(1, size + 1), repeat=size):
        table = UpdateTable(tuple(range(1, size + 1)), row)
        shortest = min(map(len, table.cycles()))
        for failures in range(1, size):
            assert tolerates(table, failures) == (shortest > failures)
        assert table.fault_tolerance() == shortest - 1


@pytest.mark.slow
@given(tables(7))
def test_the_cycles_are_those_of_the_graph(table: UpdateTable) -> None:
    graph = nx.DiGraph(zip(table.members, table.stand_ins, strict=True))
    expected = {frozenset(cycle) for cycle in nx.simple_cycles(graph)}
    assert {frozenset(cycle) for cycle in table.cycles()} == expected
    assert len(table.cycles()) == len(expected)


def test_lemma_1_within_the_fault_tolerance_somebody_is_always_left_to_stand_in() -> None:
    """And one failure more may be too much: exhaustively for all tables of four members."""
    for row in itertools.product(range(1, 5), repeat=4):
        table = UpdateTable((1, 2, 3, 4), row)
        bearable = table.fault_tolerance()
        for failed in itertools.combinations(table.members, bearable):
            updated = table.after(failed)
            assert all(updated.stand_in(dead) not in failed for dead in failed)
        with pytest.raises(ConfigError, match="no member is left"):
            table.after(next(c for c in table.cycles() if len(c) == bearable + 1))


@pytest.mark.parametrize("size", [1, 2, 3, 7, 13])
def test_lemma_2_the_cyclic_table_survives_all_failures_but_the_last(size: int) -> None:
    table = UpdateTable.cyclic(range(1, size + 1))
    assert table.fault_tolerance() == size - 1
    for survivor in table.members:
        after = table.after(set(table.members) - {survivor})
        assert set(after.stand_ins) == {survivor}


def bad_pairs(table: UpdateTable) -> list[tuple[int, int]]:
    """Find the pairs whose failure leaves one member in every quorum."""
    return [
        pair
        for pair in itertools.combinations(range(1, 8), 2)
        if frozenset.intersection(*table.coterie_after(FIGURE_5, pair).quorums)
    ]


def test_consecutive_failures_along_a_line_collapse_the_quorums() -> None:
    assert bad_pairs(INITIAL) == [(1, 2), (6, 7)]
    collapsed = INITIAL.coterie_after(FIGURE_5, [1, 2], keep="smaller")
    assert collapsed.quorums == (frozenset({3}),)


def test_a_cycle_without_three_consecutive_collinear_points_has_no_bad_pair() -> None:
    assert bad_pairs(BETTER_CYCLE) == []


def test_a_table_that_does_not_bear_the_failures_is_refused_with_the_reason() -> None:
    table = UpdateTable.of({1: 2, 2: 1, 3: 1})
    table.require(1)
    with pytest.raises(ConfigError, match=r"does not tolerate 2 failures: .* \{1,2\} replace only"):
        table.require(2)


def test_a_table_names_members_only() -> None:
    with pytest.raises(ConfigError, match="9 is to stand in for 1"):
        UpdateTable.of({1: 9})
    with pytest.raises(ConfigError, match="9 is not in the update table"):
        INITIAL.stand_in(9)
    with pytest.raises(ConfigError, match="9 is not in the update table"):
        INITIAL.after([9])
    with pytest.raises(ConfigError, match="twice"):
        UpdateTable.cyclic([1, 2, 1])
