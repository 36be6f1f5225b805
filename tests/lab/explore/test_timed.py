"""Exploration with a clock: ticks, bounded delays, exact timers, crashes at any point."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from coterie.errors import ConfigError, UsageError
from coterie.lab.explore import (
    Always,
    CanAlwaysStill,
    Eventually,
    Sometimes,
    at_least,
    at_most,
    check,
    check_timed,
    needs_clock,
)
from coterie.lab.explore.timed.moves import Bounds, Move
from coterie.lab.scenario.replay import replay
from coterie.process import Channel, Entered, Mutex, Outbox, Payload, Process, ProcessId, Seat, seat
from coterie.trace import Crashed, Delivered, Header, Rang, Sent, Violated
from tests.harness import build
from tests.lab.explore.ticking_world import NaiveWorld, State


class Claim(Payload, frozen=True):
    pass


class Patient(Mutex[Claim]):
    """Fischer's idea with messages: claim, wait longer than a claim takes, enter if nobody else did.

    Safe while a claim takes no longer than `wait`; then the smaller id goes first.
    """

    channel = Channel.FIFO

    peers: tuple[ProcessId, ...]
    wait: float
    claims: set[ProcessId] = set()
    asking: bool = False

    def acquire(self, out: Outbox[Claim]) -> None:
        self.asking = True
        out.broadcast(self.peers, Claim())
        out.set_timer("WAIT", self.wait)

    def release(self, out: Outbox[Claim]) -> None:
        self.asking = False

    def receive(self, sender: ProcessId, message: Claim, out: Outbox[Claim]) -> None:
        self.claims.add(sender)

    def ring(self, timer: str, out: Outbox[Claim]) -> None:
        if not self.claims:
            out.tell(Entered())


def patients(wait: float, size: int = 2) -> list[Patient]:
    everyone = range(1, size + 1)
    return [Patient(me, tuple(peer for peer in everyone if peer != me), wait) for me in everyone]


def test_a_timer_as_long_as_a_message_rings_after_it() -> None:
    verdict = check_timed(patients(2), delays=(1, 2), requesters=[1])
    assert verdict.verdict == "verified"
    both = check_timed(patients(2), delays=(1, 2))
    assert both.property == "entry stays possible"  # both claimed, and nobody yields


def test_a_timer_shorter_than_a_message_rings_before_it() -> None:
    verdict = check_timed(patients(1), delays=(1, 2))
    assert verdict.property == "mutual exclusion"
    assert verdict.reason == "1 and 2 are inside together"


def test_the_shortest_way_there_is_told_in_ticks() -> None:
    verdict = check_timed(patients(1), delays=(2, 2))
    assert verdict.counterexample is not None
    records = verdict.counterexample.records
    assert [record.time for record in records if isinstance(record, Rang)] == [1.0, 1.0]
    assert [record.time for record in records if isinstance(record, Sent)] == [0.0, 0.0]
    assert not any(isinstance(record, Delivered) for record in records)
    assert isinstance(records[-1], Violated)


@pytest.mark.parametrize(
    ("size", "entries", "states", "transitions"),
    [(2, 1, 80, 103), (2, 2, 346, 457), (3, 1, 1869, 2432)],
)
def test_an_algorithm_without_timers_is_explored_as_well(
    size: int, entries: int, states: int, transitions: int
) -> None:
    verdict = check_timed(build("ricart-agrawala", size), entries=entries)
    assert verdict.verdict == "verified"
    assert verdict.sometimes == {"contention": True}
    assert (verdict.states, verdict.transitions) == (states, transitions)


@pytest.mark.slow
@pytest.mark.parametrize(("crashes", "returns"), [(0, 0), (1, 0), (1, 1)])
def test_turns_in_order_lose_nothing(crashes: int, returns: int) -> None:
    """Whatever the order of the processes within a tick, the same moments begin a tick."""
    seats = [seat(process, 1) for process in build("fault-tolerant", 2, sigma="1", **BOUNDS)]
    world = NaiveWorld(seats, Bounds(1, 1 if returns else 2, crashes, returns))
    assert _moments(world, in_order=True) == _moments(world, in_order=False)


BOUNDS = {"lambda": "1", "t-max": "4", "t-limit": "4"}


def _moments(world: NaiveWorld, *, in_order: bool) -> set[State]:
    """All states at the beginning of a tick; `turn` says who moved last within it."""
    seen = {world.initial()}
    moments = set(seen)
    border = list(seen)
    while border:
        state = border.pop()
        for turn in range(state.turn if in_order else 1, world.size + 1):
            at_turn = state._replace(turn=turn)
            for move in world.moves(at_turn):
                if move.kind != "pass":
                    after = world.apply(at_turn, move)
                    _add(after if in_order else after._replace(turn=1), seen, border)
            if in_order and Move("pass") not in world.moves(at_turn):
                break
        if all(Move("pass") in world.moves(state._replace(turn=p)) for p in _everyone(world)):
            after = world.apply(state._replace(turn=world.size), Move("pass"))
            moments.add(after)
            _add(after, seen, border)
    return moments


def _everyone(world: NaiveWorld) -> range:
    return range(1, world.size + 1)


def _add(state: State, seen: set[State], border: list[State]) -> None:
    if state not in seen:
        seen.add(state)
        border.append(state)


@pytest.mark.parametrize(
    ("delay_max", "crashes", "returns"), [(1, 0, 0), (2, 0, 0), (1, 1, 0), (1, 2, 0), (1, 1, 1)]
)
def test_many_states_at_once_are_the_same_as_one_at_a_time(
    delay_max: int, crashes: int, returns: int
) -> None:
    patience = str(4 * delay_max)
    waits = {"sigma": str(delay_max), "lambda": "1", "t-max": patience, "t-limit": patience}
    processes = build("fault-tolerant", 2, coterie="majority", **waits)
    bounds = Bounds(1, delay_max, crashes, returns)
    states, transitions, depth = _explored(NaiveWorld([seat(p, 1) for p in processes], bounds))
    verdict = check_timed(processes, delays=(1, delay_max), crashes=crashes, returns=returns)
    assert verdict.verdict == "verified"
    assert (verdict.states, verdict.transitions, verdict.depth) == (states, transitions, depth)


def _explored(world: NaiveWorld) -> tuple[int, int, int]:
    """Count the states, the transitions and the steps to the farthest state."""
    depths = {world.initial(): 0}
    border = list(depths)
    transitions = 0
    for state in border:
        for move in world.moves(state):
            transitions += 1
            after = world.apply(state, move)
            if after not in depths:
                depths[after] = depths[state] + 1
                border.append(after)
    return len(depths), transitions, depths[border[-1]]


def test_a_crash_keeps_others_waiting_and_the_way_there_replays() -> None:
    header = Header(algorithm="ricart-agrawala", size=2)
    verdict = check_timed(build("ricart-agrawala", 2), crashes=1, header=header)
    assert verdict.property == "entry stays possible"
    assert verdict.counterexample is not None
    assert any(isinstance(record, Crashed) for record in verdict.counterexample.records)
    replay(verdict.counterexample)


def test_a_process_may_die_half_way_through_a_broadcast() -> None:
    """Only so can 1 reach 2 and not 3, since it tells both in one step."""

    class Witness(Patient):
        def ring(self, timer: str, out: Outbox[Claim]) -> None:
            if self.me > 1 and (1 in self.claims) == (self.me == 2):
                out.tell(Entered())

    def witnesses() -> list[Patient]:
        return [Witness(p.me, p.peers, p.wait) for p in patients(4, size=3)]

    bound = {"requesters": [1, 2, 3], "max_states": 100_000}
    assert check_timed(witnesses(), crashes=1, **bound).property == "mutual exclusion"  # type: ignore[arg-type]  # keywords of two types


def test_a_process_that_returns_has_no_memory_and_a_new_incarnation() -> None:
    class Reborn(Patient):
        def start(self, out: Outbox[Claim]) -> None:
            assert out.incarnation < 2, "came back twice"

    seats = [Reborn(p.me, p.peers, p.wait) for p in patients(2)]
    assert check_timed(seats, requesters=[], crashes=2, returns=1).verdict == "vacuous"
    raised = check_timed(seats, requesters=[], crashes=2, returns=2)
    assert raised.property == "no failure"
    assert "came back twice" in raised.reason


def test_a_budget_ends_the_search() -> None:
    verdict = check_timed(build("ricart-agrawala", 3), max_states=100)
    assert verdict.verdict == "unfinished"
    assert 100 <= verdict.states < 110
    assert check_timed(build("ricart-agrawala", 3), max_seconds=0).verdict == "unfinished"


def test_the_explorer_without_a_clock_refuses_those_who_need_one() -> None:
    processes = build("fault-tolerant", 3)
    assert needs_clock(processes)
    assert not needs_clock(build("maekawa", 3))
    with pytest.raises(ConfigError, match="check_timed"):
        check(processes)


def test_time_is_counted_in_whole_ticks() -> None:
    with pytest.raises(UsageError, match=r"whole ticks here, got 1\.5"):
        check_timed(patients(1.5))
    with pytest.raises(UsageError, match="delays must satisfy 1 <= LOW <= HIGH, got"):
        check_timed(patients(1), delays=(0, 1))


# Properties of one's own


def asks(seat: Seat) -> bool:
    return isinstance(seat.process, Patient) and seat.process.asking


def has_no_claim(seat: Seat) -> bool:
    return isinstance(seat.process, Patient) and not seat.process.claims


class Watched(Patient):
    properties: ClassVar[tuple[Any, ...]] = (
        Always("one asks", (at_most(1, asks),), "two ask together"),
        Sometimes("three ask", (at_least(3, asks),)),
    )


def watched(kind: type[Patient]) -> list[Patient]:
    return [kind(1, (2,), 2), kind(2, (1,), 2)]


def test_what_the_class_declares_is_judged_with_a_clock() -> None:
    verdict = check_timed(watched(Watched), delays=(1, 2))
    assert (verdict.verdict, verdict.property) == ("violated", "one asks")
    assert verdict.reason == "two ask together"
    alone = check_timed(watched(Watched), delays=(1, 2), requesters=[1])
    assert alone.verdict == "verified"
    assert alone.sometimes == {"contention": False, "three ask": False}


def test_what_a_state_at_the_start_breaks_is_found() -> None:
    class Dark(Patient):
        properties: ClassVar[tuple[Any, ...]] = (
            Always("claims", (at_least(1, asks),), "none asks"),
        )

    verdict = check_timed(watched(Dark), delays=(1, 2))
    assert (verdict.property, verdict.depth) == ("claims", 0)


def test_what_should_stay_possible_is_looked_for_with_a_clock() -> None:
    class Forgetful(Patient):
        properties: ClassVar[tuple[Any, ...]] = (
            CanAlwaysStill("claims go", has_no_claim, "forget a claim"),
        )

    verdict = check_timed(watched(Forgetful), delays=(1, 2), requesters=[1])
    assert verdict.property == "claims go"
    assert verdict.reason == "process 2 can never forget a claim"


def test_a_property_of_fair_runs_is_refused_with_a_clock() -> None:
    class Hopeful(Patient):
        properties: ClassVar[tuple[Any, ...]] = (
            Eventually("rest", has_no_claim, "may keep a claim"),
        )

    with pytest.raises(UsageError, match="the property 'rest' is about fair runs"):
        check_timed(watched(Hopeful), delays=(1, 2))


def test_without_properties_nothing_is_shown_of_what_is_no_mutex() -> None:
    class Idle(Process[Claim]):
        def receive(self, sender: ProcessId, message: Claim, out: Outbox[Claim]) -> None:
            pass

    verdict = check_timed([Idle(1), Idle(2)])
    assert verdict.verdict == "vacuous"
    assert "no property says what these processes should do" in verdict.reason
