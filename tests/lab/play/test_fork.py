"""Recorded runs that are played on by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from coterie.catalogue import find
from coterie.lab.explore import check
from coterie.lab.play.laboratory import Laboratory
from coterie.lab.play.questions import Question
from coterie.lab.play.runs.fork import address_of
from coterie.lab.play.runs.refusal import Refusal
from coterie.lab.scenario import perform
from coterie.lab.simulate import Closed, Network, Simulation, Uniform
from coterie.trace import Called, Header, Paused, Repeated, Sent, Trace

if TYPE_CHECKING:
    from coterie.lab.play.questions import Position
    from coterie.lab.play.runs.address import RunAddress


def position_of(address: RunAddress) -> Position:
    return Laboratory().play_whole(Question(address.first, address.moves, address.cursor))


def test_a_counterexample_is_a_run_that_ends_in_the_violation() -> None:
    entry = find("maekawa")
    header = Header(algorithm="maekawa", size=3, variant="survey")
    verdict = check(entry.build(entry.setup(3, "survey")), header=header)
    assert verdict.counterexample is not None
    position = position_of(address_of(verdict.counterexample))
    assert position.first == "maekawa 3 variant=survey"
    assert len(position.moves) == verdict.depth
    assert not [move for move in position.enabled if not move.fault]


def test_a_run_that_goes_round_is_played_once_round() -> None:
    """Where it begins again is a remark, and no move."""
    trace = Trace(Header(algorithm="lamport", size=2), [Called(1.0, 1, "acquire"), Repeated(2.0)])
    address = address_of(trace)
    assert address.moves == ["acquire 1"]


@pytest.mark.parametrize("name", ["ricart-agrawala", "lamport", "token-ring", "raymond"])
def test_a_simulation_is_forked_after_any_of_its_records(name: str) -> None:
    trace = simulated(name, 4)
    for until in (0, 1, 7, len(trace.records) // 2, len(trace.records)):
        position = position_of(address_of(trace, until))
        sent = sum(isinstance(record, Sent) for record in trace.records[:until])
        played = [record for step in position.steps for record in step.records]
        assert sum(isinstance(record, Sent) for record in played) >= sent


def simulated(name: str, entries: int) -> Trace:
    entry = find(name)
    simulation = Simulation(
        entry.build(entry.setup(3)),
        workload=Closed(entries),
        network=Network(Uniform(0.5, 1.5)),
        seed=3,
        header=Header(algorithm=name, size=3),
    )
    trace = simulation.run().trace
    assert trace is not None
    return trace


def test_a_run_that_no_hand_can_play_is_refused() -> None:
    trace = perform("ricart-agrawala 2\nacquire 1\n").trace
    paused = Trace(trace.header, [*trace.records, Paused(2.0, 1)])
    with pytest.raises(Refusal, match="pause"):
        address_of(paused)
    calls = [Called(float(number), 1, "acquire") for number in range(2_001)]
    with pytest.raises(Refusal, match="at most 2,000 moves"):
        address_of(Trace(trace.header, [*calls]))
