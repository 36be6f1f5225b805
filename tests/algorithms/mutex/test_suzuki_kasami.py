"""Suzuki and Kasami, rule by rule; then every interleaving; then every line that matters, broken."""

from __future__ import annotations

from coterie.algorithms.mutex.token.suzuki_kasami import Request, SuzukiKasami, Token
from coterie.process import Channel, Entered
from tests.harness import Hand, Mutant, explore
from tests.suites import Explored, broken_lines, every_interleaving


def holder(size: int = 3) -> Hand:
    return Hand(SuzukiKasami(1, [0] * size, Token((0,) * size, ())))


def test_with_the_token_in_hand_it_enters_without_a_message() -> None:
    hand = holder()
    assert hand.call("acquire") == [Entered()]
    assert hand.call("release") == []
    assert hand.call("acquire") == [Entered()]


def test_without_the_token_it_asks_everyone_with_its_next_number() -> None:
    hand = Hand(SuzukiKasami(2, [0, 4, 0]))
    assert hand.call("acquire") == [(1, Request(5)), (3, Request(5))]


def test_the_token_lets_it_in() -> None:
    hand = Hand(SuzukiKasami(2, [0, 0, 0]))
    hand.call("acquire")
    assert hand.receive(1, Token((0, 0, 0), ())) == [Entered()]


def test_an_idle_holder_sends_the_token_to_a_new_request() -> None:
    assert holder().receive(3, Request(1)) == [(3, Token((0, 0, 0), ()))]


def test_a_request_that_was_served_before_is_ignored() -> None:
    hand = Hand(SuzukiKasami(1, [0, 0, 2], Token((0, 0, 2), ())))
    assert hand.receive(3, Request(2)) == []
    assert hand.receive(3, Request(1)) == []


def test_a_holder_inside_keeps_the_token_until_it_leaves() -> None:
    hand = holder()
    hand.call("acquire")
    assert hand.receive(2, Request(1)) == []
    assert hand.call("release") == [(2, Token((1, 0, 0), ()))]


def test_the_token_carries_the_queue_of_the_others() -> None:
    hand = holder(4)
    hand.call("acquire")
    hand.receive(4, Request(1))
    hand.receive(2, Request(1))
    assert hand.call("release") == [(2, Token((1, 0, 0, 0), (4,)))]


def test_who_is_asked_first_depends_on_the_leaver_so_that_no_id_is_favoured() -> None:
    hand = Hand(SuzukiKasami(3, [0, 0, 0, 0], Token((0, 0, 0, 0), ())))
    hand.call("acquire")
    hand.receive(1, Request(1))
    hand.receive(4, Request(1))
    assert hand.call("release") == [(4, Token((0, 0, 1, 0), (1,)))]


def test_a_request_is_remembered_even_where_the_token_is_not() -> None:
    hand = Hand(SuzukiKasami(2, [0, 0, 0]))
    hand.call("acquire")
    hand.receive(3, Request(1))
    hand.receive(1, Token((0, 0, 0), ()))
    assert hand.call("release") == [(3, Token((0, 1, 0), ()))]


EXPLORED = [  # processes, entries, links, states, transitions
    Explored(2, 2, Channel.FIFO, 84, 113),
    Explored(2, 2, Channel.UNORDERED, 89, 123),
    Explored(3, 1, Channel.FIFO, 579, 1580),
    Explored(3, 1, Channel.UNORDERED, 725, 2077),
]

test_every_interleaving_is_safe_and_live = every_interleaving("suzuki-kasami", EXPLORED)


def test_as_the_survey_prints_it_a_request_is_lost() -> None:
    verdict = explore("suzuki-kasami", 3, variant="survey")
    assert verdict.verdict == "violated"
    assert verdict.property == "no deadlock"
    assert verdict.depth == 8


MUTANTS = {
    "sent while inside": Mutant(
        "self.token is not None and not self._inside(self.token)", "self.token is not None"
    ),
    "token copied": Mutant("self.token = None\n", "pass\n"),
    "not noted as served": Mutant(
        "served[self.me - 1] = self.requested[self.me - 1]", "pass", size=2, entries=2
    ),
    "requests not noted": Mutant("max(self.requested[sender - 1], number)", "0", size=2),
    "old requests served": Mutant("== served[peer - 1] + 1", ">= served[peer - 1]", size=2),
}


def seats(kind: type[SuzukiKasami], size: int) -> list[SuzukiKasami]:
    first = kind(1, [0] * size, Token((0,) * size, ()))
    return [first, *[kind(me, [0] * size) for me in range(2, size + 1)]]


test_a_broken_line_is_noticed = broken_lines(SuzukiKasami, MUTANTS, seats)
