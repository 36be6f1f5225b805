"""`coterie simulate leased --change 1,2,4`: voters take over from others while all processes ask."""

from __future__ import annotations

import pytest

from coterie.algorithms.mutex.quorum.leased.process import Leased
from coterie.catalogue import find
from coterie.errors import ConfigError, UsageError
from coterie.lab.simulate import Closed, Crash, Network, Simulation, Uniform


def built(change: str) -> list[Leased]:
    entry = find("leased")
    given = {"voters": "3", "lease": "60", "change": change}
    return [each for each in entry.build(entry.setup(6, None, given)) if isinstance(each, Leased)]


@pytest.mark.parametrize("change", ["1,2,4", "4,5,6", "1,2,3,4", "1,2", "2"])
@pytest.mark.parametrize("seed", [1, 2])
def test_all_are_served_and_count_by_the_new_voters(change: str, seed: int) -> None:
    processes = built(change)
    network = Network(Uniform(0.5, 1.5))
    run = Simulation(processes, workload=Closed(20), network=network, seed=seed)
    result = run.run()
    assert (result.unserved, result.violations) == (0, [])
    seats = tuple(map(int, change.split(",")))
    assert {process.participant.configuration.seats for process in processes} == {seats}


def test_a_voter_that_was_replaced_may_crash() -> None:
    processes = built("1,2,4")
    network = Network(Uniform(0.5, 1.5))
    faults = [Crash(3, 200.0)]
    run = Simulation(processes, workload=Closed(60), network=network, faults=faults, seed=3)
    assert run.run().violations == []


@pytest.mark.parametrize(
    ("change", "error"),
    [("1,x", UsageError), ("1,1", UsageError), ("", UsageError), ("7", ConfigError)],
)
def test_voters_that_cannot_be_are_refused(change: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        built(change)
