"""The search without arrays answers as the other does, or leaves the answer to it."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coterie.algorithms.mutex.permission.ricart_agrawala import RicartAgrawala
from coterie.catalogue import algorithms, find
from coterie.lab.explore import Verdict, check, needs_clock, small
from coterie.lab.explore.check import check_small
from coterie.process import (
    Channel,
    Elected,
    Election,
    Entered,
    Mutex,
    Outbox,
    Payload,
    Process,
    ProcessId,
    seat,
)
from tests.lab.explore.test_against_naive import RULES, STATES, Rule, Toy
from tests.lab.explore.test_mutants import TiesBlockEachOther, TiesUnbroken

LEFT = {  # to the other search, for these numbers of processes
    "bully": (3,),  # an election that another one interrupts: steps lead back to earlier levels
    "decentralized": (2, 3),  # one that is refused tries again
    "lamport": (3,),  # too many states
    "leased": (2, 3),  # timers that ring again and again
    "token-ring": (2, 3),  # the token goes round
}


def processes(name: str, size: int) -> list[Process[Any]]:
    chosen = find(name)
    return list(chosen.build(chosen.setup(size)))


def told(verdict: Verdict) -> dict[str, Any]:
    """Return all that does not depend on how it was searched."""
    facts: dict[str, Any] = msgspec.structs.asdict(verdict)
    return {key: facts[key] for key in facts if key not in {"seconds", "collision_probability"}}


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("name", algorithms())
def test_every_algorithm_is_judged_alike(name: str, size: int) -> None:
    if needs_clock(processes(name, size)):
        pytest.skip("explored with a clock")
    found = check_small(processes(name, size))
    if size in LEFT.get(name, ()):
        assert found is None
        return
    assert found is not None
    assert told(found) == told(check(processes(name, size)))
    assert found.collision_probability == 0


@pytest.mark.parametrize("channel", Channel)
@pytest.mark.parametrize("entries", [1, 2])
def test_channels_and_entries_are_respected(channel: Channel, entries: int) -> None:
    asked: dict[str, Any] = {"entries": entries, "channel": channel}
    found = check_small(processes("ricart-agrawala", 2), **asked)
    assert found is not None
    assert told(found) == told(check(processes("ricart-agrawala", 2), **asked))


class Raising(RicartAgrawala):
    """Does what it should, and then fails."""

    def release(self, out: Outbox[Any]) -> None:
        owes_nothing = not self.deferred
        super().release(out)
        if owes_nothing:
            raise ValueError


class Impure(RicartAgrawala):
    """Keeps a number in its class, where no search can save and restore it."""

    calls: ClassVar[list[int]] = []
    number: int = 0

    def release(self, out: Outbox[Any]) -> None:
        self.calls.append(1)
        self.number = len(self.calls)
        super().release(out)


class Ping(Payload, frozen=True):
    pass


class Crosswise(Election[Ping]):
    """Follows the other, which does the same."""

    def elect(self, out: Outbox[Ping]) -> None:
        out.tell(Elected(3 - self.me))

    def receive(self, sender: ProcessId, message: Ping, out: Outbox[Ping]) -> None:
        pass


class Courteous(Mutex[Ping]):
    """Process 1 enters when 2 asks as well, and 2 after it; each may wait for the other in vain."""

    called: bool = False
    wants: bool = False

    def acquire(self, out: Outbox[Ping]) -> None:
        self.wants = True
        if self.me == 2:
            out.send(1, Ping())
        self.enter_if_called(out)

    def release(self, out: Outbox[Ping]) -> None:
        if self.me == 1:
            out.send(2, Ping())

    def receive(self, sender: ProcessId, message: Ping, out: Outbox[Ping]) -> None:
        self.called = True
        self.enter_if_called(out)

    def enter_if_called(self, out: Outbox[Ping]) -> None:
        if self.called and self.wants:
            self.wants = False
            out.tell(Entered())


class Greeting(Process[Ping]):
    """Says something at the start, unless it is silent."""

    silent: bool = False

    def start(self, out: Outbox[Ping]) -> None:
        if not self.silent:
            out.send(3 - self.me, Ping())

    def receive(self, sender: ProcessId, message: Ping, out: Outbox[Ping]) -> None:
        pass


@pytest.mark.parametrize("kind", [TiesUnbroken, TiesBlockEachOther, Raising, Impure])
def test_what_is_wrong_is_left_to_the_other_search(kind: type[RicartAgrawala]) -> None:
    assert check_small([kind(me, 2) for me in (1, 2)]) is None


@pytest.mark.parametrize("kind", [Crosswise, Courteous])
def test_an_end_that_owes_something_is_left_to_the_other_search(kind: Any) -> None:
    assert check_small([kind(me) for me in (1, 2)]) is None


def test_what_is_sent_at_the_start_is_under_way() -> None:
    seats = [seat(Greeting(1)), seat(Greeting(2))]
    found = small.look_through(seats, Channel.UNORDERED, ())
    assert found is not None
    verdict = check([Greeting(1), Greeting(2)], properties=())
    assert found[:3] == (verdict.states, verdict.transitions, verdict.depth) == (4, 4, 2)


def test_processes_that_no_property_judges_are_left_to_the_other_search() -> None:
    assert check_small([Greeting(1), Greeting(2)]) is None


def test_what_shows_nothing_is_left_to_the_other_search() -> None:
    assert check_small([RicartAgrawala(1, 1)]) is None
    assert check_small([Greeting(1, silent=True), Greeting(2, silent=True)]) is None


@pytest.mark.parametrize(("bound", "most"), [("STATES_MAX", 435), ("WIDTH_MAX", 30)])
def test_what_is_too_large_is_left_to_the_other_search(
    monkeypatch: pytest.MonkeyPatch, bound: str, most: int
) -> None:
    assert check_small(processes("maekawa", 3)) is not None
    monkeypatch.setattr(small, bound, most)
    assert check_small(processes("maekawa", 3)) is None


@pytest.mark.slow
@settings(max_examples=150, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    rules=st.lists(RULES, min_size=5 * STATES, max_size=5 * STATES),
    fuel=st.integers(0, 2),
    channel=st.sampled_from(Channel),
)
def test_random_protocols_are_judged_alike(rules: list[Rule], fuel: int, channel: Channel) -> None:
    toys = [Toy(me, tuple(rules), fuel) for me in (1, 2)]
    found = check_small(toys, channel=channel)
    if found is not None:
        assert told(found) == told(check(toys, channel=channel))
