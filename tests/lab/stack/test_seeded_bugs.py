"""Each seeded bug of the stack is noticed by a range of seeds."""

from __future__ import annotations

import pytest

from coterie.lab.stack.campaign import run_seed
from tests.lab.stack.seeded_bugs import BUGS, Bug, seeded


def noticed(bug: Bug) -> str:
    """Return which promise is broken first, or nothing.

    The seed that is known to notice comes first. Where it does not any more, since the stack sends
    something else now, others do.
    """
    for seed in (bug.first, *range(bug.seeds)):
        violation = run_seed(seed, bug.workload, bug.details, tls=bug.tls).violation
        if violation:
            return violation
    return ""


@pytest.mark.parametrize("name", BUGS)
def test_it_is_noticed(name: str) -> None:
    with seeded(BUGS[name]):
        assert noticed(BUGS[name])


@pytest.mark.parametrize("workload", sorted({bug.workload for bug in BUGS.values()}))
def test_nothing_is_noticed_without_a_bug(workload: str) -> None:
    bugs = [bug for bug in BUGS.values() if bug.workload == workload]
    for seed, details, tls in sorted({(bug.first, bug.details or "", bug.tls) for bug in bugs}):
        outcome = run_seed(seed, workload, details or None, tls=tls)
        assert not outcome.violation, f"{outcome.command}: {outcome.text}"
