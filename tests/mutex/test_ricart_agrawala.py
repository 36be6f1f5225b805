"""Ricart and Agrawala, rule by rule; then every interleaving; then every line that matters, broken."""

from __future__ import annotations

import pytest
from tests.harness import Hand, Mutant, broken, explore

from coterie.clocks import Stamp
from coterie.explore import check
from coterie.mutex.permission.ricart_agrawala import Reply, Request, RicartAgrawala
from coterie.process import Channel, Entered

MODULE = "coterie.mutex.permission.ricart_agrawala"


def test_a_request_goes_to_every_other_process() -> None:
    hand = Hand(RicartAgrawala(2, 3))
    assert hand.call("acquire") == [(1, Request(Stamp(1, 2))), (3, Request(Stamp(1, 2)))]


def test_it_enters_when_the_last_reply_has_come() -> None:
    hand = Hand(RicartAgrawala(1, 3))
    hand.call("acquire")
    assert hand.receive(3, Reply()) == []
    assert hand.receive(2, Reply()) == [Entered()]


def test_alone_it_enters_at_once() -> None:
    assert Hand(RicartAgrawala(1, 1)).call("acquire") == [Entered()]


def test_who_wants_nothing_replies_at_once() -> None:
    assert Hand(RicartAgrawala(1, 2)).receive(2, Request(Stamp(7, 2))) == [(2, Reply())]


def test_an_older_request_is_answered_even_while_waiting() -> None:
    hand = Hand(RicartAgrawala(2, 2, highest=9))
    hand.call("acquire")
    assert hand.receive(1, Request(Stamp(9, 1))) == [(1, Reply())]


def test_a_younger_request_is_answered_on_release() -> None:
    hand = Hand(RicartAgrawala(1, 2))
    hand.call("acquire")
    assert hand.receive(2, Request(Stamp(2, 2))) == []
    assert hand.receive(2, Reply()) == [Entered()]
    assert hand.call("release") == [(2, Reply())]


def test_of_two_requests_with_equal_times_the_smaller_id_is_older() -> None:
    first, second = Hand(RicartAgrawala(1, 2)), Hand(RicartAgrawala(2, 2))
    [(_, request_of_first)] = first.call("acquire")
    [(_, request_of_second)] = second.call("acquire")
    assert first.receive(2, request_of_second) == []
    assert second.receive(1, request_of_first) == [(1, Reply())]


def test_a_new_request_is_younger_than_every_request_seen() -> None:
    hand = Hand(RicartAgrawala(1, 2))
    hand.receive(2, Request(Stamp(41, 2)))
    assert hand.call("acquire") == [(2, Request(Stamp(42, 1)))]


def test_a_reply_that_nobody_waits_for_fails_loudly() -> None:
    with pytest.raises(KeyError):
        Hand(RicartAgrawala(1, 2)).receive(2, Reply())


@pytest.mark.parametrize(
    ("size", "entries", "channel", "states", "transitions"),
    [
        (2, 1, Channel.UNORDERED, 40, 56),
        (2, 2, Channel.UNORDERED, 211, 307),
        (3, 1, Channel.FIFO, 2049, 5488),
        (3, 2, Channel.FIFO, 25674, 71372),
        (3, 1, Channel.UNORDERED, 2268, 6426),
    ],
)
def test_every_interleaving_is_safe_and_live(
    size: int, entries: int, channel: Channel, states: int, transitions: int
) -> None:
    verdict = explore("ricart-agrawala", size, entries, channel=channel)
    assert verdict.verdict == "verified", verdict.reason
    assert (verdict.states, verdict.transitions) == (states, transitions)


MUTANTS = {
    "ties unbroken": Mutant("self.stamp < stamp", "self.stamp.time < stamp.time", size=2),
    "ties block both": Mutant("self.stamp < stamp", "self.stamp.time <= stamp.time", size=2),
    "never defer": Mutant("self.stamp is not None and self.stamp < stamp", "False", size=2),
    "always defer": Mutant(
        "self.stamp is not None and self.stamp < stamp", "self.stamp is not None", size=2
    ),
    "clock not merged": Mutant("max(self.highest, stamp.time)", "self.highest"),
    "deferred forgotten": Mutant("out.broadcast(self.deferred, Reply())", "pass", size=2),
    "deferred kept": Mutant("self.deferred.clear()", "pass", size=2, entries=2),
    "stamp kept": Mutant("self.stamp = None\n", "pass\n", size=2),
    "one reply is enough": Mutant("if not self.awaiting:", "if len(self.awaiting) < 2:"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_line_is_noticed(name: str) -> None:
    mutant = MUTANTS[name]
    module = broken(MODULE, mutant)
    processes = [module.RicartAgrawala(me, mutant.size) for me in range(1, mutant.size + 1)]
    verdict = check(processes, entries=mutant.entries, channel=mutant.channel)
    assert verdict.verdict == "violated"
    assert verdict.counterexample is not None
