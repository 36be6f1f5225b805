"""The five properties of a distributed control, of algorithms for which they are known."""

from __future__ import annotations

import json

import pytest

from coterie.catalogue import find
from coterie.cli import run
from coterie.lab.simulate.distribution import Distribution, Spread, distribution
from coterie.lab.simulate.monitors import ViolationError


def measured(name: str, size: int, variant: str | None = None, **chosen: str) -> Distribution:
    algorithm = find(name)
    return distribution(algorithm, algorithm.setup(size, variant, chosen))


def test_a_coordinator_has_none_of_the_five() -> None:
    found = measured("centralized", 4)
    assert found.rules == 2
    assert found.cost == Spread(0, 3)
    assert found.load == Spread(30, 90)  # one message in three goes to each of three clients
    assert found.fatal_at_rest == (1,)
    assert found.fatal_inside == (1, 2, 3, 4)
    assert found.kept() == (False,) * 5


def test_who_coordinates_is_found_wherever_it_is() -> None:
    assert measured("centralized", 3, resource="printer").fatal_at_rest == (3,)


def test_where_all_are_asked_all_is_equal_and_every_crash_stops_all() -> None:
    found = measured("ricart-agrawala", 4)
    assert (found.rules, found.cost, found.load) == (1, Spread(6, 6), Spread(120, 120))
    assert found.fatal_at_rest == found.fatal_inside == (1, 2, 3, 4)
    assert found.kept() == (True, True, True, True, False)


@pytest.mark.parametrize(
    ("name", "variant"),
    [
        ("centralized", "failover"),
        ("fault-tolerant", "repaired"),
        ("leased", "lazy"),
        ("token-ring", "regenerating"),
    ],
)
def test_what_bears_a_crash_is_stopped_by_none(name: str, variant: str) -> None:
    found = measured(name, 3, variant)
    assert (found.fatal_at_rest, found.fatal_inside) == ((), ())


def test_votes_that_are_unequal_make_the_load_unequal_and_not_the_cost() -> None:
    """One vote beside the two of process 1 is enough, so all others ask it alone."""
    found = measured("weighted", 4, votes="2,1,1,1")
    assert found.load == Spread(30, 120)
    assert found.cost == Spread(3, 3)


def test_the_root_of_a_tree_has_most_to_do() -> None:
    found = measured("raymond", 5, tree="star")
    assert found.load.most > 3 * found.load.least
    assert found.cost == Spread(2, 4)


@pytest.mark.parametrize(("most", "equal"), [(10, True), (12, True), (12.1, False)])
def test_equal_is_what_differs_by_less_than_a_fifth(most: float, equal: bool) -> None:
    assert Spread(10, most).is_equal is equal


def test_what_does_not_work_is_not_measured() -> None:
    with pytest.raises(ViolationError, match="maekawa, N = 3, does not work"):
        measured("maekawa", 3, "basic")


def test_the_command_measures_all_mutexes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["distribution", "-N", "3"]) == 0
    header, *rows = capsys.readouterr().out.partition("\n\n")[0].splitlines()
    assert header.split("  ")[-1].strip() == "has"
    assert len(rows) == 13
    assert rows[2].startswith("ricart-agrawala (plain)")
    assert rows[2].endswith("3 of 3     3 of 3  1 2 3 4 -")


def test_the_command_gives_json_and_refuses_elections(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["distribution", "token-ring", "-N", "3", "-o", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["kept"] == [True, True, True, True, False]
    assert found["fatal_inside"] == [1, 2, 3]
    assert run(["distribution", "bully"]) == 64
    assert "bully elects" in capsys.readouterr().err
