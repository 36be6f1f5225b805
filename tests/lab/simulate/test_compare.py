"""Costs beside formulas: of the same requesters, over several seeds, and under other conditions."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING

import msgspec
import pytest

from coterie.catalogue import Costs, exactly, find, mutexes
from coterie.errors import UsageError
from coterie.lab.simulate import Exponential, Uniform, read_matrix
from coterie.lab.simulate.compare import Comparison, LoadComparison, compare, compare_load
from coterie.lab.simulate.compare.sample import Conditions
from coterie.lab.simulate.compare.sweep import Contender, compare_all
from coterie.lab.simulate.monitors import ViolationError
from tests.lab.simulate.test_latency import EXAMPLE

if TYPE_CHECKING:
    from coterie.catalogue import Setup
    from coterie.lab.simulate.compare.sweep import AnyComparison

SOUND = [
    pytest.param(name, variant.name, id=f"{name}-{variant.name}")
    for name in mutexes()
    for variant in find(name).variants
    if variant.sound
]
NAIMI, MAEKAWA = find("naimi-trehel"), find("maekawa")


@pytest.mark.slow
def test_a_mean_over_random_requesters_is_measured_with_random_requesters() -> None:
    found = compare(NAIMI, NAIMI.setup(13)).idle
    assert found.formula == "H(N - 1) · N/(N - 1)"
    assert found.half_width is not None
    assert abs(found.measured - 3.3618) < 3 * found.half_width < 0.1
    assert found.agrees


@pytest.mark.slow
def test_a_wrong_mean_is_noticed() -> None:
    """H(N - 1) counts the free entries of the holder, which are left out here."""
    costs = NAIMI.costs
    assert isinstance(costs, Costs)

    def idle(setup: Setup) -> object:
        cost = costs.idle(setup)
        return msgspec.structs.replace(cost, mean=exactly(3.1032, "H(N - 1)"))

    wrong = msgspec.structs.replace(NAIMI, costs=msgspec.structs.replace(costs, idle=idle))
    comparison = compare(wrong, wrong.setup(13))
    assert comparison.idle.agrees is False
    assert comparison.agrees is False


@pytest.mark.slow
def test_entering_again_is_measured_for_each_requester_however_many_they_are() -> None:
    """Quorums differ in size: with half of the requesters the mean was another than that of all."""
    assert compare(MAEKAWA, MAEKAWA.setup(502)).again.agrees


def test_over_several_seeds_messages_are_a_mean_with_its_interval() -> None:
    found = compare(MAEKAWA, MAEKAWA.setup(7), seeds=6)
    assert found.seeds == 6
    assert found.saturated.half_width is not None
    assert found.saturated.low < found.saturated.measured < found.saturated.high
    assert found.idle.half_width == 0
    assert found.agrees
    assert compare(MAEKAWA, MAEKAWA.setup(7)).saturated.half_width is None


def test_under_other_conditions_delays_are_means_and_nothing_is_judged() -> None:
    conditions = Conditions(latency=Exponential(1.0))
    found = compare(MAEKAWA, MAEKAWA.setup(7), seeds=5, conditions=conditions)
    assert not found.judged
    assert found.agrees
    assert found.client_delay.half_width is not None
    assert found.client_delay.low < found.client_delay.measured < found.client_delay.high
    assert found.client_delay.formula == "2"
    stay = compare(MAEKAWA, MAEKAWA.setup(7), conditions=Conditions(hold=9.0))
    assert stay.waiting_mean > compare(MAEKAWA, MAEKAWA.setup(7)).waiting_mean


@pytest.mark.parametrize(
    ("name", "workload", "formula", "theory"),
    [
        ("raymond", "one-at-a-time", "2 · distance", 2 * 16 / 7),
        ("raymond", "one-at-random", "2 · mean distance", pytest.approx(4.571, abs=0.01)),
        ("maekawa", "closed", "3(K - 1) to 6(K - 1)", [6, 12]),
        ("maekawa", "poisson", "3(K - 1) to 6(K - 1)", [6, 12]),
        ("naimi-trehel", "one-at-a-time", "2 to N", [2, 7]),
        ("naimi-trehel", "burst", "2 to N … 0 to N", [0, 7]),
        ("ricart-agrawala", "hot-spot", "2(N - 1)", 12),
    ],
)
def test_beside_a_workload_stands_the_formula_for_it(
    name: str, workload: str, formula: str, theory: object
) -> None:
    entry = find(name)
    found = compare_load(entry, entry.setup(7), Conditions(workload=workload), seeds=2)
    assert (found.messages.formula, found.messages.theory) == (formula, theory)
    assert found.judged is (workload == "one-at-a-time")
    assert found.agrees


def test_random_requesters_of_a_tree_pay_twice_the_mean_distance() -> None:
    entry = find("raymond")
    conditions = Conditions(workload="one-at-random", entries=100)
    found = compare_load(entry, entry.setup(7), conditions, seeds=10).messages
    assert found.half_width is not None
    assert isinstance(found.theory, float)
    assert abs(found.measured - found.theory) < 3 * found.half_width


def test_a_workload_shows_waiting_fairness_and_load() -> None:
    conditions = Conditions(workload="poisson", rate=0.5, latency=Uniform(0.5, 1.5), hold=1.0)
    found = compare_load(MAEKAWA, MAEKAWA.setup(7), conditions, seeds=4)
    assert found.waiting is not None
    assert found.waiting_p99 is not None
    assert found.jain is not None
    assert found.load_max is not None
    assert found.waiting.mean < found.waiting_p99.mean
    assert 0 < found.jain.mean <= 1


def test_an_algorithm_that_fails_has_no_costs() -> None:
    """Without timestamps the quorums of Maekawa's algorithm deadlock."""
    with pytest.raises(
        ViolationError, match="maekawa, N = 3, has no costs, since it does not work"
    ):
        compare(MAEKAWA, MAEKAWA.setup(3, "basic"))


def test_a_file_of_delays_must_fit_the_number_of_processes() -> None:
    conditions = Conditions(latency=read_matrix(EXAMPLE))
    with pytest.raises(UsageError, match="delays for 5 places"):
        compare(MAEKAWA, MAEKAWA.setup(7), conditions=conditions)


CONTENDERS = [
    Contender("maekawa", 3),
    Contender("naimi-trehel", 3),
    Contender("bully", 4),
    Contender("raymond", 5, None, {"tree": "star"}, Conditions(workload="poisson")),
]


@pytest.mark.slow
def test_a_sweep_is_the_same_on_any_executor() -> None:
    here: list[AnyComparison] = list(compare_all(CONTENDERS, seed=2, seeds=3))
    with ProcessPoolExecutor(2) as executor:
        there = list(compare_all(CONTENDERS, seed=2, seeds=3, executor=executor))
    assert msgspec.json.encode(there) == msgspec.json.encode(here)
    assert [each.algorithm for each in here] == [each.algorithm for each in CONTENDERS]
    first, last = here[0], here[-1]
    assert isinstance(first, Comparison)
    assert first == compare(MAEKAWA, MAEKAWA.setup(3), 2, seeds=3)
    assert isinstance(last, LoadComparison)
    assert last.seeds == 3


@pytest.mark.slow
def test_a_sweep_tells_of_its_progress() -> None:
    told: list[tuple[str, int, int]] = []
    sweep = compare_all(
        CONTENDERS, seeds=2, progress=lambda each, done, of: told.append((each.algorithm, done, of))
    )
    next(sweep)
    assert told == [("maekawa", 1, 25), ("maekawa", 2, 25)]
    list(sweep)
    assert told[-1] == ("raymond", 25, 25)


@pytest.mark.slow
def test_comparisons_are_rows_for_a_data_frame() -> None:
    rows = [row for each in compare_all(CONTENDERS) for row in each.to_dicts()]
    assert len({tuple(row) for row in rows}) == 1
    assert rows[0] == {
        "algorithm": "maekawa",
        "variant": "eager",
        "processes": 3,
        "seeds": 1,
        "workload": None,
        "cost": "messages_idle",
        "measured": 3.0,
        "half_width": None,
        "least": 3.0,
        "most": 3.0,
        "theory_low": 3.0,
        "theory_high": 3.0,
        "formula": "3(K - 1)",
        "agrees": True,
    }
    assert {row["cost"] for row in rows} >= {"messages_saturated", "messages_best", "messages"}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "variant"), SOUND)
@pytest.mark.parametrize("size", [1, 2, 3, 7, 13, 31])
def test_with_multicast_costs_equal_the_formulas_for_it(name: str, variant: str, size: int) -> None:
    algorithm = find(name)
    found = compare(
        algorithm, algorithm.setup(size, variant), conditions=Conditions(multicast=True)
    )
    assert found.agrees, found


@pytest.mark.slow
@pytest.mark.parametrize(("name", "variant"), SOUND)
def test_formulas_for_multicast_are_stated_where_something_goes_to_several(
    name: str, variant: str
) -> None:
    algorithm = find(name)
    setup = algorithm.setup(7, variant)
    plain = compare(algorithm, setup).messages_by_kind
    copied = compare(algorithm, setup, conditions=Conditions(multicast=True)).messages_by_kind
    assert (algorithm.multicast is None) is (plain == copied)
    assert sum(copied.values()) <= sum(plain.values())
