"""The rule of `once`, explored: every order of what machines do whose clocks are apart, with a crash, and a lock that is lost.

A tick is a quarter of a period. Machine i reads a clock that is SKEW[i] ticks off; its timer fires for a period at the
beginning by that clock, a tick early or a tick late. The lock and the record are those of any engine: a holder that has
lost the lock writes nothing. Plan and record are the package's own.
"""

from __future__ import annotations

import sys
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import pytest

from coterie.errors import NotDue
from coterie.locks.once.period import Schedule
from coterie.locks.once.plan import Plan
from coterie.locks.once.record import OnceRecord
from tests.harness import broken_class

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TICK, PER, TICKS = (
    10,
    4,
    10,
)  # seconds, ticks of a period, ticks of a run: periods 1 and 2 begin at 4 and 8
KEYS = [
    Schedule(PER * TICK)
    .period_of(f"1970-01-01T00:0{n * PER * TICK // 60}:{n * PER * TICK % 60:02}Z")
    .key
    for n in range(4)
]
IDLE, READ, STARTED, RUN, ENDED_OK, ENDED_BAD, DEAD = range(7)


Item = TypeVar("Item")


class Machine(NamedTuple):
    phase: int = IDLE
    key: int = 0  # the period that it runs; while it reads, its clock as its timer fired
    fired: int = 0  # bits of the periods for which its timer has fired
    token: int = 0


class Known(NamedTuple):
    """What matters of a record: two with the same are not told apart by the rule."""

    period: str
    starts: int
    state: str
    token: int


class World(NamedTuple):
    time: int
    holder: int | None
    known: Known | None
    token: int
    crashes: int
    machines: tuple[Machine, ...]
    starts: tuple[int, ...] = (0, 0, 0, 0)
    successes: tuple[int, ...] = (0, 0, 0, 0)
    latest: int = 0


@dataclass(frozen=True)
class Rules:
    """What a program does; a mutant has one of them broken."""

    record: type[OnceRecord] = OnceRecord
    slack: float = TICK
    records_first: bool = True
    reads: bool = True
    goes_home: bool = False  # whoever finds the lock taken


class Model:
    def __init__(
        self, rules: Rules, attempts: int, skew: tuple[int, ...], crashes: int = 1
    ) -> None:
        self.rules = rules
        self.attempts = attempts
        self.skew = skew
        self.crashes = crashes
        self.plan = Plan("job", every=PER * TICK, attempts=attempts)
        assert self.plan.schedule is not None
        self.plan.schedule.slack = rules.slack
        self.module: Any = sys.modules[rules.record.__module__]

    def record(self, known: Known | None) -> OnceRecord | None:
        if known is None:
            return None
        run = self.module.RunRecord(known.period, 1, known.token, "", 0.0, known.state)
        made: OnceRecord = self.rules.record(
            1, known.period, known.starts, 0.0, (run,), every=PER * TICK
        )
        return made

    def due(self, known: Known | None, clock: int) -> int | None:
        """Return the number of the period that is due, by the clock of a machine in ticks."""
        record = self.record(known) if self.rules.reads else None
        try:
            return KEYS.index(self.plan.choose(record, clock * TICK).key)
        except (NotDue, ValueError):  # or a period that is not looked at
            return None

    def started(self, known: Known | None, key: int, token: int) -> Known:
        record = self.module.started(self.record(known), KEYS[key], token, "", 0.0)
        return Known(record.period, record.starts, record.last.state, record.last.token)

    def ended(self, known: Known, state: Literal["done", "failed"]) -> Known:
        record = self.record(known)
        assert record is not None
        ended = record.ended(state, "", 0.0)
        return known._replace(state=ended.last.state)

    def steps(self, world: World) -> Iterator[World]:
        if world.time < TICKS:
            yield world._replace(time=world.time + 1)
        for i, machine in enumerate(world.machines):
            match machine.phase:
                case 0:
                    yield from self.fire(world, i, machine)
                case 1:
                    yield self.read(world, i, machine)
                case 2:
                    yield self.run(world, i, machine)
                case 3:
                    for phase in (ENDED_OK, ENDED_BAD):
                        yield put(world, i, machine._replace(phase=phase))
                case 4 | 5:
                    yield self.end(world, i, machine)
                case _:
                    continue
            if machine.phase != IDLE and world.crashes:
                yield from self.fail(world, i, machine)

    def fire(self, world: World, i: int, machine: Machine) -> Iterator[World]:
        clock = world.time + self.skew[i]
        for n in (1, 2):
            if machine.fired >> n & 1 or not n * PER - 1 <= clock <= n * PER + 1:
                continue
            fired = machine._replace(fired=machine.fired | 1 << n)
            if world.holder is None:
                token = world.token + 1
                reading = fired._replace(phase=READ, key=clock, token=token)
                yield put(world._replace(holder=i, token=token), i, reading)
            elif self.rules.goes_home or self.due(world.known, clock) is None:
                yield put(world, i, fired)

    def read(self, world: World, i: int, machine: Machine) -> World:
        key = self.due(world.known, machine.key)
        if key is None or key == 0:  # what was before is none of this run
            return put(world._replace(holder=None), i, Machine(fired=machine.fired))
        chosen = machine._replace(phase=STARTED, key=key)
        if self.rules.records_first:
            world = world._replace(known=self.started(world.known, key, machine.token))
        return put(world, i, chosen)

    def run(self, world: World, i: int, machine: Machine) -> World:
        world = world._replace(
            starts=with_one(world.starts, machine.key, world.starts[machine.key] + 1),
            latest=max(world.latest, machine.key),
        )
        return put(world, i, machine._replace(phase=RUN))

    def end(self, world: World, i: int, machine: Machine) -> World:
        idle = Machine(fired=machine.fired)
        if world.holder != i:
            return put(world, i, idle)  # the lock was lost, and the write is refused
        known = world.known
        if not self.rules.records_first:
            known = self.started(known, machine.key, machine.token)
        assert known is not None
        known = self.ended(known, "done" if machine.phase == ENDED_OK else "failed")
        successes = world.successes
        if machine.phase == ENDED_OK:
            successes = with_one(successes, machine.key, 1)
        return put(world._replace(holder=None, known=known, successes=successes), i, idle)

    def fail(self, world: World, i: int, machine: Machine) -> Iterator[World]:
        """Kill a machine, or take its lock away: it was stopped, and wakes up later."""
        free = world._replace(
            crashes=world.crashes - 1, holder=None if world.holder == i else world.holder
        )
        yield put(free, i, Machine(phase=DEAD, fired=machine.fired))
        if world.holder == i and machine.phase in (RUN, ENDED_OK):
            yield free

    def explore(self) -> tuple[int, int, str]:
        """Return how many states and transitions there are, and the first thing that is wrong."""
        first = World(0, None, None, 0, self.crashes, (Machine(),) * len(self.skew))
        seen, waiting, transitions = {first}, deque([first]), 0
        while waiting:
            world = waiting.popleft()
            for after in self.steps(world):
                transitions += 1
                wrong = judge(world, after, self.attempts)
                if wrong:
                    return len(seen), transitions, wrong
                if after not in seen:
                    seen.add(after)
                    waiting.append(after)
        undone = (self.undone(world) for world in seen)
        return len(seen), transitions, next(filter(None, undone), "")

    def undone(self, world: World) -> str:
        """Say what was left undone at the end though every machine came for it."""
        alive = [machine for machine in world.machines if machine.phase != DEAD]
        if (
            world.time < TICKS
            or world.holder is not None
            or any(machine.phase != IDLE or machine.fired != 6 for machine in alive)
        ):
            return ""
        known = world.known
        if world.crashes == self.crashes and not (world.starts[1] and world.starts[2]):
            return "a period was not run"
        if len(alive) > 1 and known is not None and known.state != "done":
            return "an attempt was left" if known.starts < self.attempts else ""
        return ""


def put(world: World, i: int, machine: Machine) -> World:
    return world._replace(machines=with_one(world.machines, i, machine))


def with_one(row: tuple[Item, ...], place: int, item: Item) -> tuple[Item, ...]:
    return (*row[:place], item, *row[place + 1 :])


def judge(before: World, after: World, attempts: int) -> str:
    for key in range(1, 4):
        if after.starts[key] == before.starts[key]:
            continue
        if after.starts[key] > attempts:
            return "started too often"
        if before.successes[key]:
            return "started after its success was recorded"
        if before.latest > key:
            return "started after a later one"
    return ""


@pytest.mark.parametrize(
    ("skew", "attempts", "crashes", "expected"),
    [
        ((-1, 1), 1, 1, (6394, 13510)),
        ((-1, 1), 2, 1, (8917, 19580)),
        ((0, 0), 2, 1, (8987, 20414)),
        ((-1, 0, 1), 2, 0, (11562, 21887)),
    ],
)
def test_the_promise_holds_in_every_order(
    skew: tuple[int, ...], attempts: int, crashes: int, expected: tuple[int, int]
) -> None:
    states, transitions, wrong = Model(Rules(), attempts, skew, crashes).explore()
    assert wrong == ""
    assert (states, transitions) == expected


def broken(old: str, new: str) -> Callable[[], Rules]:
    return lambda: Rules(record=broken_class(OnceRecord, old, new))


MUTANTS: dict[str, tuple[Callable[[], Rules], str]] = {
    "a lock alone": (lambda: replace(Rules(), reads=False), "started too often"),
    "recorded when it has run": (
        lambda: replace(Rules(), records_first=False),
        "started too often",
    ),
    "no slack": (lambda: replace(Rules(), slack=0.0), "a period was not run"),
    "who finds the lock taken goes home": (
        lambda: replace(Rules(), goes_home=True),
        "an attempt was left",
    ),
    "any other period is due": (
        broken("if period > self.period:", "if period != self.period:"),
        "started after a later one",
    ),
    "attempts are not counted": (
        broken("if self.starts < attempts:", "if self.starts < 99:"),
        "started too often",
    ),
    "a success is forgotten": (
        broken('if state == "done":', "if state == 1:"),
        "started after its success was recorded",
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_rule_is_noticed(name: str) -> None:
    make, expected = MUTANTS[name]
    found = (
        Model(make(), attempts, skew).explore()[2]
        for attempts in (1, 2)
        for skew in ((-1, 1), (0, 0))
    )
    assert expected in found
