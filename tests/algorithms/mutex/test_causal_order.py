"""What the catalogue says about the order of service is what the monitor measures."""

from __future__ import annotations

import pytest

from coterie.catalogue import find, mutexes
from coterie.lab.simulate import Exponential, Network, Poisson, Simulation

SEEDS = range(12)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(mutexes()))
def test_requests_are_overtaken_by_later_ones_unless_the_catalogue_says_no(name: str) -> None:
    entry = find(name)
    overtakings = 0
    for seed in SEEDS:
        result = Simulation(
            entry.build(entry.setup(5)),
            workload=Poisson(0.3, 400, hold=0.5),
            network=Network(Exponential(1.0)),
            seed=seed,
            order="count",
            max_time=5000,
        ).run()
        assert result.overtakings is not None
        overtakings += result.overtakings
        if overtakings:
            break
    assert (overtakings == 0) == entry.causal
