"""Each seeded bug at the edges of a cluster is noticed by a range of seeds."""

from __future__ import annotations

import pytest

from coterie.lab.stack.campaign import run_seed
from tests.lab.stack.seeded_bugs import seeded
from tests.lab.stack.seeded_edges import EDGES
from tests.lab.stack.test_seeded_bugs import noticed


@pytest.mark.parametrize("name", EDGES)
def test_a_broken_edge_is_noticed(name: str) -> None:
    with seeded(EDGES[name]):
        assert noticed(EDGES[name])


def test_nothing_is_noticed_where_no_edge_is_broken() -> None:
    for seed, workload in sorted({(bug.first, bug.workload) for bug in EDGES.values()}):
        outcome = run_seed(seed, workload)
        assert not outcome.violation, f"{outcome.command}: {outcome.text}"
