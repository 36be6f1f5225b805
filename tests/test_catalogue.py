"""The catalogue: every algorithm is found, and bad choices are named."""

from __future__ import annotations

import pytest

from coterie.catalogue import Flaw, algorithms, between, elections, exactly, find, mutexes
from coterie.cli.lab.tour import refute
from coterie.errors import CoterieError, UsageError
from coterie.lab.explore import check, needs_clock
from coterie.lab.simulate.compare import compare, compare_election


def test_the_first_four_are_there() -> None:
    assert {"centralized", "ricart-agrawala", "maekawa", "suzuki-kasami"} <= set(algorithms())


@pytest.mark.parametrize("name", list(algorithms()))
def test_the_name_the_module_and_the_class_differ_only_in_spelling(name: str) -> None:
    process = find(name).process
    assert name.replace("-", "_") in process.__module__
    assert process.__name__.lower() == name.replace("-", "")


def test_an_unknown_algorithm_is_named_with_the_nearest_and_all_choices() -> None:
    with pytest.raises(UsageError, match=r"'maekawas'.*did you mean 'maekawa'.*ricart-agrawala"):
        find("maekawas")


@pytest.mark.parametrize("size", [0, -3])
def test_there_is_at_least_one_process(size: int) -> None:
    with pytest.raises(UsageError, match=f"at least 1, got {size}"):
        find("maekawa").setup(size)


def test_an_unknown_variant_or_parameter_is_named() -> None:
    with pytest.raises(UsageError, match=r"unknown variant of maekawa: 'lazy'.*eager"):
        find("maekawa").setup(3, "lazy")
    with pytest.raises(UsageError, match="unknown parameter of centralized: 'tree'"):
        find("centralized").setup(3, None, {"tree": "star"})


@pytest.mark.parametrize(
    ("name", "parameter", "before"),
    [
        ("fault-tolerant", "failures", ""),
        ("fault-tolerant", "table", "1,2,"),
        ("raymond", "tree", "random:"),
        ("decentralized", "replicas", ""),
        ("maekawa", "coterie", "1,2 2,"),
    ],
)
def test_a_number_too_long_to_be_read_is_refused(name: str, parameter: str, before: str) -> None:
    with pytest.raises(UsageError, match=f"a number in {parameter} has more than 100 digits"):
        find(name).setup(3, None, {parameter: before + "9" * 5_000})


def test_a_coterie_that_cannot_be_is_named() -> None:
    with pytest.raises(CoterieError, match="6"):
        find("maekawa").setup(43, None, {"coterie": "plane:6"})
    with pytest.raises(CoterieError, match=r"intersect|common"):
        find("maekawa").setup(4, None, {"coterie": "1,2 3,4"})


def test_a_cost_is_a_number_or_a_range() -> None:
    assert exactly(4, "N + 1").value() == 4
    assert between(1, float("inf"), "any").value() == [1, None]
    assert exactly(4, "").allows(4)
    assert not exactly(4, "").allows(4.1)


def test_every_algorithm_is_a_mutex_or_an_election() -> None:
    assert {**mutexes(), **elections()} == algorithms()
    assert {"bully", "ring"} <= set(elections())


SOUND = [(name, v.name) for name, entry in mutexes().items() for v in entry.variants if v.sound]
SOUND_ELECTIONS = [
    (name, v.name) for name, entry in elections().items() for v in entry.variants if v.sound
]


# Those who need a clock are explored by their own tests, with bounds chosen with care.
SOUND_WITHOUT_CLOCK = [
    (name, variant)
    for name, variant in SOUND
    if not needs_clock(find(name).build(find(name).setup(3, variant)))
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "variant"), SOUND_WITHOUT_CLOCK)
def test_every_sound_mutex_is_verified_with_three_processes(name: str, variant: str) -> None:
    entry = find(name)
    verdict = check(entry.build(entry.setup(3, variant)))
    assert verdict.verdict == "verified", verdict.reason
    assert verdict.sometimes["contention"]


@pytest.mark.parametrize(("name", "variant"), SOUND_ELECTIONS)
def test_every_sound_election_is_verified_with_three_processes(name: str, variant: str) -> None:
    entry = find(name)
    for crashes, restarts in ((1, 0), (2, 0), (1, 1)):
        processes = entry.build(entry.setup(3, variant))
        verdict = check(processes, entries=0, crashes=crashes, restarts=restarts)
        assert verdict.verdict == "verified", verdict.reason


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize(("name", "variant"), SOUND)
def test_every_sound_mutex_costs_what_theory_says(name: str, variant: str, size: int) -> None:
    entry = find(name)
    comparison = compare(entry, entry.setup(size, variant))
    assert comparison.agrees, comparison


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize(("name", "variant"), SOUND_ELECTIONS)
def test_every_sound_election_costs_what_theory_says(name: str, variant: str, size: int) -> None:
    entry = find(name)
    comparison = compare_election(entry, entry.setup(size, variant))
    assert comparison.agrees, comparison


FLAWED = [
    (name, variant.name, variant.flaw)
    for name, entry in algorithms().items()
    for variant in entry.variants
    if variant.flaw is not None
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "variant", "flaw"), FLAWED)
def test_every_unsound_variant_is_refuted_in_the_steps_it_says(
    name: str, variant: str, flaw: Flaw
) -> None:
    entry = find(name)
    assert not entry.variant(variant).sound
    verdict = refute(entry, entry.variant(variant), flaw)
    assert (verdict.verdict, verdict.depth) == ("violated", flaw.steps)
