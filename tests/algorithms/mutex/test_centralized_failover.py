"""A coordinator with a successor: rule by rule; then every interleaving with crashes; then mutants."""

from __future__ import annotations

import pytest

from coterie.algorithms.mutex.permission.centralized import Failover, succession
from coterie.algorithms.mutex.permission.centralized.failover import (
    Grant,
    Holding,
    Idle,
    Recover,
    Release,
    Request,
    Waiting,
)
from coterie.catalogue import find
from coterie.clocks import Stamp
from coterie.errors import ProtocolError
from coterie.lab.explore import check
from coterie.lab.simulate import Closed, Crash, Exponential, Network, Simulation
from coterie.process import Channel, Entered
from tests.harness import build
from tests.suites import Explored, broken_lines, every_interleaving
from tests.watching import CrashMutant, WatchingHand

LINE = (1, 2, 3, 4)


def hand(me: int) -> WatchingHand:
    return WatchingHand(Failover(me, LINE, 1))


def successor() -> WatchingHand:
    """Process 2, which has taken over from 1 and waits for 3 and 4 to answer."""
    coordinator = hand(2)
    coordinator.down(1)
    return coordinator


def test_everybody_watches_those_before_it_in_the_line() -> None:
    assert [hand(me).watched for me in LINE] == [set(), {1}, {1, 2}, {1, 2, 3}]


def test_a_client_asks_the_coordinator_with_a_stamp_and_enters_when_let_in() -> None:
    client = hand(3)
    assert client.call("acquire") == [(1, Request(Stamp(1, 3)))]
    assert client.receive(1, Grant(1)) == [Entered()]
    assert client.call("release") == [(1, Release())]


def test_its_next_request_is_later_than_all_that_the_coordinator_knew() -> None:
    client = hand(3)
    client.call("acquire")
    client.receive(1, Grant(7))
    client.call("release")
    assert client.call("acquire") == [(1, Request(Stamp(8, 3)))]


def test_requests_are_served_in_the_order_of_their_stamps() -> None:
    coordinator = hand(1)
    assert coordinator.receive(2, Request(Stamp(1, 2))) == [(2, Grant(1))]
    coordinator.receive(4, Request(Stamp(2, 4)))
    coordinator.receive(3, Request(Stamp(1, 3)))
    assert coordinator.receive(2, Release()) == [(3, Grant(2))]
    assert coordinator.receive(3, Release()) == [(4, Grant(2))]


def test_whoever_is_let_in_is_watched_until_it_leaves() -> None:
    coordinator = hand(1)
    coordinator.receive(2, Request(Stamp(1, 2)))
    assert coordinator.watched == {2}
    coordinator.receive(2, Release())
    assert coordinator.watched == set()


def test_a_holder_that_is_down_holds_nobody_up() -> None:
    coordinator = hand(1)
    coordinator.receive(2, Request(Stamp(1, 2)))
    coordinator.receive(3, Request(Stamp(1, 3)))
    assert coordinator.down(2) == [(3, Grant(1))]
    assert coordinator.receive(2, Release()) == []  # sent before the crash


def test_who_is_last_before_it_goes_down_asks_all_who_are_left_where_they_stand() -> None:
    assert hand(2).down(1) == [(3, Recover()), (4, Recover())]
    third = hand(3)
    assert third.down(2) == []
    assert third.down(1) == [(4, Recover())]


def test_each_answers_holding_waiting_or_idle() -> None:
    holding, waiting, idle = hand(3), hand(3), hand(3)
    holding.call("acquire")
    holding.receive(1, Grant(1))
    waiting.call("acquire")
    assert holding.receive(2, Recover()) == [(2, Holding())]
    assert waiting.receive(2, Recover()) == [(2, Waiting(Stamp(1, 3)))]
    assert idle.receive(2, Recover()) == [(2, Idle())]


def test_from_then_on_it_ignores_earlier_coordinators() -> None:
    client = hand(4)
    client.call("acquire")
    client.receive(3, Recover())
    assert client.receive(1, Grant(1)) == []
    assert client.receive(2, Recover()) == []
    assert client.receive(3, Grant(1)) == [Entered()]
    assert client.call("release") == [(3, Release())]


def test_it_lets_nobody_in_before_all_who_live_have_answered() -> None:
    coordinator = successor()
    assert coordinator.receive(4, Waiting(Stamp(2, 4))) == []
    assert coordinator.receive(3, Waiting(Stamp(1, 3))) == [(3, Grant(2))]


def test_who_is_down_need_not_answer() -> None:
    coordinator = successor()
    coordinator.receive(4, Waiting(Stamp(2, 4)))
    assert coordinator.down(3) == [(4, Grant(2))]
    assert coordinator.receive(3, Holding()) == []  # sent before the crash


def test_who_was_inside_is_still_inside() -> None:
    coordinator = successor()
    coordinator.receive(3, Holding())
    assert coordinator.receive(4, Waiting(Stamp(2, 4))) == []
    assert coordinator.receive(3, Release()) == [(4, Grant(2))]


def test_who_was_inside_and_crashes_holds_nobody_up() -> None:
    coordinator = successor()
    coordinator.receive(3, Holding())
    coordinator.receive(4, Waiting(Stamp(2, 4)))
    assert coordinator.down(3) == [(4, Grant(2))]


def test_a_release_that_overtakes_the_answer_counts_for_it() -> None:
    coordinator = successor()
    coordinator.receive(4, Waiting(Stamp(2, 4)))
    assert coordinator.receive(3, Release()) == [(4, Grant(2))]
    assert coordinator.receive(3, Holding()) == []
    assert coordinator.receive(4, Release()) == []


def test_the_successor_itself_may_be_waiting_or_inside() -> None:
    waiting = hand(4)
    waiting.call("acquire")
    waiting.down(1)
    waiting.down(2)
    assert waiting.down(3) == [Entered()]
    inside = hand(4)
    inside.call("acquire")
    inside.receive(1, Grant(1))
    for peer in (1, 2, 3):
        assert inside.down(peer) == []
    assert inside.call("release") == []
    assert inside.call("acquire") == [Entered()]


def test_nobody_asks_one_who_does_not_coordinate() -> None:
    with pytest.raises(ProtocolError, match="process 4 asked 3, which coordinates nothing"):
        hand(3).receive(4, Request(Stamp(1, 4)))


def test_the_line_of_a_resource_begins_with_its_coordinator() -> None:
    assert succession("", [3, 1, 2]) == (1, 2, 3)
    assert succession("printer", range(1, 8))[0] == 3
    assert sorted(succession("printer", range(1, 8))) == list(range(1, 8))


EXPLORED = [  # processes, entries, links, states, transitions
    Explored(2, 1, Channel.UNORDERED, 20, 25, variant="failover"),
    Explored(2, 2, Channel.UNORDERED, 232, 568, variant="failover", crashes=1),
    Explored(3, 1, Channel.FIFO, 811, 2105, variant="failover", crashes=1),
    Explored(3, 1, Channel.UNORDERED, 841, 2176, variant="failover", crashes=1),
    Explored(3, 1, Channel.UNORDERED, 1204, 4386, variant="failover", crashes=2),
    Explored(3, 2, Channel.UNORDERED, 14495, 42587, variant="failover", crashes=1),
    Explored(3, 2, Channel.UNORDERED, 18696, 78086, variant="failover", crashes=2),
    Explored(4, 1, Channel.UNORDERED, 56212, 319967, variant="failover", crashes=3),
]

test_every_interleaving_with_crashes_is_safe_and_live = every_interleaving("centralized", EXPLORED)


def test_a_detector_that_is_wrong_lets_two_in() -> None:
    """The suspect is not asked, and it may be inside."""
    verdict = check(build("centralized", 2, "failover"), suspicions=1)
    assert (verdict.verdict, verdict.property) == ("violated", "mutual exclusion")


def test_a_lost_message_breaks_it() -> None:
    assert check(build("centralized", 2, "failover"), losses=1).verdict == "violated"


@pytest.mark.parametrize("seed", range(10))
def test_all_who_live_are_served_though_coordinators_and_holders_crash(seed: int) -> None:
    result = Simulation(
        build("centralized", 6, "failover", resource="printer"),
        workload=Closed(20, hold=1.0),
        network=Network(Exponential(1.0)),
        faults=[Crash(seed % 6 + 1, 20), Crash((seed + 2) % 6 + 1, 21), Crash(4, 60)],
        seed=seed,
    ).run()
    assert not result.violations
    assert result.unserved == 0


def test_without_crashes_it_costs_as_much_as_without_successors() -> None:
    entry = find("centralized")
    assert entry.variant("failover").tolerates == ("crash",)
    result = Simulation(
        build("centralized", 5, "failover"), workload=Closed(10, [2, 3, 4, 5])
    ).run()
    assert result.messages_per_entry == 3


MUTANTS = {
    "predecessors not watched": CrashMutant(
        "out.watch(peer)\n\n    def acquire", "pass\n\n    def acquire"
    ),
    "others not watched": CrashMutant(
        "out.watch(peer)\n        out.broadcast", "pass\n        out.broadcast", crashes=2
    ),
    "holder not watched": CrashMutant("out.watch(self.holder)", "pass"),
    "the first to hear takes over": CrashMutant("if not self.before:", "if True:"),
    "nobody takes over": CrashMutant("self._take_over(out)\n        else", "pass\n        else"),
    "lets in before all have answered": CrashMutant("and not self.unheard", ""),
    "forgets to ask itself": CrashMutant(
        "self.unheard = set(self.line[self.line.index(self.me) :])",
        "self.unheard = set(self.line[self.line.index(self.me) + 1 :])",
    ),
    "waits for the dead": CrashMutant("self.unheard.discard(peer)", "pass", crashes=2),
    "dead holder kept": CrashMutant("if peer == self.holder:", "if False:"),
    "word of the dead taken": CrashMutant(
        "if sender == self.coordinator:", "if True:", channel=Channel.UNORDERED
    ),
    "holders take themselves for idle": CrashMutant("if self.inside:", "if False:"),
    "waiters take themselves for idle": CrashMutant("elif self.stamp is not None:", "elif False:"),
    "coordinator not changed": CrashMutant("self.coordinator = sender\n", "pass\n"),
    "old coordinator followed": CrashMutant(
        "if self.line.index(sender) < self.line.index(self.coordinator):", "if False:", crashes=2
    ),
    "release does not count as an answer": CrashMutant(
        "self.unheard.discard(sender)\n        if sender", "if sender", channel=Channel.UNORDERED
    ),
    "who is inside is let in again": CrashMutant("self.holder = sender", "pass"),
    "the waiting are forgotten": CrashMutant(
        "case Waiting(stamp):\n                self._enqueue(stamp, out)",
        "case Waiting(stamp):\n                pass",
    ),
}


def seats(kind: type[Failover], size: int) -> list[Failover]:
    line = tuple(range(1, size + 1))
    return [kind(me, line, 1) for me in line]


test_a_broken_line_is_noticed = broken_lines(Failover, MUTANTS, seats, entries=1)
