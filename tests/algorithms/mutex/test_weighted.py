"""Weighted voting: whom votes make one ask; the two ends of the scale; every interleaving."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from coterie.algorithms.mutex.quorum.maekawa.eager import Maekawa
from coterie.algorithms.mutex.quorum.weighted import ALGORITHM
from coterie.catalogue import find
from coterie.errors import ConfigError, UsageError
from coterie.lab.explore import check
from coterie.lab.simulate import Closed, Network, Simulation, Uniform
from coterie.lab.simulate.compare import compare
from coterie.process import Channel
from tests.harness import Mutant, broken, build
from tests.suites import Explored, every_interleaving

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.process import Process

MODULE = "coterie.algorithms.mutex.quorum.weighted"


def quorums(votes: str) -> list[tuple[int, ...]]:
    size = votes.count(",") + 1
    return quorums_of(build("weighted", size, votes=votes))


def quorums_of(processes: Sequence[Process[Any]]) -> list[tuple[int, ...]]:
    return [process.quorum for process in processes if isinstance(process, Maekawa)]


def test_whoever_is_asked_has_more_than_half_of_the_votes() -> None:
    votes = [3, 2, 2, 1, 0]
    for quorum in quorums(",".join(map(str, votes))):
        assert 2 * sum(votes[member - 1] for member in quorum) > sum(votes)


def test_nobody_is_asked_who_can_be_spared() -> None:
    votes = [3, 2, 2, 1, 0]
    for quorum in quorums(",".join(map(str, votes))):
        for spared in quorum:
            rest = sum(votes[member - 1] for member in quorum if member != spared)
            assert 2 * rest <= sum(votes)


def test_a_process_without_votes_asks_the_others() -> None:
    assert quorums("1,1,1,0")[3] in [(1, 2), (1, 3), (2, 3)]


def test_one_vote_each_is_the_majority() -> None:
    majority = quorums_of(build("majority", 5))
    assert quorums("1,1,1,1,1") == majority
    assert quorums_of(build("weighted", 5)) == majority


def test_all_votes_on_one_is_the_centralised_algorithm() -> None:
    assert quorums("0,4,0") == [(2,), (2,), (2,)]
    central = find("centralized")
    theirs = compare(central, central.setup(5))
    ours = compare(ALGORITHM, ALGORITHM.setup(5, None, {"votes": "1,0,0,0,0"}))
    assert ours.agrees, ours
    assert ours.idle.measured == theirs.idle.measured == 3
    assert ours.client_delay.measured == theirs.client_delay.measured == 2
    assert ours.synchronisation_delay is not None
    assert theirs.synchronisation_delay is not None
    assert ours.synchronisation_delay.measured == theirs.synchronisation_delay.measured == 2


def test_with_all_votes_on_itself_a_process_enters_without_a_message() -> None:
    run = Simulation(build("weighted", 3, votes="1,0,0"), workload=Closed(4, [1])).run()
    assert (run.entries, run.messages) == (4, 0)


@pytest.mark.parametrize(
    ("votes", "error", "text"),
    [
        ("0,0,0", ConfigError, "at least one member must have a vote"),
        ("1,1", ConfigError, "2 vote counts for 3 processes"),
        ("1,1,1,1", ConfigError, "4 vote counts for 3 processes"),
        ("3,-1,1", UsageError, "votes cannot be negative"),
        ("99999999,1,1", UsageError, "more than 10,000 votes in all"),
        (
            "3,one,1",
            UsageError,
            "expected counts of votes such as 3,1,1, or 'equal', got '3,one,1'",
        ),
        ("", UsageError, "got ''"),
        ("1,,1", UsageError, "got '1,,1'"),
    ],
)
def test_votes_that_make_no_majority_are_refused(
    votes: str, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        ALGORITHM.setup(3, None, {"votes": votes})


EXPLORED = [  # processes, entries, links, states, transitions
    Explored(2, 1, Channel.UNORDERED, 48, 68, parameters={"votes": "1,1"}),
    Explored(2, 2, Channel.UNORDERED, 102, 143, parameters={"votes": "1,0"}),
    Explored(3, 1, Channel.UNORDERED, 157, 276, parameters={"votes": "3,1,1"}),
    Explored(3, 1, Channel.UNORDERED, 374, 742, parameters={"votes": "2,1,1"}),
    Explored(3, 2, Channel.UNORDERED, 16574, 43344, parameters={"votes": "2,1,1"}),
    Explored(4, 1, Channel.UNORDERED, 10223, 28158, parameters={"votes": "1,1,1,0"}),
    Explored(4, 1, Channel.FIFO, 14607, 43423, parameters={"votes": "2,2,1,1"}),
]

test_every_interleaving_is_safe_and_live = every_interleaving("weighted", EXPLORED)


@pytest.mark.parametrize("votes", ["2,1,1", "3,2,2,1,1", "1,1,1,0", "5,1,1,1,1,1,1", "0,0,7"])
def test_an_entry_costs_three_messages_for_each_other_voter(votes: str) -> None:
    size = votes.count(",") + 1
    comparison = compare(ALGORITHM, ALGORITHM.setup(size, None, {"votes": votes}))
    assert comparison.agrees, comparison


def test_requests_are_not_served_in_causal_order() -> None:
    run = Simulation(
        build("weighted", 5, votes="3,2,2,1,1"),
        workload=Closed(20),
        network=Network(latency=Uniform(0.5, 3)),
        order="count",
    ).run()
    assert run.overtakings
    assert not run.violations
    assert not find("weighted").causal


MUTANTS = {
    "a voter too few": Mutant("quorum_for(me)))", "quorum_for(me)))[1:]"),
    "one's own votes only": Mutant("tuple(sorted(votes.quorum_for(me)))", "(me,)"),
    "counts one off": Mutant("enumerate(counts, 1)", "enumerate(counts, 2)"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_line_is_noticed(name: str) -> None:
    entry = broken(MODULE, MUTANTS[name]).ALGORITHM
    try:
        processes = entry.build(entry.setup(3, None, {"votes": "2,1,1"}))
    except ConfigError:  # already the coterie objects
        return
    assert check(processes).verdict == "violated"
