"""Raymond, rule by rule; then every interleaving; then every line that matters, broken."""

from __future__ import annotations

from random import Random
from statistics import mean

import pytest

from coterie.algorithms.mutex.token.raymond import Raymond, Request, Token
from coterie.algorithms.mutex.token.trees import parse_tree
from coterie.catalogue import Costs, find
from coterie.errors import ConfigError, ProtocolError, UsageError
from coterie.lab.simulate import Closed, Exponential, Network, Simulation
from coterie.lab.simulate.compare import compare
from coterie.process import Channel, Entered
from tests.harness import Hand, Mutant, build
from tests.sequential import Sequential
from tests.suites import Explored, any_fault_breaks, broken_lines, every_interleaving


def holder() -> Hand:
    return Hand(Raymond(1, holder=1))


def test_with_the_token_in_hand_it_enters_without_a_message() -> None:
    hand = holder()
    assert hand.call("acquire") == [Entered()]
    assert hand.call("release") == []
    assert hand.call("acquire") == [Entered()]


def test_without_the_token_it_asks_the_neighbour_in_whose_direction_it_is() -> None:
    assert Hand(Raymond(5, holder=2)).call("acquire") == [(2, Request())]


def test_a_request_is_passed_on_in_the_same_direction() -> None:
    assert Hand(Raymond(2, holder=1)).receive(5, Request()) == [(1, Request())]


def test_one_request_is_made_for_all_who_wait() -> None:
    hand = Hand(Raymond(2, holder=1))
    assert hand.receive(5, Request()) == [(1, Request())]
    assert hand.receive(4, Request()) == []
    assert hand.call("acquire") == []


def test_an_idle_holder_sends_the_token_to_the_neighbour_who_asks() -> None:
    hand = holder()
    assert hand.receive(3, Request()) == [(3, Token())]
    assert hand.process.holder == 3


def test_a_holder_inside_keeps_the_token_until_it_leaves() -> None:
    hand = holder()
    hand.call("acquire")
    assert hand.receive(2, Request()) == []
    assert hand.call("release") == [(2, Token())]


def test_the_token_lets_it_in_if_its_own_request_came_first() -> None:
    hand = Hand(Raymond(2, holder=1))
    hand.call("acquire")
    hand.receive(5, Request())
    assert hand.receive(1, Token()) == [Entered()]


def test_the_token_is_passed_on_if_the_request_of_a_neighbour_came_first() -> None:
    hand = Hand(Raymond(2, holder=1))
    hand.receive(5, Request())
    assert hand.receive(1, Token()) == [(5, Token())]


def test_a_request_for_those_left_behind_follows_the_token() -> None:
    hand = Hand(Raymond(2, holder=1))
    hand.receive(5, Request())
    hand.call("acquire")
    assert hand.receive(1, Token()) == [(5, Token()), (5, Request())]
    assert hand.receive(5, Token()) == [Entered()]


def test_so_it_does_when_it_leaves() -> None:
    hand = holder()
    hand.call("acquire")
    hand.receive(2, Request())
    hand.receive(3, Request())
    assert hand.call("release") == [(2, Token()), (2, Request())]


def test_whoever_waited_longest_is_first() -> None:
    hand = holder()
    hand.call("acquire")
    hand.receive(3, Request())
    hand.receive(2, Request())
    assert hand.call("release")[0] == (3, Token())
    assert hand.receive(3, Token())[0] == (2, Token())


def test_a_request_may_overtake_the_token_that_was_sent_before_it() -> None:
    hand = Hand(Raymond(2, holder=1))
    hand.call("acquire")
    assert hand.receive(1, Request()) == []
    assert hand.receive(1, Token()) == [Entered()]
    assert hand.call("release") == [(1, Token())]


def test_a_second_request_of_a_neighbour_fails_loudly() -> None:
    hand = Hand(Raymond(2, holder=1))
    hand.receive(5, Request())
    with pytest.raises(ProtocolError, match=r"got Request\(\) from 5"):
        hand.receive(5, Request())


def test_a_token_that_was_not_asked_for_fails_loudly() -> None:
    with pytest.raises(ProtocolError, match=r"got Token\(\) from 1"):
        Hand(Raymond(2, holder=1)).receive(1, Token())


def test_a_token_from_the_wrong_direction_fails_loudly() -> None:
    hand = Hand(Raymond(2, holder=1))
    hand.call("acquire")
    with pytest.raises(ProtocolError, match=r"towards 1, got Token\(\) from 5"):
        hand.receive(5, Token())


EXPLORED = [  # processes, entries, links, states, transitions
    Explored(1, 2, Channel.UNORDERED, 5, 4, parameters={"tree": "binary"}),
    Explored(2, 2, Channel.FIFO, 64, 93, parameters={"tree": "binary"}),
    Explored(2, 2, Channel.UNORDERED, 69, 103, parameters={"tree": "binary"}),
    Explored(3, 1, Channel.FIFO, 136, 237, parameters={"tree": "star"}),
    Explored(3, 1, Channel.UNORDERED, 150, 271, parameters={"tree": "star"}),
    Explored(3, 1, Channel.UNORDERED, 158, 287, parameters={"tree": "chain"}),
    Explored(3, 2, Channel.UNORDERED, 1004, 2055, parameters={"tree": "star"}),
    Explored(4, 1, Channel.UNORDERED, 1049, 2351, parameters={"tree": "star"}),
    Explored(4, 1, Channel.UNORDERED, 1144, 2629, parameters={"tree": "chain"}),
    Explored(4, 2, Channel.UNORDERED, 13954, 35663, parameters={"tree": "binary"}),
    Explored(5, 1, Channel.UNORDERED, 7597, 20460, parameters={"tree": "binary"}),
    Explored(5, 2, Channel.UNORDERED, 182762, 540699, parameters={"tree": "binary"}),
    Explored(6, 1, Channel.UNORDERED, 51836, 163222, parameters={"tree": "binary"}),
    Explored(6, 2, None, 2260532, 7830542),
]

test_every_interleaving_is_safe_and_live = every_interleaving("raymond", EXPLORED)


test_a_crash_a_loss_or_a_duplicate_breaks_it = any_fault_breaks("raymond")


@pytest.mark.parametrize(
    ("tree", "messages_per_entry"), [("binary", 13.0), ("star", 3.9), ("chain", 42.7)]
)
def test_an_entry_costs_twice_the_distance_to_the_token(
    tree: str, messages_per_entry: float
) -> None:
    size, random, links = 64, Random(1), parse_tree(tree, 64)
    processes = Sequential(build("raymond", size, tree=tree))
    holder, costs = 1, []
    for _ in range(2000):
        requester = random.randint(1, size)
        costs.append(processes.enter(requester))
        assert costs[-1] == 2 * links.distance(holder, requester)
        holder = requester
    everyone = range(1, size + 1)
    expected = 2 * mean(links.distance(one, other) for one in everyone for other in everyone)
    assert expected == pytest.approx(messages_per_entry, abs=0.1)
    assert mean(costs) == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize("tree", ["star", "chain", "binary", "random:5", "3-5,5-1,5-6,2-6,4-2,7-1"])
def test_on_every_tree_the_measured_cost_is_that_of_theory(tree: str) -> None:
    entry = find("raymond")
    comparison = compare(entry, entry.setup(7, None, {"tree": tree}))
    assert comparison.agrees, comparison


def test_the_cost_of_a_round_is_computed_from_the_tree() -> None:
    entry = find("raymond")
    assert isinstance(entry.costs, Costs)
    for tree, links in (("star", 12), ("chain", 12), ("binary", 16)):
        cost = entry.costs.idle(entry.setup(7, None, {"tree": tree}))
        assert (cost.low, cost.high) == (2 * links / 7, 2 * links / 7)


def test_saturated_it_costs_about_four_messages_whatever_the_tree() -> None:
    for tree in ("star", "chain", "binary", "random:5"):
        processes = build("raymond", 20, tree=tree)
        result = Simulation(processes, workload=Closed(20, hold=2.0)).run()
        assert result.messages_per_entry == pytest.approx(4 * 19 / 20, rel=0.05)


def test_requests_are_not_served_in_causal_order() -> None:
    network = Network(Exponential(1.0))
    processes = build("raymond", 5, tree="star")
    result = Simulation(
        processes, workload=Closed(50, hold=1.0), network=network, order="count"
    ).run()
    assert not result.violations
    assert result.overtakings


@pytest.mark.parametrize(
    ("tree", "error"),
    [("1-2,2-3,3-1", ConfigError), ("1-2", ConfigError), ("ring", UsageError)],
)
def test_what_is_no_tree_is_refused(tree: str, error: type[Exception]) -> None:
    with pytest.raises(error, match="tree"):
        find("raymond").setup(3, None, {"tree": tree})


MUTANTS = {
    "passed on while inside": Mutant("self.inside or not self.queue", "not self.queue"),
    "never asked again": Mutant("self.asked = False\n", "pass\n"),
    "asked twice": Mutant("self.asked = True\n", "pass\n"),
    "those left behind on leaving": Mutant(
        "self.inside = False\n        self._assign_if_free(out)\n        self._ask_if_needed(out)",
        "self.inside = False\n        self._assign_if_free(out)",
    ),
    "asked before the token is gone": Mutant(
        "self.holder = self.me\n        self._assign_if_free(out)\n        self._ask_if_needed(out)",
        "self.holder = self.me\n        self._ask_if_needed(out)\n        self._assign_if_free(out)",
    ),
    "pointer not turned to us": Mutant("self.holder = self.me\n", "pass\n", size=2),
    "pointer not turned away": Mutant(
        "self.holder = self.queue.pop(0)",
        "head = self.queue.pop(0)\n        out.send(head, Token())",
        size=2,
    ),
    "request forgotten": Mutant("self.queue.append(sender)", "pass", size=2),
    "never known to be inside": Mutant("self.inside = True", "pass", size=2),
    "inside for ever": Mutant("self.inside = False\n        self", "self", size=2),
    "served and still queued": Mutant("self.queue.pop(0)", "self.queue[0]", size=2),
}


def star(kind: type[Raymond], size: int) -> list[Raymond]:
    return [kind(me, 1) for me in range(1, size + 1)]


test_a_broken_line_is_noticed = broken_lines(Raymond, MUTANTS, star)
