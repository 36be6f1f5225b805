"""Majority voting: which majorities are asked; then every interleaving; then broken quorums."""

from __future__ import annotations

import pytest

from coterie.algorithms.mutex.quorum.maekawa.displaced import Basic
from coterie.algorithms.mutex.quorum.majority import ALGORITHM, Majority
from coterie.catalogue import find
from coterie.lab.explore import check
from coterie.lab.explore.findings import DEADLOCK
from coterie.lab.simulate import Closed, Network, Simulation, Uniform
from coterie.lab.simulate.compare import compare
from coterie.process import Channel
from tests.harness import Mutant, broken, build, explore
from tests.suites import Explored, every_interleaving

MODULE = "coterie.algorithms.mutex.quorum.majority"


def quorums(size: int) -> list[tuple[int, ...]]:
    processes = build("majority", size)
    return [process.quorum for process in processes if isinstance(process, Majority)]


def test_each_asks_itself_and_those_who_follow_it_in_a_circle() -> None:
    assert quorums(5) == [(1, 2, 3), (2, 3, 4), (3, 4, 5), (1, 4, 5), (1, 2, 5)]


@pytest.mark.parametrize("size", range(1, 12))
def test_exactly_a_majority_is_asked_and_everybody_is_asked_equally_often(size: int) -> None:
    asked = quorums(size)
    assert {len(quorum) for quorum in asked} == {size // 2 + 1}
    assert all(me in quorum for me, quorum in enumerate(asked, 1))
    loads = [sum(me in quorum for quorum in asked) for me in range(1, size + 1)]
    assert set(loads) == {size // 2 + 1}


EXPLORED = [  # processes, entries, links, states, transitions
    Explored(2, 1, Channel.UNORDERED, 48, 68),
    Explored(2, 2, Channel.UNORDERED, 349, 621),
    Explored(3, 1, Channel.FIFO, 436, 884),
    Explored(3, 1, Channel.UNORDERED, 436, 884),
    Explored(3, 2, Channel.UNORDERED, 15432, 39620),
    Explored(4, 1, Channel.FIFO, 161356, 613269),
    Explored(4, 1, Channel.UNORDERED, 257883, 1074623),
]

test_every_interleaving_is_safe_and_live = every_interleaving("majority", EXPLORED)


@pytest.mark.slow
def test_three_processes_behave_as_maekawa_on_the_triangle() -> None:
    """The majorities of three are the lines of the smallest plane."""
    ours, theirs = explore("majority", 3, 2), explore("maekawa", 3, 2)
    assert (ours.states, ours.transitions) == (theirs.states, theirs.transitions)


def test_votes_that_are_never_given_back_deadlock() -> None:
    """A vote that waits in a queue blocks exactly as a lock of Maekawa's does."""
    verdict = check([Basic(me, quorum) for me, quorum in enumerate(quorums(3), 1)])
    assert (verdict.property, verdict.depth) == (DEADLOCK, 6)


@pytest.mark.parametrize("size", [2, 4])
def test_half_of_the_votes_are_not_enough(size: int) -> None:
    """With an even number of votes the threshold is half and one more, not half rounded up."""
    halves = [tuple((me + i) % size + 1 for i in range(size // 2)) for me in range(size)]
    verdict = check([Majority(me, tuple(sorted(half))) for me, half in enumerate(halves, 1)])
    assert verdict.property == "mutual exclusion"


def test_one_dead_voter_blocks_those_who_ask_it() -> None:
    verdict = check(build("majority", 3), crashes=1)
    assert verdict.property == DEADLOCK


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 13])
def test_an_entry_costs_three_messages_for_each_other_voter(size: int) -> None:
    comparison = compare(ALGORITHM, ALGORITHM.setup(size))
    assert comparison.agrees, comparison
    assert comparison.idle.measured == 3 * (size // 2)


def test_requests_are_not_served_in_causal_order() -> None:
    run = Simulation(
        build("majority", 5),
        workload=Closed(20),
        network=Network(latency=Uniform(0.5, 3)),
        order="count",
    ).run()
    assert run.overtakings
    assert not run.violations
    assert not find("majority").causal


MUTANTS = {
    "a vote too few": Mutant("quorum_for(me)))", "quorum_for(me)))[1:]"),
    "one's own vote only": Mutant("tuple(sorted(votes.quorum_for(me)))", "(me,)"),
    "nobody's quorum": Mutant("tuple(sorted(votes.quorum_for(me)))", "()"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_line_is_noticed(name: str) -> None:
    entry = broken(MODULE, MUTANTS[name]).ALGORITHM
    assert check(entry.build(entry.setup(MUTANTS[name].size))).verdict == "violated"
