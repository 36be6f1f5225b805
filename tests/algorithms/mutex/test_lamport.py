"""Lamport's queue, rule by rule; then every interleaving; then every line that matters, broken."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.algorithms.mutex.permission.lamport import (
    Acknowledge,
    Lamport,
    Release,
    Request,
    Sparing,
)
from coterie.clocks import Stamp
from coterie.errors import ProtocolError
from coterie.lab.explore import check
from coterie.lab.explore.properties import MUTUAL_EXCLUSION
from coterie.lab.simulate import Burst, Closed, Exponential, Network, Simulation
from coterie.process import Channel, Entered
from tests.harness import Hand, Mutant, build, explore
from tests.suites import Explored, broken_lines, every_interleaving


def test_a_request_goes_to_every_other_process() -> None:
    hand = Hand(Lamport(2, 3))
    assert hand.call("acquire") == [(1, Request(Stamp(1, 2))), (3, Request(Stamp(1, 2)))]


def test_a_request_is_put_in_the_queue_and_acknowledged() -> None:
    hand = Hand(Lamport(1, 2))
    assert hand.receive(2, Request(Stamp(4, 2))) == [(2, Acknowledge(4))]
    assert hand.process.queue == [Stamp(4, 2)]


def test_the_queue_is_in_the_order_of_the_stamps() -> None:
    hand = Hand(Lamport(1, 3))
    hand.receive(3, Request(Stamp(4, 3)))
    hand.receive(2, Request(Stamp(3, 2)))
    assert hand.process.queue == [Stamp(3, 2), Stamp(4, 3)]


def test_it_enters_when_a_clock_that_has_reached_its_request_was_heard_of_from_everyone() -> None:
    hand = Hand(Lamport(1, 3))
    hand.call("acquire")
    assert hand.receive(2, Acknowledge(1)) == []
    assert hand.receive(3, Acknowledge(1)) == [Entered()]


def test_any_message_will_do_not_only_an_acknowledgement() -> None:
    hand = Hand(Lamport(1, 2))
    hand.call("acquire")
    assert hand.receive(2, Request(Stamp(2, 2))) == [(2, Acknowledge(2)), Entered()]


def test_a_message_from_a_clock_that_is_behind_does_not_count() -> None:
    hand = Hand(Lamport(1, 2, highest=6))
    hand.call("acquire")
    assert hand.receive(2, Acknowledge(6)) == []


def test_an_older_request_in_the_queue_has_to_be_released_first() -> None:
    hand = Hand(Lamport(2, 2))
    hand.call("acquire")
    assert hand.receive(1, Request(Stamp(1, 1))) == [(1, Acknowledge(1))]
    assert hand.receive(1, Acknowledge(1)) == []
    assert hand.receive(1, Release(1, Stamp(1, 1))) == [Entered()]


def test_a_younger_request_does_not_disturb_who_is_inside() -> None:
    hand = Hand(Lamport(1, 2))
    hand.call("acquire")
    assert hand.receive(2, Acknowledge(1)) == [Entered()]
    assert hand.receive(2, Request(Stamp(2, 2))) == [(2, Acknowledge(2))]


def test_a_release_names_the_request_and_goes_to_everyone() -> None:
    hand = Hand(Lamport(1, 3))
    hand.call("acquire")
    hand.receive(2, Request(Stamp(5, 2)))
    hand.receive(3, Acknowledge(1))
    release = Release(5, Stamp(1, 1))
    assert hand.call("release") == [(2, release), (3, release)]


def test_a_release_of_what_is_not_in_the_queue_is_reported() -> None:
    hand = Hand(Lamport(1, 2))
    with pytest.raises(ProtocolError, match=r"process 2 released 1\.2, which is not in the queue"):
        hand.receive(2, Release(1, Stamp(1, 2)))


@pytest.mark.parametrize(
    ("sender", "message"),
    [(2, Request(Stamp(7, 2))), (2, Acknowledge(7)), (3, Release(7, Stamp(1, 3)))],
)
def test_a_new_request_is_later_than_every_message_received(sender: int, message: Any) -> None:
    hand = Hand(Lamport(1, 3, queue=[Stamp(1, 3)]))
    hand.receive(sender, message)
    assert hand.call("acquire")[0] == (2, Request(Stamp(8, 1)))


def test_alone_it_enters_at_once() -> None:
    hand = Hand(Lamport(1, 1))
    assert hand.call("acquire") == [Entered()]
    assert hand.call("release") == []


def test_sparing_who_has_a_request_of_its_own_does_not_acknowledge() -> None:
    hand = Hand(Sparing(1, 3))
    hand.call("acquire")
    assert hand.receive(2, Request(Stamp(1, 2))) == []
    assert hand.receive(3, Request(Stamp(2, 3))) == [Entered()]


def test_sparing_a_release_proves_what_was_not_acknowledged() -> None:
    hand = Hand(Sparing(2, 2, highest=1, queue=[Stamp(1, 1)]))
    hand.call("acquire")
    assert hand.receive(1, Release(2, Stamp(1, 1))) == [Entered()]


def test_sparing_who_wants_nothing_acknowledges() -> None:
    assert Hand(Sparing(1, 2)).receive(2, Request(Stamp(1, 2))) == [(2, Acknowledge(1))]


EXPLORED = [  # processes, entries, links, states, transitions
    Explored(2, 1, None, 53, 75, variant="plain"),
    Explored(2, 2, None, 302, 497, variant="plain"),
    Explored(2, 3, None, 884, 1520, variant="plain"),
    Explored(3, 1, None, 19394, 62578, variant="plain"),
    Explored(3, 2, None, 3195890, 12243553, variant="plain"),
    Explored(2, 1, None, 41, 54, variant="sparing"),
    Explored(2, 2, None, 213, 328, variant="sparing"),
    Explored(3, 1, None, 7640, 21923, variant="sparing"),
    Explored(3, 2, None, 553732, 1925184, variant="sparing"),
]

test_every_interleaving_is_safe_and_live = every_interleaving("lamport", EXPLORED)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variant", "states", "transitions"), [("plain", 28070, 81686), ("sparing", 15207, 42446)]
)
def test_nobody_waits_for_one_who_wants_nothing(
    variant: str, states: int, transitions: int
) -> None:
    verdict = check(build("lamport", 3, variant), entries=3, requesters=[1, 2])
    assert verdict.verdict == "verified", verdict.reason
    assert (verdict.states, verdict.transitions) == (states, transitions)


def test_links_that_reorder_let_two_in_after_four_steps() -> None:
    verdict = explore("lamport", 2, channel=Channel.UNORDERED)
    assert (verdict.verdict, verdict.property) == ("violated", "mutual exclusion")
    assert verdict.depth == 4


@pytest.mark.parametrize("size", [2, 3])
def test_sparing_needs_ordered_links_too(size: int) -> None:
    verdict = explore("lamport", size, variant="sparing", channel=Channel.UNORDERED)
    assert verdict.verdict == "violated"


def test_a_lost_message_lets_two_in() -> None:
    verdict = check(build("lamport", 2), losses=1, properties=[MUTUAL_EXCLUSION])
    assert verdict.verdict == "violated"


@pytest.mark.parametrize(("variant", "messages"), [("plain", 3 * 6), ("sparing", 2 * 6)])
def test_when_all_ask_at_once_sparing_saves_every_acknowledgement(
    variant: str, messages: int
) -> None:
    result = Simulation(build("lamport", 7, variant), workload=Burst()).run()
    assert result.messages_per_entry == messages


@pytest.mark.parametrize("variant", ["plain", "sparing"])
def test_no_request_overtakes_one_that_happened_before_it(variant: str) -> None:
    for seed in range(20):
        simulation = Simulation(
            build("lamport", 5, variant),
            workload=Closed(10),
            network=Network(latency=Exponential(1.0)),
            order="count",
            seed=seed,
        )
        assert simulation.run().overtakings == 0


MUTANTS = {
    "clock not merged": Mutant("max(self.highest, time)", "self.highest", size=2),
    "nobody is waited for": Mutant("self.stamp is None or self.awaiting", "self.stamp is None"),
    "one peer is enough": Mutant(
        "self.stamp is None or self.awaiting", "self.stamp is None or len(self.awaiting) > 1"
    ),
    "any message counts": Mutant("self.stamp.time <= time", "time > 0", size=2, entries=2),
    "an equal clock does not count": Mutant("self.stamp.time <= time", "self.stamp.time < time"),
    "queue ignored": Mutant("not self.queue or self.stamp < self.queue[0]", "True", size=2),
    "ties unbroken": Mutant(
        "self.stamp < self.queue[0]", "self.stamp.time <= self.queue[0].time", size=2
    ),
    "ties block both": Mutant(
        "self.stamp < self.queue[0]", "self.stamp.time < self.queue[0].time", size=2
    ),
    "queue unsorted": Mutant("insort(self.queue, stamp)", "self.queue.append(stamp)"),
    "request not queued": Mutant("insort(self.queue, stamp)", "pass", size=2),
    "not acknowledged": Mutant(
        "out.send(request.process, Acknowledge(self.highest))", "pass", size=2
    ),
    "acknowledged with an old clock": Mutant(
        "Acknowledge(self.highest)", "Acknowledge(self.highest - 1)", size=2
    ),
    "release not sent": Mutant(
        "out.broadcast(self._peers(), Release(self.highest, self.stamp))", "pass", size=2
    ),
    "release not heeded": Mutant("self.queue.remove(request)", "pass", size=2),
    "entered again and again": Mutant(
        "self._is_next() and not was_next", "self._is_next()", size=2
    ),
}
SPARING_MUTANTS = {
    "never acknowledged": Mutant("            super()._acknowledge", "            pass  #", size=2),
}
MUTANTS_THAT_ONLY_SPARING_SHOWS = {
    "stamp kept": Mutant(
        "self.stamp))\n        self.stamp = None", "self.stamp))", size=2, entries=2
    ),
    "release with an old clock": Mutant("Release(self.highest,", "Release(self.stamp.time,"),
}
ASKERS = (None, (1,))  # all of them, and one alone, which no other may hold up


def seats(kind: type[Lamport], size: int) -> list[Lamport]:
    return [kind(me, size) for me in range(1, size + 1)]


test_a_broken_line_is_noticed = broken_lines(Lamport, MUTANTS, seats, askers=ASKERS)
test_a_broken_line_of_the_sparing_variant_is_noticed = broken_lines(
    Sparing, SPARING_MUTANTS, seats, askers=ASKERS
)
test_a_broken_line_is_noticed_by_the_sparing_variant = broken_lines(
    Lamport, MUTANTS_THAT_ONLY_SPARING_SHOWS, seats, process=Sparing, askers=ASKERS
)
