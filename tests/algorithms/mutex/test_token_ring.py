"""The token ring, rule by rule; then every interleaving; then every line that matters, broken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from coterie.algorithms.mutex.token.token_ring import PAUSE, Token, TokenRing
from coterie.catalogue import Costs, find
from coterie.errors import ConfigError, ProtocolError, UsageError
from coterie.lab.explore import check
from coterie.lab.simulate import (
    Closed,
    Exponential,
    Network,
    OneAtATime,
    Poisson,
    Simulation,
    parse_fault,
)
from coterie.process import Channel, Entered, Outbox
from tests.harness import Hand, Mutant, broken, build, explore
from tests.suites import Explored, any_fault_breaks, broken_lines, every_interleaving

if TYPE_CHECKING:
    from collections.abc import Sequence

MODULE = "coterie.algorithms.mutex.token.token_ring.catalogue_entry"


def member(*, token: bool = False, wants: bool = False) -> TokenRing:
    return TokenRing(2, successor=3, pause=0.5, token=token, wants=wants)


def timers(step: Any, *arguments: Any) -> list[tuple[str, float | None]]:
    out: Outbox[Token] = Outbox(2)
    step(*arguments, out)
    return out.timers


def test_with_the_token_in_hand_it_enters_at_once() -> None:
    assert Hand(member(token=True)).call("acquire") == [Entered()]


def test_without_the_token_it_asks_nobody() -> None:
    assert Hand(member()).call("acquire") == []


def test_it_enters_when_the_token_comes_by() -> None:
    hand = Hand(member())
    hand.call("acquire")
    assert hand.receive(1, Token()) == [Entered()]


def test_it_passes_the_token_to_its_successor_when_it_leaves() -> None:
    hand = Hand(member(token=True))
    hand.call("acquire")
    assert hand.call("release") == [(3, Token())]
    assert hand.call("acquire") == []


def test_who_wants_nothing_keeps_the_token_for_a_pause() -> None:
    assert timers(member().receive, 1, Token()) == [(PAUSE, 0.5)]
    assert Hand(member()).receive(1, Token()) == []


def test_so_does_the_one_who_begins_with_it() -> None:
    assert timers(member(token=True).start) == [(PAUSE, 0.5)]
    assert timers(member().start) == []


def test_when_the_pause_is_over_the_token_goes_on() -> None:
    hand = Hand(member())
    hand.receive(1, Token())
    assert hand.ring(PAUSE) == [(3, Token())]
    assert hand.call("acquire") == []


def test_entering_ends_the_pause() -> None:
    assert timers(member(token=True).acquire) == [(PAUSE, None)]
    assert timers(member(wants=True).receive, 1, Token()) == []


def test_a_second_token_fails_loudly() -> None:
    with pytest.raises(ProtocolError, match="process 2 got a second token from 1"):
        Hand(member(token=True)).receive(1, Token())


# One token: there is nothing to reorder.
EXPLORED = [  # processes, entries, links, states, transitions
    Explored(1, 2, Channel.FIFO, 5, 7),
    Explored(1, 2, Channel.UNORDERED, 5, 7),
    Explored(2, 1, Channel.FIFO, 36, 60),
    Explored(2, 1, Channel.UNORDERED, 36, 60),
    Explored(2, 2, Channel.FIFO, 100, 180),
    Explored(2, 2, Channel.UNORDERED, 100, 180),
    Explored(3, 1, Channel.FIFO, 162, 324),
    Explored(3, 1, Channel.UNORDERED, 162, 324),
    Explored(3, 2, Channel.FIFO, 750, 1650),
    Explored(3, 2, Channel.UNORDERED, 750, 1650),
    Explored(4, 2, Channel.FIFO, 5000, 13000),
    Explored(4, 2, Channel.UNORDERED, 5000, 13000),
    Explored(5, 2, Channel.FIFO, 31250, 93750),
    Explored(5, 2, Channel.UNORDERED, 31250, 93750),
    Explored(6, 2, Channel.FIFO, 187500, 637500),
    Explored(6, 2, Channel.UNORDERED, 187500, 637500),
]

test_every_interleaving_is_safe_and_live = every_interleaving("token-ring", EXPLORED)


@pytest.mark.slow
def test_the_states_are_the_places_of_the_token_times_those_of_the_users() -> None:
    """2N places: at each process and between two; 2 entries + 1 for a user: before and after each."""
    for size, entries in ((2, 3), (3, 3), (6, 1)):
        verdict = explore("token-ring", size, entries)
        assert verdict.states == 2 * size * (2 * entries + 1) ** size


@pytest.mark.parametrize("requester", [1, 2, 3])
def test_one_who_asks_alone_is_served_by_the_rotation(requester: int) -> None:
    verdict = check(build("token-ring", 3), entries=2, requesters=[requester])
    assert verdict.verdict == "verified", verdict.reason
    assert (verdict.states, verdict.transitions) == (30, 42)


test_a_crash_a_loss_or_a_duplicate_breaks_it = any_fault_breaks("token-ring")


def test_the_order_of_the_ring_is_as_chosen() -> None:
    processes: Sequence[Any] = build("token-ring", 4, ring="3, 1,4,2")
    assert [process.successor for process in processes] == [4, 3, 1, 2]


@pytest.mark.parametrize(
    ("ring", "error", "text"),
    [
        ("1,2,3,2", ConfigError, "the ring has process 2 2 times"),
        ("1,3", ConfigError, "the ring lacks process 2"),
        ("1,2,3,4", ConfigError, "the ring has process 4; there are only 1 to 3"),
        ("0,1,2,3", ConfigError, "the ring has process 0; there are only 1 to 3"),
        ("", UsageError, "unknown ring: ''; choose from: ascending, ids such as 1,3,2"),
        ("1,two,3", UsageError, "unknown ring: '1,two,3'"),
        ("ascendin", UsageError, "did you mean 'ascending'"),
    ],
)
def test_a_ring_that_cannot_be_is_refused(ring: str, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        find("token-ring").setup(3, None, {"ring": ring})


@pytest.mark.parametrize("pause", ["0", "-1", "nan", "inf", "long"])
def test_a_pause_is_a_positive_number(pause: str) -> None:
    with pytest.raises(
        UsageError, match="the pause must be a number of time units greater than 0, got"
    ):
        find("token-ring").setup(3, None, {"pause": pause})


def test_an_idle_ring_sends_one_message_a_hop_and_a_pause_for_ever() -> None:
    for pause, messages in (("1", 500), ("9", 100), ("0.25", 800)):
        result = Simulation(build("token-ring", 5, pause=pause), until=1000).run()
        assert result.messages == messages


def test_whoever_enters_again_waits_for_a_whole_round() -> None:
    result = Simulation(build("token-ring", 5), workload=OneAtATime(10, repeat=2)).run()
    assert result.messages_per_entry_again == 5
    assert result.messages_per_entry_afresh == pytest.approx(1, abs=0.25)


def test_saturated_an_entry_costs_one_message_and_a_hand_over_takes_one() -> None:
    result = Simulation(build("token-ring", 7), workload=Closed(10, hold=2.0)).run()
    assert result.messages_per_entry == 1
    assert result.synchronisation_delay is not None
    assert (result.synchronisation_delay.min, result.synchronisation_delay.max) == (1, 1)


@pytest.mark.parametrize("pause", ["0.01", "1", "5"])
def test_the_wait_for_a_free_section_is_a_round_with_its_pauses_at_most(pause: str) -> None:
    entry = find("token-ring")
    setup = entry.setup(6, None, {"pause": pause})
    assert isinstance(entry.costs, Costs)
    limit = entry.costs.client_delay(setup)
    assert limit.high == 6 + 5 * float(pause)
    result = Simulation(entry.build(setup), workload=Poisson(0.02, 20_000)).run()
    assert result.client_delay is not None
    assert limit.allows(result.client_delay.max)
    assert result.client_delay.max > 0.95 * limit.high
    assert result.client_delay.min < 0.1 * limit.high


@pytest.mark.parametrize("seed", range(5))
def test_everybody_is_served_whatever_the_latencies(seed: int) -> None:
    result = Simulation(
        build("token-ring", 6, ring="4,2,6,1,3,5"),
        workload=Poisson(0.3, 500, hold=Exponential(1.0)),
        network=Network(Exponential(1.0)),
        seed=seed,
    ).run()
    assert not result.violations
    assert result.unserved == 0
    assert result.entries > 50


def test_a_holder_that_crashes_takes_the_token_with_it() -> None:
    faults = [parse_fault("crash 3 @ 10")]
    result = Simulation(
        build("token-ring", 3), workload=Closed(10, hold=4.0), faults=faults, max_time=1000
    ).run()
    assert [violation.name for violation in result.violations] == ["stuck"]


def test_a_waiting_process_sends_nothing_so_no_request_is_known_to_anybody() -> None:
    """Order is broken only for who learns of a request by other messages than those of the ring."""
    result = Simulation(
        build("token-ring", 5),
        workload=Closed(20),
        network=Network(Exponential(1.0)),
        order="count",
    ).run()
    assert result.overtakings == 0


MUTANTS = {
    "pause goes on inside": Mutant("out.cancel_timer(PAUSE)", "pass", size=2),
    "never set going": Mutant(
        "if self.token:\n            out.set_timer(PAUSE, self.pause)", "pass", size=2
    ),
    "kept for ever by who wants nothing": Mutant(
        "else:\n            out.set_timer(PAUSE, self.pause)", "else:\n            pass"
    ),
    "kept for ever by who leaves": Mutant(
        "self.wants = False\n        self._pass_on(out)", "self.wants = False", size=2
    ),
    "wants for ever": Mutant(
        "self.wants = False\n        self._pass_on(out)", "self._pass_on(out)", size=2
    ),
    "never known to want": Mutant("self.wants = True", "pass", size=2),
    "enters without the token": Mutant(
        "self.wants = True\n        if self.token:", "self.wants = True\n        if True:", size=2
    ),
    "enters without asking": Mutant("if self.wants:", "if True:", size=2),
    "token copied": Mutant("self.token = False\n", "pass\n", size=2),
    "never goes anywhere": Mutant("out.send(self.successor,", "out.send(self.me,", size=2),
}
MUTANTS_OF_THE_RING = {
    "two begin with it": Mutant(
        "TokenRing(me, successor[me], pause, token=me == FIRST_HOLDER)",
        "TokenRing(me, successor[me], pause, token=me <= FIRST_HOLDER + 1)",
    ),
    "someone is left out": Mutant("(*ring[1:], ring[0])", "(*ring[1:], ring[1])"),
}


def ring(kind: type[TokenRing], size: int) -> list[TokenRing]:
    return [kind(me, me % size + 1, 1.0, token=me == 1) for me in range(1, size + 1)]


# Where all ask, a process that leaves moves the token; where one asks, only the pauses do.
test_a_broken_line_is_noticed = broken_lines(TokenRing, MUTANTS, ring, askers=(None, (2,), (3,)))


@pytest.mark.parametrize("name", MUTANTS_OF_THE_RING)
def test_a_broken_ring_is_noticed(name: str) -> None:
    mutant = MUTANTS_OF_THE_RING[name]
    entry = broken(MODULE, mutant).ALGORITHM
    assert noticed(entry.build(entry.setup(mutant.size, "rotating")))


def noticed(processes: Sequence[Any]) -> bool:
    """Check. Where all ask, whoever leaves moves the token; where one asks, only the pauses do."""
    ring = range(1, len(processes) + 1)
    return "violated" in [
        check(processes, requesters=asking).verdict for asking in (ring, ring[-1:])
    ]
