"""The leased lock as a process: every interleaving, the costs, faults, and codecs."""

from __future__ import annotations

from collections import Counter, deque
from types import FunctionType
from typing import Any

import msgspec
import pytest

from coterie.algorithms.mutex.quorum.leased.configuration import founding
from coterie.algorithms.mutex.quorum.leased.frames import Data, Probe, Reply, SessionName
from coterie.algorithms.mutex.quorum.leased.participant import Acquired, Participant, participant
from coterie.algorithms.mutex.quorum.leased.process import Leased
from coterie.algorithms.mutex.quorum.leased.settings import Policy, Settings
from coterie.algorithms.mutex.quorum.leased.voter import Voter
from coterie.errors import ConfigError, CoterieError, ProtocolError, UsageError
from coterie.lab.explore import check
from coterie.lab.simulate import Closed, Network, OneAtATime, Simulation, Uniform, parse_fault
from coterie.process import Outbox, SeatCodec, seat
from coterie.trace import Header, Told
from tests.algorithms.mutex.leased_abstraction import BURIED, ENTRY, SAFETY, cluster
from tests.harness import broken_class, build, explore

TIMES: dict[str, Any] = {"lease": 1000.0, "heartbeat": 250.0, "hedge": 16.0, "unwind": 1000.0}


def voters(count: int, policy: Policy = "quorum", **others: Any) -> Settings:
    return msgspec.structs.replace(Settings(count, policy=policy, **TIMES), **others)


# Every interleaving; voters are processes 1 to N, the two clients come after them.


@pytest.mark.parametrize(
    ("settings", "entries", "states", "transitions"),
    [
        (voters(3), 1, 418, 2815),
        (voters(3), 2, 2590, 19108),
        pytest.param(voters(3, interval=1), 2, 5164, 38463, marks=pytest.mark.slow),
        (voters(2, "all"), 1, 1288, 8000),
        (voters(1), 3, 916, 4100),
        pytest.param(voters(3, "all"), 1, 488425, 4075668, marks=pytest.mark.slow),
    ],
)
def test_every_interleaving_without_faults_is_safe_and_live(
    settings: Settings, entries: int, states: int, transitions: int
) -> None:
    clients = (settings.voters + 1, settings.voters + 2)
    verdict = check(
        cluster(settings), requesters=clients, entries=entries, properties=(*SAFETY, ENTRY)
    )
    assert verdict.verdict == "verified", verdict.reason
    assert (verdict.states, verdict.transitions) == (states, transitions)


@pytest.mark.parametrize(
    ("requesters", "states", "transitions"),
    [
        ((4,), 2173, 11646),
        pytest.param((4, 5), 1634438, 12943989, marks=pytest.mark.slow),
    ],
)
def test_every_interleaving_of_one_crash_is_safe_and_live(
    requesters: tuple[int, ...], states: int, transitions: int
) -> None:
    """Whoever crashes, voter or client: a report of it stands for the end of all patience."""
    processes = cluster(voters(3), watchful=True)
    verdict = check(processes, requesters=requesters, crashes=1, properties=(*SAFETY, ENTRY))
    assert verdict.verdict == "verified", verdict.reason
    assert (verdict.states, verdict.transitions) == (states, transitions)


OBITUARIES = (*SAFETY, BURIED)


@pytest.mark.parametrize(
    ("entries", "crashes", "states", "transitions"),
    [(1, 1, 1648, 7116), (2, 1, 6724, 29720), (2, 2, 8720, 47238)],
)
def test_every_interleaving_of_an_obituary_is_safe(
    entries: int, crashes: int, states: int, transitions: int
) -> None:
    """It comes at any time after the crash, and what the dead have sent before comes later."""
    processes = cluster(voters(1), watchful=True, witnesses=True)
    verdict = check(
        processes, requesters=(2, 3), entries=entries, crashes=crashes, properties=OBITUARIES
    )
    assert verdict.verdict == "verified", verdict.reason
    assert (verdict.states, verdict.transitions) == (states, transitions)


def test_entry_stays_possible_when_an_obituary_ends_all_patience() -> None:
    processes = cluster(voters(3), watchful=True, witnesses=True)
    properties = (*OBITUARIES, ENTRY)
    verdict = check(processes, requesters=(4,), crashes=1, properties=properties)
    assert verdict.verdict == "verified", verdict.reason


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("if link is None or link.life != life or", "if link is None or"),
        ("touched = self._drop(participant, out.now + delay if delay else NEVER)", "touched = []"),
    ],
)
def test_a_broken_rule_of_obituaries_is_noticed(
    old: str, new: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, method in vars(broken_class(Voter, old, new)).items():
        if isinstance(method, FunctionType):  # in place, since the explorer makes voters itself
            monkeypatch.setattr(Voter, name, method)
    processes = cluster(voters(1), watchful=True, witnesses=True)
    verdict = check(processes, requesters=(2, 3), entries=2, crashes=1, properties=OBITUARIES)
    assert verdict.verdict != "verified"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("entries", "lapses", "reboots", "states", "transitions"),
    [
        (2, {2: 1}, {}, 26452, 133801),
        (1, {2: 1, 3: 1}, {1: 1}, 353396, 1949781),
    ],
)
def test_every_interleaving_of_lapses_and_a_restart_is_safe(
    entries: int,
    lapses: dict[int, int],
    reboots: dict[int, int],
    states: int,
    transitions: int,
) -> None:
    """One voter: a client's clock runs past its lease at any moment; the voter loses its memory."""
    processes = cluster(voters(1), lapses=lapses, reboots=reboots)
    verdict = check(processes, requesters=(2, 3), entries=entries, properties=SAFETY)
    assert verdict.verdict == "verified", verdict.reason
    assert (verdict.states, verdict.transitions) == (states, transitions)


def test_processes_that_vote_themselves_are_explored_as_the_catalogue_builds_them() -> None:
    verdict = explore("leased", 3)
    assert verdict.verdict == "verified", verdict.reason
    assert verdict.sometimes["contention"]


# Costs, in lock messages and frames; heartbeats apart


class Pump:
    """Voters and clients with perfect links; counts what travels."""

    def __init__(self, settings: Settings, clients: int) -> None:
        self.parts: dict[int, Any] = {
            me: Voter(founding(settings)) for me in range(1, settings.voters + 1)
        }
        self.clients = range(settings.voters + 1, settings.voters + clients + 1)
        self.parts |= {
            me: participant(founding(settings), me % settings.voters + 1) for me in self.clients
        }
        self.under_way: deque[tuple[int, int, Any]] = deque()
        self.messages = self.frames = 0
        self.inside: int | None = None
        self.tokens: list[int] = []
        for me, part in self.parts.items():
            self.step(me, part.start, f"p{me}")

    def step(self, me: int, handler: Any, *arguments: Any) -> None:
        out: Outbox[Any] = Outbox(me, 0.0)
        handler(*arguments, out)
        self.under_way.extend((me, to, frame) for to, frame in out.sends)
        for event in out.events:
            assert isinstance(event, Acquired)
            assert self.inside is None
            self.inside = me
            self.tokens.append(event.token)

    def call(self, me: int, name: str, lock: str = "a") -> None:
        """Make a call, and deliver until nothing moves."""
        if name != "acquire":
            self.inside = None
        self.step(me, getattr(self.parts[me], name), lock)
        while self.under_way:
            sender, to, frame = self.under_way.popleft()
            if isinstance(frame, Data | Reply):
                self.frames += 1
                self.messages += len(frame.bodies)
            self.step(to, self.parts[to].receive, sender, frame)

    def cost(self) -> tuple[int, int]:
        """Return the lock messages and frames since the last time."""
        cost = self.messages, self.frames
        self.messages = self.frames = 0
        return cost


KINDS = [
    ("majority", 3, "all", 3),
    ("majority", 3, "quorum", 2),
    ("majority", 5, "all", 5),
    ("majority", 5, "quorum", 3),
    ("majority", 7, "all", 7),
    ("majority", 7, "quorum", 4),
    ("plane:2", 7, "quorum", 3),
    ("plane:3", 13, "quorum", 4),
    ("grid", 9, "quorum", 5),
    ("singleton", 1, "quorum", 1),
]


@pytest.mark.parametrize(("coterie", "count", "policy", "asked"), KINDS)
def test_a_fresh_lock_costs_two_messages_a_voter_and_taking_it_again_none(
    coterie: str, count: int, policy: Policy, asked: int
) -> None:
    pump = Pump(voters(count, policy, coterie=coterie), clients=1)
    [client] = pump.clients
    pump.call(client, "acquire")
    assert pump.inside == client
    assert pump.cost() == (2 * asked, 2 * asked)
    for _ in range(3):
        pump.call(client, "release")
        pump.call(client, "acquire")
        assert pump.cost() == (0, 0)
    assert pump.tokens == [1, 2, 3, 4]


@pytest.mark.parametrize(("coterie", "count", "policy", "asked"), KINDS)
def test_a_lock_that_another_keeps_costs_no_more_than_four_messages_a_voter(
    coterie: str, count: int, policy: Policy, asked: int
) -> None:
    pump = Pump(voters(count, policy, coterie=coterie), clients=2)
    first, second = pump.clients
    pump.call(first, "acquire")
    pump.call(first, "release")
    pump.cost()
    pump.call(second, "acquire")
    messages, _ = pump.cost()
    assert pump.inside == second
    assert 3 * asked < messages <= 4 * asked
    if policy == "all" or asked == 1:
        assert messages == 4 * asked


@pytest.mark.slow
@pytest.mark.parametrize("clients", [2, 5, 10])
@pytest.mark.parametrize(("coterie", "count", "policy", "asked"), KINDS)
def test_a_saturated_lock_costs_three_messages_in_two_frames_a_voter(
    coterie: str, count: int, policy: Policy, asked: int, clients: int
) -> None:
    pump = Pump(voters(count, policy, coterie=coterie), clients)
    for client in pump.clients:
        pump.call(client, "acquire")
    served = Counter[int]()
    rounds = 20 * clients
    for turn in range(rounds):
        if turn == clients:  # everybody waits now
            pump.cost()
        assert pump.inside is not None
        served[pump.inside] += 1
        pump.call(pump.inside, "reenter")
    entries = rounds - clients
    assert pump.cost() == (3 * asked * entries, 2 * asked * entries)
    assert max(served.values()) - min(served.values()) <= 1
    assert pump.tokens == sorted(set(pump.tokens))


def test_a_round_trip_from_first_contact_to_entry() -> None:
    processes = build("leased", 5, voters="3")
    result = Simulation(processes, workload=OneAtATime(1, [4])).run()
    assert result.client_delay is not None
    assert result.client_delay.max == 2.0


# Faults in the simulator, where processes vote themselves


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["all", "quorum"])
@pytest.mark.parametrize(
    "faults",
    [
        [],
        ["crash 1 @ 20", "restart 1 @ 60"],
        ["crash 1 @ 20", "restart 1 @ 30", "crash 2 @ 300", "restart 2 @ 310"],
        ["partition 1,2 | 3,4,5 @ 15 for 30"],
        ["lose 0.1 @ 0 for 200"],
        ["pause 2 @ 10 for 25"],
        ["drift 1 1.004", "drift 2 0.996", "crash 3 @ 40"],
    ],
)
def test_the_simulated_process_survives(policy: str, faults: list[str]) -> None:
    for seed in range(5):
        result = Simulation(
            build("leased", 5, policy=policy, lease="100"),
            workload=Closed(6, hold=1.0, think=3.0),
            network=Network(Uniform(0.5, 1.5), duplication=0.02),
            faults=[parse_fault(fault) for fault in faults],
            seed=seed,
            max_time=10_000,
        ).run()
        assert not result.violations
        assert result.unserved == 0
        assert result.stopped == "done"


def test_a_hold_outlives_the_rolling_restart_of_all_voters() -> None:
    """Each voter forgets its vote; it is repaired, with the same token, before the next one goes."""
    rolling = [
        f"{what} {voter} @ {100 * voter + later}"
        for voter in (1, 2, 3)
        for what, later in (("crash", 0), ("restart", 5))
    ]
    result = Simulation(
        build("leased", 5, voters="3", policy="all", lease="20"),
        workload=OneAtATime(1, [4], hold=600.0),
        faults=[parse_fault(fault) for fault in rolling],
        header=Header(algorithm="leased", size=5),
    ).run()
    assert result.trace is not None
    told = [record.label for record in result.trace.records if isinstance(record, Told)]
    assert told == ["Acquired(lock, 1)"]
    assert result.time >= 600


def test_a_lock_whose_holder_dies_is_free_after_the_expiry() -> None:
    result = Simulation(
        build("leased", 5, voters="3", policy="all", lease="20"),
        workload=Closed(1, [4, 5], hold=50.0),
        faults=[parse_fault("crash 4 @ 10")],
        until=100,
    ).run()
    assert result.waiting is not None
    expiry = 20 * 1.005 / 0.995 + 0.5
    assert result.entries == 2
    assert 10 + expiry - 5 < result.waiting.max < 10 + expiry + 5


@pytest.mark.slow
def test_locks_used_once_leave_nothing_behind() -> None:
    pump = Pump(voters(3, cached_max=4), clients=1)
    [client] = pump.clients
    part = pump.parts[client]
    for number in range(20_000):
        for name in ("acquire", "release"):
            pump.inside = None
            pump.call(client, name, f"lock {number}")
    assert len(part.bids) <= 4
    assert all(len(pump.parts[voter].ballots) <= 4 for voter in (1, 2, 3))
    assert sum(len(uplink.unacked) for uplink in part.sessions.uplinks) <= 3


# The gap after the crash of a voter; a hedge is 16 message delays here


def waits_beside_a_crash(policy: str, entries: int, clients: list[int], fault: str) -> float:
    result = Simulation(
        build("leased", 5, voters="3", policy=policy, lease="100"),
        workload=OneAtATime(entries, clients),
        faults=[parse_fault(fault)],
    ).run()
    assert result.unserved == 0
    assert result.waiting is not None
    return result.waiting.max


@pytest.mark.parametrize("policy", ["all", "quorum"])
def test_after_the_crash_of_a_voter_a_fresh_lock_comes_within_one_hedge(policy: str) -> None:
    """Whichever voter it is, and whether the request has not left, is under way or answered."""
    waits = [
        waits_beside_a_crash(policy, 1, [4], f"crash {voter} @ {time}")
        for voter in (1, 2, 3)
        for time in (0, 0.5, 1.5)
    ]
    assert min(waits) == 2
    assert max(waits) == (2 if policy == "all" else 16 + 2)


@pytest.mark.slow
def test_where_all_are_asked_the_crash_of_a_voter_delays_nobody() -> None:
    """Two clients take the lock from each other in four delays, whenever the crash comes."""
    for voter in (1, 2, 3):
        for time in range(50):
            assert waits_beside_a_crash("all", 12, [4, 5], f"crash {voter} @ {time}.25") == 4


# The rest


def test_a_process_with_all_its_parts_round_trips_through_the_codec() -> None:
    example = seat(build("leased", 3)[0])
    out: Outbox[Any] = Outbox(1)
    example.start(out)
    example.call("acquire", out)
    codec = SeatCodec(example)
    assert codec.restore(codec.save(example)) == example


def test_a_process_that_does_not_vote_refuses_requests() -> None:
    client = build("leased", 3, voters="2")[2]
    with pytest.raises(ProtocolError, match="process 3 is not a voter"):
        client.receive(1, Probe(SessionName("x", 1)), Outbox(3))


def test_its_own_clock_tells_whether_a_process_holds_the_lock() -> None:
    [alone] = build("leased", 1, lease="10")
    assert isinstance(alone, Leased)
    example = seat(alone)
    for step in (example.start, lambda out: example.call("acquire", out)):
        step(Outbox(1, 5.0))
    assert isinstance(alone.participant, Participant)
    assert alone.holds(14.9)
    assert not alone.holds(15)


@pytest.mark.parametrize(
    ("parameters", "error", "text"),
    [
        ({"voters": "none"}, UsageError, "number of voters"),
        ({"voters": "4"}, ConfigError, "4 of 3 processes"),
        ({"policy": "some"}, UsageError, "unknown policy"),
        ({"lease": "-1"}, UsageError, "lease"),
        ({"coterie": "1,2 3"}, CoterieError, "common"),
        ({"coterie": "plain"}, UsageError, "unknown coterie"),
    ],
)
def test_choices_that_make_no_sense_are_named(
    parameters: dict[str, str], error: type[CoterieError], text: str
) -> None:
    with pytest.raises(error, match=text):
        build("leased", 3, None, **parameters)
