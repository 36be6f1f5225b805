"""Ricart and Agrawala, rule by rule, and with permissions kept; then every interleaving, and mutants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from coterie.algorithms.mutex.permission.ricart_agrawala import (
    Reply,
    Request,
    RicartAgrawala,
    RoucairolCarvalho,
)
from coterie.clocks import Stamp
from coterie.errors import ProtocolError
from coterie.lab.explore import check
from coterie.lab.simulate import Closed, Exponential, Network, OneAtATime, Simulation
from coterie.process import Channel, Entered
from tests.harness import Hand, Mutant, build
from tests.suites import Explored, broken_lines, every_interleaving

if TYPE_CHECKING:
    from collections.abc import Sequence


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


def test_keeping_only_those_are_asked_whose_permission_is_lacking() -> None:
    hand = Hand(RoucairolCarvalho(1, 3, permissions={2}))
    assert hand.call("acquire") == [(3, Request(Stamp(1, 1)))]
    assert hand.receive(3, Reply()) == [Entered()]


def test_keeping_with_all_permissions_it_enters_at_once_and_again() -> None:
    hand = Hand(RoucairolCarvalho(1, 2))
    hand.call("acquire")
    hand.receive(2, Reply())
    assert hand.call("release") == []
    assert hand.call("acquire") == [Entered()]


def test_keeping_who_wants_nothing_gives_the_permission_back() -> None:
    hand = Hand(RoucairolCarvalho(1, 2, permissions={2}))
    assert hand.receive(2, Request(Stamp(7, 2))) == [(2, Reply())]
    assert hand.call("acquire") == [(2, Request(Stamp(8, 1)))]


def test_keeping_inside_even_an_older_request_is_answered_on_release() -> None:
    hand = Hand(RoucairolCarvalho(2, 2, highest=5, permissions={1}))
    assert hand.call("acquire") == [Entered()]
    assert hand.receive(1, Request(Stamp(1, 1))) == []
    assert hand.call("release") == [(1, Reply())]
    assert hand.call("acquire") == [(1, Request(Stamp(7, 2)))]


def test_keeping_while_waiting_a_younger_request_is_answered_on_release() -> None:
    hand = Hand(RoucairolCarvalho(1, 3, permissions={2}))
    hand.call("acquire")
    assert hand.receive(2, Request(Stamp(2, 2))) == []
    assert hand.receive(3, Reply()) == [Entered()]
    assert hand.call("release") == [(2, Reply())]


def test_keeping_an_older_request_takes_the_permission_and_it_is_asked_for_again() -> None:
    hand = Hand(RoucairolCarvalho(3, 3, permissions={2}))
    hand.call("acquire")
    own = Request(Stamp(1, 3))
    assert hand.receive(2, Request(Stamp(1, 2))) == [(2, Reply()), (2, own)]
    assert hand.receive(1, Reply()) == []
    assert hand.receive(2, Reply()) == [Entered()]


def test_keeping_a_permission_that_was_asked_for_anyway_is_not_asked_for_twice() -> None:
    hand = Hand(RoucairolCarvalho(3, 3, permissions={1}))
    hand.call("acquire")
    assert hand.receive(2, Request(Stamp(1, 2))) == [(2, Reply())]


def test_keeping_alone_it_enters_at_once() -> None:
    assert Hand(RoucairolCarvalho(1, 1)).call("acquire") == [Entered()]


def test_keeping_a_reply_that_nobody_waits_for_is_reported() -> None:
    hand = Hand(RoucairolCarvalho(1, 3))
    with pytest.raises(ProtocolError, match="process 2 replied to process 1, which did not ask"):
        hand.receive(2, Reply())
    hand.call("acquire")
    hand.receive(2, Reply())
    with pytest.raises(ProtocolError, match="process 2 replied to process 1, which did not ask"):
        hand.receive(2, Reply())


EXPLORED = [  # processes, entries, links, states, transitions
    Explored(2, 1, Channel.UNORDERED, 34, 46, variant="plain"),
    Explored(2, 2, Channel.UNORDERED, 151, 226, variant="plain"),
    Explored(3, 1, Channel.FIFO, 2049, 5488, variant="plain"),
    Explored(3, 2, Channel.FIFO, 25674, 71372, variant="plain"),
    Explored(3, 1, Channel.UNORDERED, 2822, 9005, variant="plain"),
    Explored(3, 2, Channel.UNORDERED, 37229, 125212, variant="plain"),
    Explored(4, 1, Channel.FIFO, 1402298, 7398198, variant="plain"),
    Explored(2, 1, Channel.UNORDERED, 35, 46, variant="keeping"),
    Explored(2, 2, Channel.UNORDERED, 132, 184, variant="keeping"),
    Explored(3, 1, Channel.FIFO, 2096, 5540, variant="keeping"),
    Explored(3, 2, Channel.FIFO, 12920, 32472, variant="keeping"),
    Explored(3, 1, Channel.UNORDERED, 2874, 9065, variant="keeping"),
    Explored(3, 2, Channel.UNORDERED, 19831, 57863, variant="keeping"),
    Explored(3, 3, Channel.UNORDERED, 139548, 408995, variant="keeping"),
    Explored(4, 1, Channel.UNORDERED, 2083281, 13427709, variant="keeping"),
]

test_every_interleaving_is_safe_and_live = every_interleaving("ricart-agrawala", EXPLORED)


@pytest.mark.parametrize("variant", ["plain", "keeping"])
def test_nobody_waits_for_one_who_wants_nothing(variant: str) -> None:
    verdict = check(build("ricart-agrawala", 3, variant), entries=3, requesters=[1, 3])
    assert verdict.verdict == "verified", verdict.reason


@pytest.mark.parametrize(("turns", "messages"), [([1, 2], 2), ([1, 2, 3], 4), (range(1, 6), 8)])
def test_keeping_asks_those_who_came_since(turns: Sequence[int], messages: int) -> None:
    """After a round in which everybody asks everyone, each of k in turn asks the other k - 1."""
    entries = 10 * len(turns)
    processes = build("ricart-agrawala", 5, "keeping")
    result = Simulation(processes, workload=OneAtATime(entries, turns)).run()
    assert result.messages == len(turns) * 2 * 4 + (entries - len(turns)) * messages


@pytest.mark.parametrize("variant", ["plain", "keeping"])
def test_a_request_may_overtake_one_that_happened_before_it(variant: str) -> None:
    simulation = Simulation(
        build("ricart-agrawala", 5, variant),
        workload=Closed(100),
        network=Network(latency=Exponential(1.0)),
        order="count",
    )
    overtakings = simulation.run().overtakings
    assert overtakings is not None
    assert overtakings > 0


MUTANTS = {
    "ties unbroken": Mutant("self.stamp < stamp", "self.stamp.time < stamp.time", size=2),
    "ties block both": Mutant("self.stamp < stamp", "self.stamp.time <= stamp.time", size=2),
    "never defer": Mutant("self.stamp is not None and self.stamp < stamp", "False", size=2),
    "always defer": Mutant(
        "self.stamp is not None and self.stamp < stamp", "self.stamp is not None", size=2
    ),
    "clock not merged": Mutant("if stamp.time > self.highest:", "if False:"),
    "deferred forgotten": Mutant("out.broadcast(self.deferred, Reply())", "pass", size=2),
    "deferred kept": Mutant("self.deferred.clear()", "pass", size=2, entries=2),
    "stamp kept": Mutant("self.stamp = None\n", "pass\n", size=2),
    "one reply is enough": Mutant(
        "(sender)\n            if not self.awaiting:", "(sender)\n            if True:"
    ),
}


KEEPING_MUTANTS = {
    "not asked for again": Mutant("out.send(sender, Request(self.stamp))", "pass", entries=2),
    "asked for again when idle": Mutant(
        "if self.stamp is not None:\n", "if self.highest:\n", size=2, entries=2
    ),
    "given and kept": Mutant("self.permissions.remove(sender)", "pass", size=2, entries=2),
    "given late and kept": Mutant("self.permissions -= self.deferred", "pass", size=2, entries=2),
    "an older request enters beside": Mutant(
        "(self.stamp < other or not self._lacking())", "self.stamp < other", size=2, entries=2
    ),
    "ties unbroken": Mutant("self.stamp < other", "self.stamp.time < other.time", size=2),
    "ties block both": Mutant("self.stamp < other", "self.stamp.time <= other.time", size=2),
    "always defer": Mutant(
        "self.stamp is not None and (self.stamp < other or not self._lacking())",
        "self.stamp is not None",
        size=2,
    ),
    "clock not merged": Mutant("max(self.highest, stamp.time)", "self.highest"),
    "deferred forgotten": Mutant("out.broadcast(self.deferred, Reply())", "pass", size=2),
    "deferred kept": Mutant("self.deferred.clear()", "pass", size=2, entries=2),
    "stamp kept": Mutant("self.stamp = None\n", "pass\n", size=2),
    "one permission is enough": Mutant("if not self._lacking():", "if len(self._lacking()) < 2:"),
}


def seats(kind: type[Any], size: int) -> list[Any]:
    return [kind(me, size) for me in range(1, size + 1)]


test_a_broken_line_is_noticed = broken_lines(RicartAgrawala, MUTANTS, seats)
test_a_broken_line_of_the_keeping_variant_is_noticed = broken_lines(
    RoucairolCarvalho, KEEPING_MUTANTS, seats
)
