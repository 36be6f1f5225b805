"""Tree quorums."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.coteries import Coterie, tree
from coterie.errors import ConfigError, UsageError


def test_seven_members_have_the_fifteen_quorums_of_the_paper() -> None:
    """Four paths; two paths below the root; and one or two detours around 2 and 3."""
    coterie = tree(range(1, 8))
    coterie.check()
    assert len(coterie.quorums) == 15
    assert {1, 2, 4} in coterie.quorums
    assert {2, 4, 3, 6} in coterie.quorums
    assert {1, 4, 5} in coterie.quorums
    assert {4, 5, 6, 7} in coterie.quorums


@pytest.mark.slow
@given(st.integers(1, 12), st.frozensets(st.integers(1, 12)), st.floats(0, 1))
def test_what_a_tree_answers_by_its_shape_is_what_the_list_of_quorums_says(
    size: int, suspects: frozenset[int], p: float
) -> None:
    coterie = tree(range(1, size + 1))
    coterie.check()
    listed = Coterie(coterie.members, coterie.quorums)
    assert coterie.is_nondominated() == listed.is_nondominated()
    assert coterie.contains_quorum(suspects) == listed.contains_quorum(suspects)
    assert coterie.availability(p).probability == pytest.approx(listed.availability(p).probability)
    found, expected = coterie.without(suspects), listed.without(suspects)
    assert (found is None) == (expected is None)
    assert found is None or expected is None or len(found) == len(expected)
    assert found is None or (found in listed.quorums and not found & suspects)
    for member in coterie.members:
        assert member in coterie.quorum_for(member)
        assert coterie.quorum_for(member) in listed.quorums


def test_a_path_has_about_log_n_members() -> None:
    coterie = tree(range(1, 100_001))
    assert len(coterie.quorum_for(100_000)) == 17
    assert len(coterie.quorum_for(1)) == 17
    with pytest.raises(UsageError, match="too many quorums to list"):
        _ = coterie.quorums


def test_a_tree_of_nobody_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least one member"):
        tree([])
