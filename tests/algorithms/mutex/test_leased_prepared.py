"""Every interleaving of a change that begins while one client holds the lock and another waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from coterie.lab.explore import check
from tests.algorithms.mutex.leased_prepared import held
from tests.algorithms.mutex.leased_steps import FENCING, after, beginning, is_fine, part, properties

if TYPE_CHECKING:
    from coterie.algorithms.mutex.quorum.leased.configuration import Configuration, Part
    from coterie.lab.explore import Verdict

ONE = beginning(1, part(1))
JOINT = beginning(2, part(1), part(2))


def explored(
    present: Configuration, following: Configuration, *, crashes: int = 0, **options: Any
) -> Verdict:
    return check(
        held(present, following, queued=True, watchful=crashes > 0, **options),
        requesters=(),
        properties=(*properties(following), FENCING),
        crashes=crashes,
        max_states=2_000_000,
    )


@pytest.mark.parametrize(
    ("options", "states", "transitions"),
    [
        ({}, 239, 589),
        ({"leaves": True}, 4845, 14751),
        ({"crashes": 1}, 1913, 6233),
    ],
)
def test_a_holder_stays_or_leaves_or_crashes_while_the_number_changes(
    options: dict[str, Any], states: int, transitions: int
) -> None:
    verdict = explored(ONE, after(ONE, part(1)), **options)
    assert is_fine(verdict), (verdict.reason, verdict.sometimes)
    assert (verdict.states, verdict.transitions) == (states, transitions)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("present", "parts", "states", "transitions"),
    [
        (ONE, (part(1), part(2)), 245497, 1233722),
        (JOINT, (part(2),), 828593, 4454044),
    ],
)
def test_a_holder_and_one_that_waits_go_over_to_a_joint_number_and_from_it(
    present: Configuration, parts: tuple[Part, ...], states: int, transitions: int
) -> None:
    verdict = explored(present, after(present, *parts))
    assert is_fine(verdict), (verdict.reason, verdict.sometimes)
    assert (verdict.states, verdict.transitions) == (states, transitions)


def test_a_joint_step_is_taken_back_while_the_holder_counts_by_the_number_before_it() -> None:
    """Three numbers in use: the holder counts by 1, the one that waits by the joint 2."""
    begun = after(ONE, part(1), part(2))
    verdict = explored(begun, after(begun, part(1)), before=ONE)
    assert is_fine(verdict), (verdict.reason, verdict.sometimes)
    assert (verdict.states, verdict.transitions) == (19029, 82734)


def test_without_the_joint_step_the_one_that_waits_gets_in() -> None:
    verdict = explored(ONE, after(ONE, part(2)))
    assert verdict.verdict == "violated"
    assert "two hold the lock" in verdict.reason
