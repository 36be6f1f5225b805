"""What the catalogue says about the order of service is what the monitor measures."""

from __future__ import annotations

from random import Random

import pytest

from coterie.catalogue import find, mutexes
from coterie.lab.simulate import Crash, Exponential, Network, Poisson, Simulation

SEEDS = range(12)
SEEDS_OF_CRASHES = range(40)
SIZE = 5


def overtakings(name: str, variant: str, seed: int, *, crashes: int = 0) -> int:
    random, entry = Random(seed), find(name)
    result = Simulation(
        entry.build(entry.setup(SIZE, variant)),
        workload=Poisson(0.3, 400, hold=0.5),
        network=Network(Exponential(1.0)),
        faults=[Crash(process, random.uniform(20, 200)) for process in range(1, crashes + 1)],
        seed=seed,
        order="count",
        max_time=5000,
    ).run()
    assert result.overtakings is not None
    return result.overtakings


VARIANTS = [
    (name, variant.name)
    for name, entry in mutexes().items()
    for variant in entry.variants
    if variant.sound
]
BEAR_CRASHES = [
    (name, variant)
    for name, variant in VARIANTS
    if find(name).causal and "crash" in find(name).faults_tolerated(variant)
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "variant"), VARIANTS)
def test_requests_are_overtaken_by_later_ones_unless_the_catalogue_says_no(
    name: str, variant: str
) -> None:
    overtaken = any(overtakings(name, variant, seed) for seed in SEEDS)
    assert overtaken != find(name).causal


@pytest.mark.slow
@pytest.mark.parametrize(("name", "variant"), BEAR_CRASHES)
def test_a_variant_that_bears_crashes_keeps_the_order_after_them_or_says_no(
    name: str, variant: str
) -> None:
    overtaken = any(overtakings(name, variant, seed, crashes=3) for seed in SEEDS_OF_CRASHES)
    assert overtaken != find(name).keeps_order(variant)


def test_the_order_of_a_variant_is_listed() -> None:
    assert find("centralized").keeps_order("denied")
    assert not find("centralized").keeps_order("failover")
    assert not find("majority").keeps_order(find("majority").variants[0].name)
