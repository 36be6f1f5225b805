"""The coordinator, rule by rule; then every interleaving; then every line that matters, broken."""

from __future__ import annotations

import pytest
from tests.harness import Hand, Mutant, broken, explore

from coterie.errors import ProtocolError
from coterie.explore import check
from coterie.mutex.permission.centralized import Centralized, Grant, Release, Request
from coterie.process import Channel, Entered

MODULE = "coterie.mutex.permission.centralized"


def test_a_client_asks_the_coordinator_and_enters_when_let_in() -> None:
    client = Hand(Centralized(2, 1))
    assert client.call("acquire") == [(1, Request())]
    assert client.receive(1, Grant()) == [Entered()]


def test_a_client_tells_the_coordinator_when_it_leaves() -> None:
    client = Hand(Centralized(2, 1))
    client.call("acquire")
    client.receive(1, Grant())
    assert client.call("release") == [(1, Release())]


def test_a_free_section_is_granted_at_once() -> None:
    assert Hand(Centralized(1, 1)).receive(3, Request()) == [(3, Grant())]


def test_requests_are_served_in_the_order_of_their_arrival() -> None:
    coordinator = Hand(Centralized(1, 1))
    coordinator.receive(2, Request())
    assert coordinator.receive(4, Request()) == []
    assert coordinator.receive(3, Request()) == []
    assert coordinator.receive(2, Release()) == [(4, Grant())]
    assert coordinator.receive(4, Release()) == [(3, Grant())]


def test_the_coordinator_itself_needs_no_message() -> None:
    coordinator = Hand(Centralized(1, 1))
    assert coordinator.call("acquire") == [Entered()]
    assert coordinator.call("release") == []


def test_a_release_by_someone_who_is_not_inside_is_reported() -> None:
    coordinator = Hand(Centralized(1, 1))
    coordinator.receive(2, Request())
    with pytest.raises(ProtocolError, match="process 3 released what process 2 holds"):
        coordinator.receive(3, Release())


@pytest.mark.parametrize(
    ("size", "entries", "channel", "states", "transitions"),
    [
        (2, 1, Channel.UNORDERED, 18, 22),
        (3, 1, Channel.FIFO, 113, 204),
        (3, 1, Channel.UNORDERED, 113, 204),
        (3, 2, Channel.FIFO, 727, 1488),
        (3, 2, Channel.UNORDERED, 869, 1800),
    ],
)
def test_every_interleaving_is_safe_and_live(
    size: int, entries: int, channel: Channel, states: int, transitions: int
) -> None:
    verdict = explore("centralized", size, entries, channel=channel)
    assert verdict.verdict == "verified", verdict.reason
    assert (verdict.states, verdict.transitions) == (states, transitions)


MUTANTS = {
    "everyone is let in": Mutant("self.holder is None and self.queue", "self.queue"),
    "the waiting are forgotten": Mutant(
        "self.holder = None\n        self._grant_if_free(out)", "self.holder = None"
    ),
    "release is not sent": Mutant("out.send(self.coordinator, Release())", "pass"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_line_is_noticed(name: str) -> None:
    mutant = MUTANTS[name]
    module = broken(MODULE, mutant)
    processes = [module.Centralized(me, 1) for me in range(1, mutant.size + 1)]
    assert check(processes, entries=mutant.entries).verdict == "violated"
