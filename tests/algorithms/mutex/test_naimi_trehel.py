"""Naimi and Trehel, rule by rule; then every interleaving; then every line that matters, broken."""

from __future__ import annotations

from fractions import Fraction
from random import Random
from statistics import mean
from typing import Any

import numpy as np
import pytest

from coterie.algorithms.mutex.token.naimi_trehel import NaimiTrehel, Request, Token
from coterie.errors import ProtocolError
from coterie.lab.simulate import Closed, Exponential, Network, Simulation
from coterie.process import Channel, Entered
from tests.harness import Hand, Mutant, build
from tests.sequential import Sequential
from tests.suites import Explored, any_fault_breaks, broken_lines, every_interleaving


def holder() -> Hand:
    return Hand(NaimiTrehel(1, None, token=True))


def waiting() -> Hand:
    hand = Hand(NaimiTrehel(2, 1))
    hand.call("acquire")
    return hand


def test_with_the_token_in_hand_it_enters_without_a_message() -> None:
    hand = holder()
    assert hand.call("acquire") == [Entered()]
    assert hand.call("release") == []
    assert hand.call("acquire") == [Entered()]


def test_without_the_token_it_asks_its_father_and_becomes_a_root() -> None:
    hand = Hand(NaimiTrehel(2, 7))
    assert hand.call("acquire") == [(7, Request(2))]
    assert hand.process.father is None


def test_the_token_lets_it_in() -> None:
    assert waiting().receive(1, Token()) == [Entered()]


def test_who_has_a_father_passes_the_request_to_it() -> None:
    hand = Hand(NaimiTrehel(2, 1))
    assert hand.receive(5, Request(4)) == [(1, Request(4))]


def test_an_idle_holder_sends_the_token_straight_to_the_requester() -> None:
    hand = holder()
    assert hand.receive(5, Request(4)) == [(4, Token())]
    assert not hand.process.token


def test_a_root_that_waits_takes_the_requester_for_its_next() -> None:
    hand = waiting()
    assert hand.receive(5, Request(4)) == []
    assert hand.process.next == 4


def test_a_root_inside_sends_the_token_to_its_next_when_it_leaves() -> None:
    hand = holder()
    hand.call("acquire")
    assert hand.receive(5, Request(4)) == []
    assert hand.call("release") == [(4, Token())]
    assert hand.process.next is None


def test_whatever_it_does_with_a_request_the_requester_is_its_father_from_then_on() -> None:
    inside = holder()
    inside.call("acquire")
    for hand in (holder(), waiting(), inside, Hand(NaimiTrehel(2, 1))):
        hand.receive(5, Request(4))
        assert hand.process.father == 4


def test_who_waits_with_a_next_passes_further_requests_to_the_last_it_knows() -> None:
    hand = waiting()
    hand.receive(4, Request(4))
    assert hand.receive(5, Request(5)) == [(4, Request(5))]
    assert hand.receive(6, Request(6)) == [(5, Request(6))]
    assert hand.process.next == 4


def test_a_token_that_nobody_asked_for_fails_loudly() -> None:
    with pytest.raises(ProtocolError, match="process 1 sent a token that was not asked for"):
        Hand(NaimiTrehel(2, 1)).receive(1, Token())


def test_a_request_that_comes_back_fails_loudly() -> None:
    with pytest.raises(ProtocolError, match="the request of process 2 came back to it"):
        waiting().receive(5, Request(2))


def test_a_second_token_fails_loudly() -> None:
    hand = waiting()
    hand.receive(1, Token())
    with pytest.raises(ProtocolError, match="process 3 sent a token"):
        hand.receive(3, Token())


EXPLORED = [  # processes, entries, links, states, transitions
    Explored(1, 2, Channel.UNORDERED, 5, 4),
    Explored(2, 2, Channel.FIFO, 64, 93),
    Explored(2, 2, Channel.UNORDERED, 69, 103),
    Explored(3, 1, Channel.FIFO, 154, 264),
    Explored(3, 1, Channel.UNORDERED, 164, 296),
    Explored(3, 2, Channel.UNORDERED, 1530, 3113),
    Explored(4, 1, Channel.UNORDERED, 1476, 3352),
    Explored(4, 2, Channel.UNORDERED, 45980, 115094),
    Explored(5, 1, Channel.UNORDERED, 15456, 42000),
    Explored(6, 1, Channel.UNORDERED, 187696, 593824),
    Explored(5, 2, None, 1826036, 5356435),
]

test_every_interleaving_is_safe_and_live = every_interleaving("naimi-trehel", EXPLORED)


test_a_crash_a_loss_or_a_duplicate_breaks_it = any_fault_breaks("naimi-trehel")


def harmonic(number: int) -> Fraction:
    return sum((Fraction(1, term) for term in range(1, number + 1)), Fraction(0))


@pytest.mark.slow
@pytest.mark.parametrize("size", [8, 16, 32, 64])
def test_random_requesters_pay_the_harmonic_number_on_average(size: int) -> None:
    random = Random(1)
    processes = Sequential(build("naimi-trehel", size))
    costs = [processes.enter(random.randint(1, size)) for _ in range(10_000)]
    assert mean(costs) == pytest.approx(float(harmonic(size - 1)), rel=0.02)
    assert max(costs) <= size


class Trees:
    """All trees that entries one after the other lead to, as a Markov chain."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.numbers: dict[tuple[int | None, ...], int] = {}
        self.steps: list[list[tuple[int, int]]] = []  # by tree and requester: next tree, messages
        todo = [(None, *[1] * (size - 1))]
        self.numbers[todo[0]] = 0
        for tree in todo:  # grows as it is read
            self.steps.append([])
            for requester in range(1, size + 1):
                after, messages = self._enter(tree, requester)
                if after not in self.numbers:
                    self.numbers[after] = len(todo)
                    todo.append(after)
                self.steps[-1].append((self.numbers[after], messages))

    def _enter(
        self, tree: tuple[int | None, ...], requester: int
    ) -> tuple[tuple[int | None, ...], int]:
        fathers = enumerate(tree, 1)
        processes = [NaimiTrehel(me, father, token=father is None) for me, father in fathers]
        sequence = Sequential(processes)
        messages = sequence.enter(requester)
        return tuple(process.father for process in processes), messages

    def mean_messages(self) -> float:
        """Average over requesters drawn at random for ever."""
        chain: Any = np.zeros((len(self.steps), len(self.steps)))
        for tree, steps in enumerate(self.steps):
            for after, _ in steps:
                chain[tree, after] += 1 / self.size
        likely: Any = np.full(len(self.steps), 1 / len(self.steps))
        for _ in range(200):
            likely = likely @ chain
        costs = [mean(messages for _, messages in steps) for steps in self.steps]
        return float(likely @ np.array(costs))


@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_the_mean_is_exactly_the_harmonic_number(size: int) -> None:
    assert Trees(size).mean_messages() == pytest.approx(float(harmonic(size - 1)), abs=1e-9)


@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_every_rooted_tree_comes_about_and_the_longest_path_costs_one_message_each(
    size: int,
) -> None:
    trees = Trees(size)
    assert len(trees.numbers) == size ** (size - 1)
    assert max(messages for steps in trees.steps for _, messages in steps) == size


def test_the_next_enters_one_message_after_the_exit_however_long_the_queue() -> None:
    result = Simulation(build("naimi-trehel", 10), workload=Closed(10, hold=30.0)).run()
    assert result.synchronisation_delay is not None
    assert (result.synchronisation_delay.min, result.synchronisation_delay.max) == (1, 1)


def test_requests_are_not_served_in_causal_order() -> None:
    network = Network(Exponential(1.0))
    processes = build("naimi-trehel", 5)
    result = Simulation(
        processes, workload=Closed(50, hold=1.0), network=network, order="count"
    ).run()
    assert not result.violations
    assert result.overtakings


MUTANTS = {
    "father never changes": Mutant("self.father = origin", "pass"),
    "father changes only where a request is passed on": Mutant(
        "self.father = origin", "self.father = self.father and origin"
    ),
    "no root when asking": Mutant("self.father = None\n", "pass\n", size=2),
    "served while inside": Mutant("elif self.wants:", "elif self.wants and not self.token:"),
    "next not noted": Mutant("self.next = origin", "pass", size=2),
    "next kept": Mutant("self.next = None\n", "pass\n", size=3, entries=2),
    "token copied": Mutant("self.token = False\n", "pass\n", size=2),
    "token not noted": Mutant("self.token = True", "pass", size=2),
    "wants for ever": Mutant("self.wants = False\n        if", "if", size=2),
    "never known to wait": Mutant("self.wants = True", "pass", size=2),
    "token sent to the one who passed the request on": Mutant(
        "self._pass_or_serve(origin, out)", "self._pass_or_serve(sender, out)"
    ),
}


def seats(kind: type[NaimiTrehel], size: int) -> list[NaimiTrehel]:
    return [kind(1, None, token=True), *[kind(me, 1) for me in range(2, size + 1)]]


test_a_broken_line_is_noticed = broken_lines(NaimiTrehel, MUTANTS, seats)
