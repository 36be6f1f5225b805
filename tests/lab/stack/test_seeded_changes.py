"""Each seeded bug of changing the voters is noticed by a range of seeds."""

from __future__ import annotations

import pytest

from coterie.lab.stack.campaign import run_seed
from tests.lab.stack.seeded_bugs import seeded
from tests.lab.stack.seeded_changes import CHANGES
from tests.lab.stack.test_seeded_bugs import noticed


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait less long for an end that does not come: many of these bugs stop all changes."""
    monkeypatch.setattr("coterie.lab.stack.workloads.workload.END_SECONDS", 10)
    monkeypatch.setattr("coterie.lab.stack.workloads.workload.END_LEASES", 6)


@pytest.mark.parametrize("name", CHANGES)
def test_a_broken_change_is_noticed(name: str) -> None:
    with seeded(CHANGES[name]):
        assert noticed(CHANGES[name])


def test_nothing_is_noticed_where_no_change_is_broken() -> None:
    for seed, workload in sorted({(bug.first, bug.workload) for bug in CHANGES.values()}):
        outcome = run_seed(seed, workload)
        assert not outcome.violation, f"{outcome.command}: {outcome.text}"
