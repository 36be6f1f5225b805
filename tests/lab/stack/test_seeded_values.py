"""Each seeded bug of values on a cluster is noticed by a range of seeds."""

from __future__ import annotations

import pytest

from coterie.lab.stack.campaign import run_seed
from tests.lab.stack.seeded_bugs import seeded
from tests.lab.stack.seeded_values import VALUES
from tests.lab.stack.test_seeded_bugs import noticed


@pytest.mark.parametrize("name", VALUES)
def test_a_broken_rule_of_values_is_noticed(name: str) -> None:
    with seeded(VALUES[name]):
        assert noticed(VALUES[name])


# A hold of two minutes over which the workload has to wait; and a reader to whom each question brings another hold.
@pytest.mark.parametrize(
    ("workload", "seed"),
    [("values", 50083), ("values", 50199), ("changed-values", 40455), ("forced-values", 44)],
)
def test_all_calls_come_to_an_end(workload: str, seed: int) -> None:
    outcome = run_seed(seed, workload)
    assert not outcome.violation, f"{outcome.command}: {outcome.text}"
    assert outcome.counts["values seen"] > 40
