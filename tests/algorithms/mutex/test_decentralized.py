"""Votes of replicas, rule by rule; then every interleaving; then replicas that forget."""

from __future__ import annotations

import math
from random import Random

import pytest

from coterie.algorithms.mutex.quorum.decentralized import ALGORITHM
from coterie.algorithms.mutex.quorum.decentralized.chord import Ring
from coterie.algorithms.mutex.quorum.decentralized.retry import (
    ABSTENTION,
    PAUSE,
    SILENCE,
    Ask,
    Decentralized,
    Deny,
    Return,
    Vote,
)
from coterie.catalogue import find
from coterie.errors import ConfigError, ProtocolError, UsageError
from coterie.lab.explore import check
from coterie.lab.explore.findings import DEADLOCK
from coterie.lab.simulate import Closed, Network, Result, Simulation, Uniform, parse_fault
from coterie.lab.simulate.compare import compare
from coterie.process import Channel, Entered, Outbox
from coterie.trace import Header, Told
from tests.harness import Hand, Mutant, build
from tests.suites import Explored, broken_lines, every_interleaving


def client(patience: float | None = None) -> Hand:
    """Ask replicas 2 to 6, of which four are needed."""
    hand = Hand(Decentralized(1, (2, 3, 4, 5, 6), 4, patience))
    assert hand.call("acquire") == [(replica, Ask(1)) for replica in range(2, 7)]
    return hand


def pause_of(me: int, now: float, since: float = 0.0) -> float:
    """Let a client fail at once, and tell how long it pauses."""
    process = Decentralized(me, (9,), 1, since=since)
    process.attempt, process.awaiting = 1, {9}
    out: Outbox[Ask | Vote | Deny | Return] = Outbox(me, now)
    process.receive(9, Deny(1), out)
    [(timer, pause)] = out.timers
    assert timer == PAUSE
    assert pause is not None
    return pause


def test_a_client_asks_all_replicas_and_enters_with_the_last_vote_it_needs() -> None:
    hand = client()
    for replica in (2, 3, 5):
        assert hand.receive(replica, Vote(1)) == []
    assert hand.receive(6, Vote(1)) == [Entered()]


def test_a_vote_more_than_needed_is_kept_and_given_back_with_the_others() -> None:
    hand = client()
    for replica in (2, 3, 5, 6):
        hand.receive(replica, Vote(1))
    assert hand.receive(4, Vote(1)) == []
    assert hand.call("release") == [(replica, Return(1)) for replica in range(2, 7)]


def test_a_vote_that_comes_after_the_client_has_left_is_given_back_at_once() -> None:
    hand = client()
    for replica in (2, 3, 5, 6):
        hand.receive(replica, Vote(1))
    assert hand.call("release") == [(replica, Return(1)) for replica in (2, 3, 5, 6)]
    assert hand.receive(4, Vote(1)) == [(4, Return(1))]


def test_a_replica_gives_its_single_vote_or_denies_it() -> None:
    replica = Hand(Decentralized(9, (9,), 1))
    assert replica.receive(1, Ask(7)) == [(1, Vote(7))]
    assert replica.receive(2, Ask(3)) == [(2, Deny(3))]
    assert replica.receive(1, Return(7)) == []
    assert replica.receive(2, Ask(4)) == [(2, Vote(4))]


def test_a_client_that_fails_returns_its_votes_and_tries_again_after_a_pause() -> None:
    hand = client()
    hand.receive(2, Deny(1))
    hand.receive(3, Vote(1))
    hand.receive(4, Deny(1))
    hand.receive(5, Vote(1))
    assert hand.receive(6, Vote(1)) == [(replica, Return(1)) for replica in (3, 5, 6)]
    assert hand.ring(PAUSE) == [(replica, Ask(1)) for replica in range(2, 7)]


def test_a_denial_does_not_matter_while_enough_votes_can_come() -> None:
    hand = client()
    hand.receive(2, Deny(1))
    for replica in (3, 4, 5):
        assert hand.receive(replica, Vote(1)) == []
    assert hand.receive(6, Vote(1)) == [Entered()]


def test_a_new_request_has_a_new_number_and_old_answers_do_not_count() -> None:
    hand = client()
    for replica in (2, 3, 4, 5):
        hand.receive(replica, Vote(1))
    hand.call("release")
    assert hand.call("acquire") == [(replica, Ask(2)) for replica in range(2, 7)]
    assert hand.receive(6, Vote(1)) == [(6, Return(1))]
    for replica in (2, 3, 4):
        assert hand.receive(replica, Vote(2)) == []
    assert hand.receive(5, Deny(1)) == []
    assert hand.receive(6, Vote(2)) == [Entered()]


def test_a_vote_that_comes_twice_fails_loudly() -> None:
    """Giving it back would free a vote that is counted."""
    hand = client()
    hand.receive(2, Vote(1))
    with pytest.raises(ProtocolError, match="replica 2 gave its vote to try 1 a second time"):
        hand.receive(2, Vote(1))


def test_alone_it_enters_at_once() -> None:
    assert Hand(Decentralized(1, (1,), 1)).call("acquire") == [Entered()]


def test_a_silent_replica_ends_the_try_and_the_next_has_a_new_number() -> None:
    hand = client(patience=10)
    hand.receive(2, Vote(1))
    hand.receive(3, Deny(1))
    assert hand.ring(SILENCE) == [(2, Return(1))]
    assert hand.receive(4, Vote(1)) == [(4, Return(1))]
    assert hand.ring(PAUSE) == [(replica, Ask(2)) for replica in range(2, 7)]
    assert hand.receive(5, Vote(1)) == [(5, Return(1))]


def test_a_vote_of_an_earlier_try_returned_late_is_not_taken_for_the_present_one() -> None:
    """The replica has forgotten the first try and votes for the second; then the first returns."""
    replica = Hand(Decentralized(9, (9,), 1))
    assert replica.receive(1, Ask(2)) == [(1, Vote(2))]
    assert replica.receive(1, Return(1)) == []
    assert replica.receive(2, Ask(1)) == [(2, Deny(1))]


def test_a_replica_that_comes_back_without_memory_gives_its_vote_again() -> None:
    replica = Hand(Decentralized(9, (9,), 1))
    replica.receive(1, Ask(1))
    replica = Hand(Decentralized(9, (9,), 1))
    assert replica.receive(2, Ask(1)) == [(2, Vote(1))]
    assert replica.receive(1, Return(1)) == []
    assert replica.receive(3, Ask(1)) == [(3, Deny(1))]


def test_a_replica_that_abstains_denies_until_the_longest_stay_is_over() -> None:
    replica = Hand(Decentralized(9, (9,), 1, abstention=20))
    out: Outbox[Ask | Vote | Deny | Return] = Outbox(9)
    replica.seat.start(out)
    assert out.timers == [(ABSTENTION, 20)]
    assert replica.receive(1, Ask(1)) == [(1, Deny(1))]
    assert replica.ring(ABSTENTION) == []
    assert replica.receive(1, Ask(1)) == [(1, Vote(1))]


def test_pauses_differ_by_client_and_by_try() -> None:
    pauses = [pause_of(me, now) for me in range(1, 9) for now in (2.0, 3.5, 7.25)]
    assert len(set(pauses)) == len(pauses)
    assert pauses == [pause_of(me, now) for me in range(1, 9) for now in (2.0, 3.5, 7.25)]


def test_pauses_grow_with_the_wait() -> None:
    for waited in (0.0, 0.01, 1.0, 8.0, 64.0):
        scale = max(0.001, waited)
        for me in range(1, 20):
            assert 0.5 * scale <= pause_of(me, 100 + waited, since=100) < 1.5 * scale


def test_replicas_are_where_the_ring_places_the_resource() -> None:
    for resource in ("a", "b"):
        expected = Ring(range(1, 10)).replicas(resource, 4)
        for process in build("decentralized", 9, replicas="4", resource=resource):
            assert isinstance(process, Decentralized)
            assert process.replicas == expected


@pytest.mark.parametrize(
    ("size", "replicas", "needed"), [(1, 1, 1), (2, 2, 2), (3, 3, 3), (4, 4, 3), (9, 5, 4)]
)
def test_by_default_three_of_four_votes_are_needed(size: int, replicas: int, needed: int) -> None:
    process = build("decentralized", size)[0]
    assert isinstance(process, Decentralized)
    assert (len(process.replicas), process.needed) == (replicas, needed)


@pytest.mark.parametrize(
    ("choices", "error", "text"),
    [
        ({"replicas": "8"}, ConfigError, "8 replicas cannot be placed on 7 nodes"),
        ({"replicas": "4", "votes": "2"}, ConfigError, "2 of 4 votes .*so 3 to 4"),
        ({"replicas": "4", "votes": "5"}, ConfigError, "5 of 4 votes .*so 3 to 4"),
        ({"replicas": "0"}, UsageError, "from 1 on, or 'auto', got '0'"),
        ({"votes": "most"}, UsageError, "from 1 on, or 'auto', got 'most'"),
        ({"patience": "0"}, UsageError, "greater than 0, or 'none', got '0'"),
        ({"patience": "inf"}, UsageError, "got 'inf'"),
        ({"abstention": "long"}, UsageError, "got 'long'"),
    ],
)
def test_choices_that_cannot_work_are_refused(
    choices: dict[str, str], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        build("decentralized", 7, **choices)


EXPLORED = [  # processes, entries, links, states, transitions
    Explored(2, 1, Channel.UNORDERED, 75, 134, parameters={"votes": "2"}),
    Explored(2, 2, Channel.UNORDERED, 611, 1576, parameters={"votes": "2"}),
    Explored(3, 1, Channel.UNORDERED, 154885, 731880, parameters={"votes": "2"}),
    Explored(3, 1, Channel.FIFO, 88382, 309639, parameters={"votes": "3"}),
    Explored(3, 1, Channel.UNORDERED, 127778, 665802, parameters={"votes": "3"}),
]

test_every_interleaving_is_safe_and_entry_stays_possible = every_interleaving(
    "decentralized", EXPLORED
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("needed", "states", "transitions"), [(2, 23377, 98732), (3, 59247, 314486)]
)
def test_two_candidates_and_three_replicas_are_safe(
    needed: int, states: int, transitions: int
) -> None:
    processes = [Decentralized(me, (3, 4, 5), needed) for me in range(1, 6)]
    verdict = check(processes, requesters=[1, 2])
    assert verdict.verdict == "verified", verdict.reason
    assert (verdict.states, verdict.transitions) == (states, transitions)


@pytest.mark.parametrize(("replicas", "steps"), [(2, 6), (4, 10)])
def test_half_of_the_votes_are_not_enough(replicas: int, steps: int) -> None:
    voters = tuple(range(3, 3 + replicas))
    processes = [Decentralized(me, voters, replicas // 2) for me in range(1, 3 + replicas)]
    verdict = check(processes, requesters=[1, 2])
    assert (verdict.property, verdict.depth) == ("mutual exclusion", steps)


def test_a_dead_replica_is_waited_for_for_ever_by_those_who_have_no_patience() -> None:
    verdict = check(build("decentralized", 3), crashes=1)
    assert verdict.property == DEADLOCK


@pytest.mark.slow
def test_with_patience_nothing_wrong_is_found_in_the_first_states() -> None:
    """Tries are without number, and so are the states: the search ends with its budget."""
    processes = [Decentralized(me, (3, 4, 5), 2, patience=5.0) for me in range(1, 6)]
    verdict = check(processes, requesters=[1, 2], losses=1, max_states=300_000)
    assert verdict.verdict == "unfinished"


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 13])
def test_an_entry_costs_three_messages_for_each_other_replica(size: int) -> None:
    comparison = compare(ALGORITHM, ALGORITHM.setup(size))
    assert comparison.agrees, comparison
    replicas = min(5, size)
    assert comparison.idle.measured == pytest.approx(3 * replicas * (size - 1) / size)


def test_everybody_gets_in_at_last_and_requests_are_not_served_in_causal_order() -> None:
    run = Simulation(
        build("decentralized", 9),
        workload=Closed(10),
        network=Network(latency=Uniform(0.5, 3)),
        order="count",
    ).run()
    assert (run.entries, run.unserved, run.violations) == (90, 0, [])
    assert run.overtakings
    assert not find("decentralized").causal


VOTERS = (3, 4, 5, 6, 7)
STAY = 100.0


CRASHES = (250, 850, 1450)


def forgetful(seed: int, abstention: float = 0.0) -> Result:
    """Let 1 and 2 enter ten times each for a long stay, while most replicas forget now and then."""
    processes = [Decentralized(me, VOTERS, 4, 8.0, abstention) for me in range(1, 8)]
    faults = [
        parse_fault(text)
        for time in CRASHES
        for voter in VOTERS[1:]
        for text in (f"crash {voter} @ {time}", f"restart {voter} @ {time + 1}")
    ]
    return Simulation(
        processes,
        workload=Closed(10, [1, 2], hold=STAY),
        network=Network(latency=Uniform(0.5, 1.5)),
        faults=faults,
        seed=seed,
        header=Header(algorithm="decentralized", size=7),
    ).run()


def crashes_during_a_stay(run: Result) -> int:
    assert run.trace is not None
    entries = [record.time for record in run.trace.records if isinstance(record, Told)]
    return sum(any(entry < time < entry + STAY for entry in entries) for time in CRASHES)


def test_replicas_that_forget_let_a_second_client_in() -> None:
    """Unless it pauses just then."""
    runs = [forgetful(seed) for seed in range(10)]
    names = [violation.name for run in runs for violation in run.violations]
    assert names
    assert set(names) == {"safety"}


def test_replicas_that_abstain_for_the_longest_stay_do_not() -> None:
    """With clocks that agree and messages that take no longer than the margin."""
    for seed in range(10):
        run = forgetful(seed, abstention=STAY + 4)
        assert (run.violations, run.entries, run.unserved) == ([], 20, 0)
        assert crashes_during_a_stay(run) >= 2, "or there was nothing to forget"


def violation_probability(replicas: int, votes: int, forgetting: float) -> float:
    """Return the probability that enough voters of a client forget to let a second one in.

    The first client has `votes` of them and the rest are free. Each replica forgets during the
    stay with probability `forgetting`, independently; 2 votes - replicas of the voters must.
    """
    return math.fsum(
        math.comb(votes, k) * forgetting**k * (1 - forgetting) ** (votes - k)
        for k in range(2 * votes - replicas, votes + 1)
    )


@pytest.mark.parametrize(
    ("replicas", "votes", "forgetting", "probability"),
    [
        (32, 24, 10 / 10800, "2.1e-43"),
        (32, 17, 10 / 10800, "1.2e-04"),
        (5, 4, 0.0, "0.0e+00"),
        (5, 4, 1.0, "1.0e+00"),
        (3, 2, 0.5, "7.5e-01"),
    ],
)
def test_the_probability_of_a_violation_is_that_of_the_literature(
    replicas: int, votes: int, forgetting: float, probability: str
) -> None:
    assert f"{violation_probability(replicas, votes, forgetting):.1e}" == probability


def second_client_enters(replicas: int, votes: int, forgetting: float, random: Random) -> bool:
    """Let client 1 enter with just enough votes, its voters forget, and client 2 try again.

    The votes that client 1 does not have went to client 2 first and were given back.
    """
    names = tuple(range(3, 3 + replicas))
    inside, outside = (Hand(Decentralized(me, names, votes)) for me in (1, 2))
    voters = {name: Hand(Decentralized(name, names, votes)) for name in names}
    inside.call("acquire")
    outside.call("acquire")
    for name in names[votes:]:
        [(_, vote)] = voters[name].receive(2, Ask(1))
        outside.receive(name, vote)
    for name in names[:votes]:
        [(_, vote)] = voters[name].receive(1, Ask(1))
        inside.receive(name, vote)
    given_back = []
    for name in names[:votes]:
        [(_, denial)] = voters[name].receive(2, Ask(1))
        given_back = outside.receive(name, denial)
    for name, message in given_back:
        voters[name].receive(2, message)
    for name in names[:votes]:
        if random.random() < forgetting:
            voters[name] = Hand(Decentralized(name, names, votes))
    outside.ring(PAUSE)
    answers = [(name, voters[name].receive(2, Ask(1))[0][1]) for name in names]
    return any(Entered() in outside.receive(name, answer) for name, answer in answers)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("replicas", "votes", "forgetting"), [(5, 4, 0.5), (5, 3, 0.2), (8, 6, 0.6), (4, 4, 0.8)]
)
def test_violations_are_as_frequent_as_the_formula_says(
    replicas: int, votes: int, forgetting: float
) -> None:
    """Measured on the processes themselves; within five standard deviations of 2,000 trials."""
    random = Random(1)
    trials = 2000
    seen = sum(second_client_enters(replicas, votes, forgetting, random) for _ in range(trials))
    expected = violation_probability(replicas, votes, forgetting)
    deviation = (expected * (1 - expected) / trials) ** 0.5
    assert abs(seen / trials - expected) < 5 * deviation


MUTANTS = {
    "a vote too few": Mutant("== self.needed:", "== self.needed - 1:"),
    "votes twice": Mutant("self.given is None and not self.abstains", "True"),
    "vote not noted": Mutant("self.given = (client, attempt)", "pass"),
    "returned vote lost": Mutant(
        "if self.given == (sender, attempt):\n                    self.given = None", "pass"
    ),
    "late vote kept": Mutant("out.send(replica, Return(attempt))", "pass"),
    "votes not given back": Mutant("out.broadcast(self.votes, Return(self.attempt))", "pass"),
    "votes kept when given back": Mutant("self.votes.clear()", "pass"),
    "denial not minded": Mutant(
        "if self._is_awaited(sender, attempt):\n                    self._back",
        "if False:\n                    self._back",
    ),
    "no second try": Mutant(
        "if timer == PAUSE:\n            self._try_again(out)",
        "if timer == PAUSE:\n            pass",
    ),
    "no pause set": Mutant("out.set_timer(PAUSE, self._pause(out.now))", "pass"),
    "answer not crossed off": Mutant("self.awaiting.remove(replica)", "pass"),
    "answers awaited after leaving": Mutant("self.awaiting.clear()", "pass"),
}


test_a_broken_line_is_noticed = broken_lines(
    Decentralized, MUTANTS, lambda kind, _: [kind(me, (1, 2, 3), 2) for me in (1, 2, 3)]
)
