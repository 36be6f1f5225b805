"""The coterie update of 1996 and its theorems."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.coteries import Coterie, Keep, majority
from coterie.coteries.replacement import replace_member
from coterie.errors import ConfigError
from tests.coteries.strategies import all_coteries, coteries

KEEPS: tuple[Keep, ...] = ("larger", "smaller")


@st.composite
def failures(draw: st.DrawFn) -> tuple[Coterie, int, int]:
    """Draw a coterie, a member that fails and another that takes its place."""
    coterie = draw(coteries(least=2))
    failed = draw(st.sampled_from(coterie.members))
    by = draw(st.sampled_from([member for member in coterie.members if member != failed]))
    return coterie, failed, by


def test_the_stand_in_takes_the_place_of_the_failed_in_every_quorum() -> None:
    """CT_xy: x goes; y comes unless it is there; a quorum without x stays."""
    quorums = [frozenset({1, 2}), frozenset({1, 3}), frozenset({2, 3})]
    assert replace_member(quorums, 1, 2, "larger") == {frozenset({2, 3})}
    assert replace_member(quorums, 1, 2, "smaller") == {frozenset({2})}
    coterie = Coterie(range(1, 5), [{1, 2, 3}, {2, 4}, {3, 4, 1}])
    assert str(coterie.replace(1, 4)) == "2,3,4"
    assert str(coterie.replace(1, 4, keep="smaller")) == "2,4 3,4"
    assert coterie.replace(1, 4).members == (2, 3, 4)


@pytest.mark.slow
@pytest.mark.parametrize("keep", KEEPS)
@given(case=failures())
def test_theorem_1_the_result_is_a_coterie(keep: Keep, case: tuple[Coterie, int, int]) -> None:
    coterie, failed, by = case
    updated = coterie.replace(failed, by, keep=keep)
    updated.check()
    assert failed not in updated.members
    assert max(map(len, updated.quorums)) <= max(map(len, coterie.quorums))


@pytest.mark.slow
@given(failures())
def test_theorem_2_a_pending_request_finds_a_quorum_that_extends_its_own(
    case: tuple[Coterie, int, int],
) -> None:
    """For x in G there is G' in C' with G - {x} a subset of G', because Q keeps the larger."""
    coterie, failed, by = case
    updated = coterie.replace(failed, by, keep="larger")
    for quorum in coterie.quorums:
        if failed in quorum:
            assert any(quorum - {failed} <= other for other in updated.quorums)


def test_theorem_2_fails_if_q_keeps_the_smaller() -> None:
    """Smallest counterexample: {1,3},{2,3} with x = 3, y = 1 becomes {1}; {2} is in no quorum."""
    updated = Coterie([1, 2, 3], [{1, 3}, {2, 3}]).replace(3, 1, keep="smaller")
    assert updated.quorums == (frozenset({1}),)
    assert not any({2} <= quorum for quorum in updated.quorums)


def test_theorems_1_and_2_hold_for_all_coteries_of_up_to_four_members() -> None:
    """1032 cases; with the smaller sets kept, theorem 2 fails in 300 of them."""
    cases = 0
    failures_of_theorem_2 = {"larger": 0, "smaller": 0}
    for size in (2, 3, 4):
        for coterie in all_coteries(size):
            for failed in coterie.members:
                for by in set(coterie.members) - {failed}:
                    cases += 1
                    for keep in KEEPS:
                        updated = coterie.replace(failed, by, keep=keep)
                        updated.check()
                        failures_of_theorem_2[keep] += not all(
                            any(quorum - {failed} <= other for other in updated.quorums)
                            for quorum in coterie.quorums
                            if failed in quorum
                        )
    assert cases == 1032
    assert failures_of_theorem_2 == {"larger": 0, "smaller": 300}


@pytest.mark.slow
@given(failures())
def test_keeping_the_smaller_preserves_nondomination(case: tuple[Coterie, int, int]) -> None:
    coterie, failed, by = case
    if coterie.is_nondominated():
        assert coterie.replace(failed, by, keep="smaller").is_nondominated()


def test_keeping_the_larger_may_lose_nondomination() -> None:
    three = majority([1, 2, 3])
    assert three.is_nondominated()
    assert three.replace(1, 2, keep="smaller").is_nondominated()
    assert not three.replace(1, 2, keep="larger").is_nondominated()


def test_two_quorums_with_the_same_image_do_not_delete_each_other() -> None:
    """The second failure of figure 5: 245 becomes 246 and 257 becomes 267, both there already."""
    after_one = [frozenset(map(int, q)) for q in ["23", "246", "356", "245", "257", "267", "347"]]
    updated = Coterie(range(2, 8), after_one).replace(5, 6)
    assert str(updated) == "2,3 2,4,6 2,6,7 3,4,7 3,6"


@pytest.mark.parametrize(("failed", "by"), [(9, 1), (1, 9), (1, 1)])
def test_members_replace_other_members_only(failed: int, by: int) -> None:
    with pytest.raises(ConfigError, match=r"not a member|itself"):
        majority([1, 2, 3]).replace(failed, by)
