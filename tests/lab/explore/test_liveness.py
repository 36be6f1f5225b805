"""Whether every wait ends in every fair run: the lasso where not, and a plain search that agrees."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pytest

from coterie.catalogue import find, mutexes
from coterie.clocks import LogicalTime
from coterie.lab.explore import Verdict, check, declared_channel, needs_clock
from coterie.lab.explore.liveness.components import NONE, components, edges_on_cycles
from coterie.lab.explore.properties import MUTEX, PROGRESS
from coterie.lab.explore.tables.faults import Faults
from coterie.process import Channel, Entered, Mutex, Outbox, Payload, Process, ProcessId
from coterie.trace import Called, Delivered, Repeated, Sent, Told, Violated
from tests.lab.explore.naive import Naive
from tests.lab.explore.starving import (
    Fair,
    LastComeFirstServed,
    StrictPriority,
    star,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def coordinated(kind: type[LastComeFirstServed], size: int) -> list[Process[Any]]:
    return [kind(me) for me in range(1, size + 1)]


STARVING: dict[str, Callable[[], Sequence[Process[Any]]]] = {
    "coordinator with a stack": lambda: coordinated(LastComeFirstServed, 3),
    "strict priority": lambda: coordinated(StrictPriority, 3),
    "Raymond with a stack": lambda: star(3),
}


@pytest.mark.parametrize("channel", Channel)
@pytest.mark.parametrize("name", STARVING)
def test_a_starving_algorithm_is_refuted_with_its_lasso(name: str, channel: Channel) -> None:
    verdict = check(STARVING[name](), entries=None, channel=channel)
    assert (verdict.verdict, verdict.property) == ("violated", "every wait ends")
    assert "may wait without end" in verdict.reason
    process = int(verdict.reason.split()[1])
    prefix, cycle = halves(verdict)
    assert Called(prefix[-1].time, process, "acquire") in prefix
    entered = [record.process for record in cycle if isinstance(record, Told)]
    assert entered, "others enter in every round"
    assert process not in entered
    assert sum(isinstance(record, Sent) for record in cycle) == sum(
        isinstance(record, Delivered) for record in cycle
    ), "a round leaves as much under way as it found"


def halves(verdict: Verdict) -> tuple[list[Any], list[Any]]:
    assert verdict.counterexample is not None
    records: list[Any] = verdict.counterexample.records
    assert isinstance(records[-1], Violated)
    middle = next(i for i, record in enumerate(records) if isinstance(record, Repeated))
    return records[:middle], records[middle + 1 : -1]


class Never(Mutex[Payload]):
    """Grants no entry, and sends nothing."""

    def acquire(self, out: Outbox[Payload]) -> None:
        pass

    def release(self, out: Outbox[Payload]) -> None:
        pass

    def receive(self, sender: ProcessId, message: Payload, out: Outbox[Payload]) -> None:
        pass


@pytest.mark.parametrize("entries", [1, None])
def test_a_run_that_ends_while_a_process_waits_is_fair(entries: int | None) -> None:
    verdict = check([Never(1), Never(2)], entries=entries, properties=(PROGRESS,))
    assert (verdict.verdict, verdict.property) == ("violated", "no deadlock")
    assert verdict.depth == 1


@pytest.mark.parametrize("name", STARVING)
def test_with_a_number_of_entries_every_wait_ends(name: str) -> None:
    verdict = check(STARVING[name](), entries=2, channel=Channel.FIFO)
    assert verdict.verdict == "verified"
    assert verdict.liveness == "every wait ends (weak fairness)"
    assert verdict.overtaking is None


@pytest.mark.parametrize("channel", Channel)
def test_served_in_order_no_process_starves(channel: Channel) -> None:
    verdict = check(coordinated(Fair, 3), entries=None, channel=channel)
    assert verdict.verdict == "verified"
    assert verdict.overtaking == "unbounded"  # while the request is under way


@pytest.mark.parametrize(
    ("name", "size", "most"),
    [("token-ring", 3, 2), ("ricart-agrawala", 2, 2), ("ricart-agrawala", 3, 5), ("lamport", 2, 2)],
)
def test_overtaking_is_counted_where_it_is_bounded(name: str, size: int, most: int) -> None:
    verdict = check(build(name, size), entries=None, canonical=True)
    assert (verdict.verdict, verdict.overtaking) == ("verified", most)


def build(name: str, size: int, variant: str | None = None) -> Sequence[Process[Any]]:
    entry = find(name)
    return entry.build(entry.setup(size, variant, {}))


class Token(Payload, frozen=True):
    time: LogicalTime
    hurry: bool


class Dated(Mutex[Token]):
    """Two processes pass a token with a time in it; if polite, 2 lets it go by when 1 wants it."""

    polite: bool
    wants: bool = False
    inside: bool = False
    token: LogicalTime | None = None

    def start(self, out: Outbox[Token]) -> None:
        out.set_timer("tick", 1.0)
        if self.me == 1:
            self.token = 0

    def ring(self, timer: str, out: Outbox[Token]) -> None:
        out.set_timer("tick", 1.0)
        if self.token is not None and not self.inside:
            out.send(3 - self.me, Token(self.token + 1, self.me == 1 and self.wants))
            self.token = None

    def acquire(self, out: Outbox[Token]) -> None:
        self.wants = True

    def release(self, out: Outbox[Token]) -> None:
        self.inside = False

    def receive(self, sender: ProcessId, message: Token, out: Outbox[Token]) -> None:
        self.token = message.time
        if self.wants and not (message.hurry and self.polite):
            self.wants, self.inside = False, True
            out.tell(Entered())


def test_where_states_are_merged_by_a_shift_of_time_no_message_is_left_out() -> None:
    """The timer rings on while the token is under way: as it is never left out, every wait ends."""
    fair: list[Process[Any]] = [Dated(me, polite=False) for me in (1, 2)]
    verdict = check(fair, entries=None, canonical=True, max_states=2_000)
    assert (verdict.verdict, verdict.overtaking) == ("verified", 1)


def test_starvation_is_found_where_states_are_merged_by_a_shift_of_time() -> None:
    unfair: list[Process[Any]] = [Dated(me, polite=True) for me in (1, 2)]
    verdict = check(unfair, entries=None, canonical=True, max_states=2_000)
    assert (verdict.verdict, verdict.property) == ("violated", "every wait ends")
    prefix, cycle = halves(verdict)
    times = [record.message[1] for record in (*prefix, *cycle) if isinstance(record, Sent)]
    assert times == [*range(1, len(times) + 1)], "time goes on, and no token is left out"
    assert any(isinstance(record, Sent) for record in cycle)


def test_a_retry_that_may_fail_each_time_is_said_to_promise_no_more() -> None:
    verdict = check(build("decentralized", 2))
    assert verdict.verdict == "verified"
    assert verdict.liveness == "entry stays possible, and no more is promised"


@pytest.mark.parametrize(
    ("name", "size", "variant"),
    [
        ("centralized", 2, "silent"),
        ("centralized", 3, "silent"),
        ("raymond", 2, None),
        ("raymond", 3, None),
        ("naimi-trehel", 2, None),
        ("naimi-trehel", 3, None),
        ("token-ring", 2, None),
        ("token-ring", 3, None),
    ],
)
@pytest.mark.parametrize("channel", Channel)
def test_agrees_with_a_plain_search_without_end(
    name: str, size: int, variant: str | None, channel: Channel
) -> None:
    processes = build(name, size, variant)
    naive = Naive(list(processes), [None] * size, channel, Faults())
    verdict = check(processes, entries=None, channel=channel)
    assert verdict.states == len(naive.depths)
    assert (verdict.verdict == "verified") == (not naive.violations() and not naive.starves())


MUTEXES = [
    (name, variant.name)
    for name, entry in mutexes().items()
    for variant in entry.variants
    if not needs_clock(entry.build(entry.setup(2, variant.name)))
]


@pytest.mark.parametrize(("name", "variant"), MUTEXES)
def test_agrees_with_a_plain_search_on_the_catalogue(name: str, variant: str) -> None:
    processes = build(name, 2, variant)
    naive = Naive(list(processes), [1, 1], declared_channel(processes), Faults())
    verdict = check(processes, properties=MUTEX)
    if naive.violations():
        assert (verdict.depth, verdict.property) in naive.violations()
        return
    assert (verdict.property == "every wait ends") == naive.starves()
    assert (verdict.verdict == "violated") == (name == "decentralized")


class Note(Payload, frozen=True):
    kind: int


class Rule(msgspec.Struct, frozen=True):
    """What an input does in a state."""

    state: int
    receiver: ProcessId  # 0: none
    kind: int
    timer: bool
    enters: bool


class Juggler(Mutex[Note]):
    """Follows random rules. It sends a message only for one that it got: so it stays finite."""

    rules: tuple[Rule, ...]
    thrown: int  # messages that it sends at its start
    state: int = 0
    wants: bool = False

    def start(self, out: Outbox[Note]) -> None:
        for kind in range(self.thrown):
            out.send(3 - self.me, Note(kind % 2))

    def acquire(self, out: Outbox[Note]) -> None:
        self.wants = True
        self.apply(0, out, sends=False)

    def release(self, out: Outbox[Note]) -> None:
        self.apply(1, out, sends=False)

    def ring(self, timer: str, out: Outbox[Note]) -> None:
        self.apply(2, out, sends=False)

    def receive(self, sender: ProcessId, message: Note, out: Outbox[Note]) -> None:
        self.apply(3 + message.kind, out, sends=True)

    def apply(self, given: int, out: Outbox[Note], *, sends: bool) -> None:
        rule = self.rules[5 * self.state + given]
        self.state = rule.state
        if sends and rule.receiver and rule.receiver != self.me:
            out.send(rule.receiver, Note(rule.kind))
        if rule.timer:
            out.set_timer("again", 1.0)
        if rule.enters and self.wants:
            self.wants = False
            out.tell(Entered())


def juggler(seed: int) -> tuple[list[Process[Any]], Channel, Faults]:
    chance = random.Random(seed)
    rules = tuple(
        Rule(
            state=chance.randrange(2),
            receiver=chance.choice([0, 1, 2, 1, 2]),
            kind=chance.randrange(2),
            timer=chance.random() < 0.4,
            enters=chance.random() < 0.4,
        )
        for _ in range(10)
    )
    processes: list[Process[Any]] = [
        Juggler(me, rules, thrown) for me, thrown in ((1, 1), (2, chance.randrange(2)))
    ]
    faults = Faults(crash=chance.randrange(2), lose=chance.randrange(2))
    return processes, chance.choice(list(Channel)), faults


@pytest.mark.slow
def test_agrees_with_a_plain_search_on_random_algorithms() -> None:
    outcomes = {True: 0, False: 0}
    for seed in range(200):
        processes, channel, faults = juggler(seed)
        naive = Naive(processes, [None, None], channel, faults)
        verdict = check(
            processes,
            entries=None,
            channel=channel,
            crashes=faults.crash,
            losses=faults.lose,
            properties=(PROGRESS,),
        )
        starves = naive.starves()
        assert verdict.verdict == ("violated" if starves else "verified"), f"seed {seed}"
        outcomes[starves] += 1
    assert min(outcomes.values()) > 40, outcomes


def test_components_agree_with_reachability_on_random_graphs() -> None:
    chance = np.random.default_rng(7)
    for _ in range(200):
        size = int(chance.integers(1, 24))
        ends = chance.integers(0, size, (2, int(chance.integers(0, 40)))).astype(np.int32)
        reach = np.zeros((size, size), np.bool_)
        reach[ends[0], ends[1]] = True
        for middle in range(size):
            reach |= np.outer(reach[:, middle], reach[middle])
        mutual = reach & reach.T
        expected = [
            int(np.flatnonzero(mutual[state])[0]) if mutual[state, state] else NONE
            for state in range(size)
        ]
        assert components(size, ends[0], ends[1]).tolist() == expected
        cyclic = np.diagonal(mutual)
        after = cyclic | (reach.T & cyclic).any(axis=1)
        before = cyclic | (reach & cyclic).any(axis=1)
        between = np.flatnonzero(after[ends[0]] & before[ends[1]])
        assert edges_on_cycles(size, ends[0], ends[1]).tolist() == between.tolist()
