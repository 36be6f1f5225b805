"""Each seeded bug of the stack is noticed by a range of seeds."""

from __future__ import annotations

import pytest

from coterie.stack.campaign import run_seed
from tests.stack.seeded_bugs import BUGS, UNNOTICED, Bug, seeded


def noticed(bug: Bug) -> str:
    """Return which promise is broken first, or nothing."""
    for seed in (bug.first, *range(bug.seeds)):
        violation = run_seed(seed, bug.workload, bug.details).violation
        if violation:
            return violation
    return ""


@pytest.mark.parametrize("name", BUGS)
def test_it_is_noticed(name: str) -> None:
    with seeded(BUGS[name]):
        assert noticed(BUGS[name])


@pytest.mark.parametrize("name", UNNOTICED)
def test_a_bug_that_is_not_noticed_so_far_can_be_seeded(name: str) -> None:
    with seeded(UNNOTICED[name]):
        pass
