"""The coordinator, rule by rule; then every interleaving; then every line that matters, broken."""

from __future__ import annotations

import pytest

from coterie.algorithms.mutex.permission.centralized import (
    Centralized,
    Denying,
    Grant,
    Queued,
    Release,
    Request,
    coordinator_of,
)
from coterie.catalogue import find
from coterie.errors import ProtocolError
from coterie.lab.simulate import Burst, Closed, Exponential, Network, Simulation
from coterie.lab.simulate.compare import compare
from coterie.process import Channel, Entered
from tests.harness import Hand, Mutant, build, explore
from tests.suites import Explored, broken_lines, every_interleaving


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


def test_silent_a_client_that_is_denied_reports_it() -> None:
    client = Hand(Centralized(2, 1))
    client.call("acquire")
    with pytest.raises(ProtocolError, match="process 1 denied a request"):
        client.receive(1, Queued())


def test_denied_who_must_wait_is_told_so_and_stays_in_the_queue() -> None:
    coordinator = Hand(Denying(1, 1))
    assert coordinator.receive(2, Request()) == [(2, Grant())]
    assert coordinator.receive(3, Request()) == [(3, Queued())]
    assert coordinator.receive(2, Release()) == [(3, Grant())]


def test_denied_the_answer_is_advice_which_a_client_inside_ignores() -> None:
    client = Hand(Denying(3, 1))
    client.call("acquire")
    assert client.receive(1, Grant()) == [Entered()]
    assert client.receive(1, Queued()) == []
    assert client.call("release") == [(1, Release())]


def test_denied_the_coordinator_waits_in_its_own_queue_without_a_message() -> None:
    coordinator = Hand(Denying(1, 1))
    coordinator.receive(2, Request())
    assert coordinator.call("acquire") == []
    assert coordinator.receive(2, Release()) == [Entered()]


def test_without_a_name_the_first_process_coordinates() -> None:
    assert build("centralized", 3) == [Centralized(1, 1), Centralized(2, 1), Centralized(3, 1)]


def test_a_resource_has_the_same_coordinator_everywhere_and_for_ever() -> None:
    chosen = {
        name: coordinator_of(name, range(1, 8)) for name in ("printer", "disk", "log", "日誌")
    }
    assert chosen == {"printer": 3, "disk": 2, "log": 7, "日誌": 3}


def test_the_processes_share_the_resources_about_evenly() -> None:
    names = [f"r{number}" for number in range(1000)]
    counts = dict.fromkeys(range(1, 6), 0)
    for name in names:
        counts[coordinator_of(name, counts)] += 1
    assert all(150 < count < 250 for count in counts.values()), counts


def test_when_a_member_leaves_only_its_own_resources_move() -> None:
    for name in (f"r{number}" for number in range(300)):
        before = coordinator_of(name, [1, 2, 3, 4, 5])
        after = coordinator_of(name, [1, 2, 4, 5])
        assert before in (after, 3)


def test_whoever_coordinates_the_resource_is_no_requester_of_the_measurements() -> None:
    entry = find("centralized")
    setup = entry.setup(4, "denied", {"resource": "printer"})
    assert list(entry.requesters(setup)) == [1, 2, 4]
    assert compare(entry, setup).agrees
    assert list(entry.requesters(entry.setup(1, None, {"resource": "printer"}))) == [1]


EXPLORED = [  # processes, entries, links, states, transitions
    Explored(2, 1, Channel.UNORDERED, 19, 25, variant="silent"),
    Explored(3, 1, Channel.FIFO, 113, 204, variant="silent"),
    Explored(3, 1, Channel.UNORDERED, 113, 204, variant="silent"),
    Explored(3, 2, Channel.FIFO, 727, 1488, variant="silent"),
    Explored(3, 2, Channel.UNORDERED, 869, 1800, variant="silent"),
    Explored(5, 1, Channel.UNORDERED, 4335, 10638, variant="silent"),
    Explored(2, 1, Channel.UNORDERED, 24, 34, variant="denied"),
    Explored(3, 1, Channel.FIFO, 163, 310, variant="denied"),
    Explored(3, 1, Channel.UNORDERED, 214, 446, variant="denied"),
    Explored(3, 2, Channel.UNORDERED, 3765, 10786, variant="denied"),
    Explored(4, 2, Channel.UNORDERED, 109455, 398154, variant="denied"),
    Explored(5, 1, Channel.UNORDERED, 23126, 74874, variant="denied"),
]

test_every_interleaving_is_safe_and_live = every_interleaving("centralized", EXPLORED)


@pytest.mark.parametrize("resource", ["printer", "disk"])
def test_every_interleaving_is_the_same_whoever_coordinates(resource: str) -> None:
    verdict = explore("centralized", 3, 2, resource=resource)
    assert verdict.verdict == "verified", verdict.reason
    assert (verdict.states, verdict.transitions) == (869, 1800)


@pytest.mark.parametrize(("variant", "messages"), [("silent", 9), ("denied", 11)])
def test_of_three_who_ask_at_once_two_are_denied(variant: str, messages: int) -> None:
    processes = build("centralized", 4, variant)
    assert Simulation(processes, workload=Burst(1, [2, 3, 4])).run().messages == messages


def test_only_messages_of_the_application_let_a_request_overtake_one_that_happened_before() -> None:
    """Those of the protocol all pass the coordinator, which has queued the first request by then."""
    simulation = Simulation(
        build("centralized", 5),
        workload=Closed(100),
        network=Network(latency=Exponential(1.0)),
        order="count",
    )
    assert simulation.run().overtakings == 0


MUTANTS = {
    "everyone is let in": Mutant("self.holder is None and self.queue", "self.queue"),
    "the waiting are forgotten": Mutant(
        "self.holder = None\n        self._grant_if_free(out)", "self.holder = None"
    ),
    "release is not sent": Mutant("out.send(self.coordinator, Release())", "pass"),
    "the waiting are pushed out": Mutant("self.queue.append(sender)", "self.queue[:] = [sender]"),
}
DENYING_MUTANTS = {
    "the denied are not queued": Mutant("out.send(sender, Queued())", "self.queue.remove(sender)"),
}
MUTANTS_THAT_ONLY_DENYING_SHOWS = {
    "the denied take it for a grant": Mutant(
        "case Queued():\n                self._be_advised(sender)",
        "case Queued():\n                out.tell(Entered())",
    ),
}


def seats(kind: type[Centralized], size: int) -> list[Centralized]:
    return [kind(me, 1) for me in range(1, size + 1)]


test_a_broken_line_is_noticed = broken_lines(Centralized, MUTANTS, seats)
test_a_broken_line_of_the_denying_variant_is_noticed = broken_lines(Denying, DENYING_MUTANTS, seats)
test_a_broken_line_is_noticed_by_the_denying_variant = broken_lines(
    Centralized, MUTANTS_THAT_ONLY_DENYING_SHOWS, seats, process=Denying
)
