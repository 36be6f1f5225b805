"""The array-shaped search agrees with a plain one, written for clarity only, on all sorts of toys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coterie.algorithms.mutex.permission.ricart_agrawala import RicartAgrawala
from coterie.lab.explore import Property, Verdict, check
from coterie.lab.explore.properties import ENTRY, MUTEX
from coterie.lab.explore.tables.faults import Faults
from coterie.process import (
    Channel,
    Entered,
    Mutex,
    Outbox,
    Payload,
    Process,
    ProcessId,
)
from tests.lab.explore.naive import Naive

if TYPE_CHECKING:
    from collections.abc import Sequence


@pytest.mark.slow
@pytest.mark.parametrize("channel", Channel)
def test_agrees_with_a_plain_search_on_ricart_agrawala(channel: Channel) -> None:
    def processes() -> list[Process[Any]]:
        return [RicartAgrawala(me, 3) for me in (1, 2, 3)]

    naive = Naive(processes(), [1, 1, 1], channel, Faults())
    found = check(processes(), channel=channel)
    assert (found.states, found.transitions) == (len(naive.depths), naive.transitions)
    assert (found.verdict, naive.violations()) == ("verified", [])


class Note(Payload, frozen=True):
    kind: int


class Rule(NamedTuple):
    """What a toy does with one input in one state."""

    state: int
    receivers: tuple[ProcessId, ...]
    kind: int
    timer: str  # "set", "cancel" or ""
    enters: bool
    raises: bool


class Toy(Mutex[Note]):
    """A protocol drawn at random: a table of rules, and fuel for so many messages."""

    rules: tuple[Rule, ...]
    fuel: int
    state: int = 0
    wants: bool = False

    def start(self, out: Outbox[Note]) -> None:
        if self.fuel > 1:
            out.set_timer("again", 1.0)
        out.watch(3 - self.me)

    def acquire(self, out: Outbox[Note]) -> None:
        self.wants = True
        self.apply(0, out)

    def release(self, out: Outbox[Note]) -> None:
        self.apply(1, out)

    def ring(self, timer: str, out: Outbox[Note]) -> None:
        self.apply(2, out)

    def down(self, peer: ProcessId, out: Outbox[Note]) -> None:
        self.apply(2, out)
        if self.state == 0:
            out.watch(peer)

    def receive(self, sender: ProcessId, message: Note, out: Outbox[Note]) -> None:
        self.apply(3 + message.kind, out)

    def apply(self, given: int, out: Outbox[Note]) -> None:
        rule = self.rules[5 * self.state + given]
        self.state = rule.state
        for receiver in rule.receivers:
            if self.fuel and receiver != self.me:
                self.fuel -= 1
                out.send(receiver, Note(rule.kind))
        if rule.timer == "set":
            out.set_timer("again", 1.0)
        elif rule.timer == "cancel":
            out.cancel_timer("again")
            out.unwatch(3 - self.me)
        if rule.raises and self.fuel == 1:
            raise ValueError(f"state {self.state}")
        if rule.enters and self.wants:
            self.wants = False
            out.tell(Entered())


STATES = 2
RULES = st.builds(
    Rule,
    state=st.integers(0, STATES - 1),
    receivers=st.sampled_from([(), (), (1,), (2,), (1, 2), (2, 2)]),
    kind=st.integers(0, 1),
    timer=st.sampled_from(["", "", "set", "cancel"]),
    enters=st.booleans(),
    raises=st.sampled_from([False] * 29 + [True]),
)


@pytest.mark.slow
@settings(max_examples=100, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    rules=st.lists(RULES, min_size=5 * STATES, max_size=5 * STATES),
    fuel=st.integers(0, 2),
    channel=st.sampled_from(Channel),
    faults=st.builds(Faults, st.integers(0, 1), st.integers(0, 1), st.integers(0, 1)),
    exact=st.booleans(),
)
def test_agrees_with_a_plain_search_on_random_protocols(
    rules: list[Rule], fuel: int, channel: Channel, faults: Faults, exact: bool
) -> None:
    def processes() -> list[Process[Any]]:
        return [Toy(me, tuple(rules), fuel) for me in (1, 2)]

    def explore(properties: Sequence[Property]) -> Verdict:
        return check(
            processes(),
            channel=channel,
            crashes=faults.crash,
            losses=faults.lose,
            duplicates=faults.duplicate,
            properties=properties,
            exact=exact,
        )

    naive = Naive(processes(), [1, 1], channel, faults)
    for properties, safety in ((MUTEX, True), ((ENTRY,), False)):
        judged, violations = explore(properties), naive.violations(safety=safety)
        if violations:
            assert (judged.depth, judged.property) in violations
        elif safety and naive.starves():
            assert judged.property == "every wait ends"
        else:
            assert judged.verdict in {"verified", "vacuous"}
    counted = explore(())
    if not naive.errors:
        assert (counted.states, counted.transitions) == (len(naive.depths), naive.transitions)
        assert counted.depth == max(naive.depths.values())


class Ask(Payload, frozen=True):
    pass


class Grant(Payload, frozen=True):
    pass


class Retrying(Mutex[Ask | Grant]):
    """Process 1 grants everything; the others ask it, and again when no answer comes."""

    asking: bool = False

    def acquire(self, out: Outbox[Ask | Grant]) -> None:
        self.asking = True
        self.ask(out)

    def ask(self, out: Outbox[Ask | Grant]) -> None:
        out.send(1, Ask())
        out.set_timer("silence", 1.0)

    def release(self, out: Outbox[Ask | Grant]) -> None:
        out.cancel_timer("silence")

    def ring(self, timer: str, out: Outbox[Ask | Grant]) -> None:
        if self.asking:
            self.ask(out)

    def receive(self, sender: ProcessId, message: Ask | Grant, out: Outbox[Ask | Grant]) -> None:
        match message:
            case Ask():
                out.send(sender, Grant())
            case Grant():
                if self.asking:
                    self.asking = False
                    out.tell(Entered())


class Deaf(Retrying):
    """Asks again and again, and nobody ever hears it."""

    def ask(self, out: Outbox[Ask | Grant]) -> None:
        out.set_timer("silence", 1.0)


class Patient(Retrying):
    """Asks once; the timer rings on, and nothing comes of it."""

    def ring(self, timer: str, out: Outbox[Ask | Grant]) -> None:
        out.set_timer("silence", 1.0)


@pytest.mark.parametrize(("kind", "losses", "depth"), [(Deaf, 0, 1), (Patient, 1, 2)])
def test_a_stalled_process_is_found_though_there_is_always_something_to_do(
    kind: type[Retrying], losses: int, depth: int
) -> None:
    found = check([kind(1), kind(2)], requesters=[2], losses=losses)
    assert (found.verdict, found.property) == ("violated", "entry stays possible")
    assert found.reason == "process 2 is stalled and can enter only if another user asks"
    assert found.depth == depth


@pytest.mark.parametrize("channel", Channel)
def test_a_timer_that_rings_for_ever_makes_cycles_and_no_violation(channel: Channel) -> None:
    naive = Naive([Patient(1), Patient(2)], [0, 1], channel, Faults())
    found = check([Patient(1), Patient(2)], requesters=[2], channel=channel)
    assert not naive.violations()
    assert found.verdict == "verified"
    assert (found.states, found.transitions) == (len(naive.depths), naive.transitions)


def test_a_retry_makes_up_for_a_loss_and_the_search_stops_at_its_budget() -> None:
    """Retries pile up without end, so this has no end either."""
    found = check([Retrying(1), Retrying(2)], requesters=[2], losses=1, max_states=300)
    assert found.verdict == "unfinished"
    assert found.states > 300
