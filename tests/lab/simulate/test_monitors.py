"""What ends a run: each property is broken by a process made to break it."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from coterie.lab.simulate import Burst, Closed, OneAtATime, Result, Simulation
from coterie.lab.simulate.monitors import CausalOrder
from coterie.trace import Header, Violated
from tests.lab.simulate.toys import Careless, Failing, Forgetful, Script, Server

if TYPE_CHECKING:
    from coterie.lab.simulate.observer import Order


def test_two_inside_at_once_violate_safety() -> None:
    result = Simulation([Careless(1), Careless(2)], workload=Script(((0, 1), (3, 2)), hold=5)).run()
    (violation,) = result.violations
    assert (violation.name, violation.time, result.stopped) == ("safety", 3, "violation")
    assert "processes 1 and 2" in violation.text


class Leaseholder(Careless):
    """Knows by its own clock when it may no longer rely on being inside."""

    until: float = 2.0

    def holds(self, now: float) -> bool:
        return now < self.until


@pytest.mark.parametrize(("until", "violations"), [(2.0, 0), (4.0, 1)])
def test_one_who_no_longer_holds_is_in_nobodys_way(until: float, violations: int) -> None:
    script = Script(((0, 1), (3, 2)), hold=5)
    result = Simulation([Leaseholder(1, until), Careless(2)], workload=script).run()
    assert len(result.violations) == violations


def test_a_handler_that_raises_is_the_violation_of_its_process() -> None:
    result = Simulation([Failing(1, peer=2), Failing(2)], workload=OneAtATime(1, [1])).run()
    (violation,) = result.violations
    assert (violation.name, violation.time) == ("raised", 1)
    assert violation.text.startswith(
        "process 2 raised KeyError(7) on a message from 1 (toys.py, line "
    )


def test_a_user_who_waits_when_nothing_can_happen_is_stuck() -> None:
    result = Simulation([Forgetful(1), Forgetful(2)], workload=Burst()).run()
    (violation,) = result.violations
    assert (violation.name, result.unserved, result.entries) == ("stuck", 2, 0)
    assert violation.text.startswith("process 1 has waited since 0 (and 1 more)")


def test_waiting_at_the_limit_is_counted_but_proves_nothing() -> None:
    def run(**limits: float) -> Result:
        servers = [Server(me) for me in (1, 2, 3)]
        return Simulation(servers, workload=Closed(100, [2, 3]), **limits).run()  # type: ignore[arg-type]

    late, long, asked_for = run(max_time=50), run(max_events=50), run(until=50)
    assert [late.stopped, long.stopped, asked_for.stopped] == ["time limit", "event limit", "done"]
    for result in (late, long, asked_for):
        assert result.violations == []
        assert result.unserved > 0
    assert late.time == asked_for.time == 50
    assert long.events == 50


def test_a_violation_ends_the_trace() -> None:
    header = Header(algorithm="toy", size=2)
    result = Simulation([Careless(1), Careless(2)], workload=Burst(hold=1), header=header).run()
    assert result.trace is not None
    assert isinstance(result.trace.records[-1], Violated)


# 2 holds the lock, 3 asks and its friend 4 learns of it, 4 asks: 3 has happened before 4.
CAUSAL = Script(((0, 2), (3, 3), (6, 4)), hold=10)


def serve(order: Order, *, newest_first: bool, friend: int | None = 4) -> Result:
    servers = [Server(me, newest_first, friend if me == 3 else None) for me in range(1, 5)]
    return Simulation(servers, workload=CAUSAL, order=order).run()


def test_serving_a_later_request_before_one_it_depends_on_is_an_overtaking() -> None:
    assert serve("count", newest_first=True).overtakings == 1
    assert serve("count", newest_first=False).overtakings == 0


def test_requests_that_know_nothing_of_each_other_cannot_overtake() -> None:
    assert serve("count", newest_first=True, friend=None).overtakings == 0


def test_knowledge_travels_through_others() -> None:
    """5 is inside; 3 asks, 2 learns of it and asks, 4 learns of both; served are 4, 2, 3."""
    asks = ((0, 5), (3, 3), (6, 2), (9, 4))
    for friends, overtakings in (({3: 2, 2: 4}, 2), ({2: 4}, 1), ({3: 2}, 1)):
        servers = [Server(me, friend=friends.get(me)) for me in range(1, 6)]
        result = Simulation(servers, workload=Script(asks, hold=30), order="count").run()
        assert result.overtakings == overtakings


def test_order_is_a_property_only_on_demand() -> None:
    assert serve("ignore", newest_first=True).overtakings is None
    assert serve("count", newest_first=True).violations == []
    (violation,) = serve("demand", newest_first=True).violations
    assert violation.name == "order"
    assert "process 4" in violation.text


@pytest.mark.parametrize("seed", range(3))
def test_a_violation_comes_again_with_its_seed(seed: int) -> None:
    def run() -> Result:
        return Simulation([Careless(1), Careless(2)], workload=Closed(9, think=2), seed=seed).run()

    assert run() == run()


class SetsOfRequests:
    """The definition of causal order, written with plain sets."""

    def __init__(self) -> None:
        self.asked = 0
        self.waiting: dict[int, int] = {}
        self.known: dict[int, set[int]] = {}
        self.before: dict[int, set[int]] = {}

    def ask(self, process: int) -> None:
        self.asked += 1
        self.waiting[process] = self.asked
        known = self.known.setdefault(process, set())
        self.before[process] = set(known)
        known.add(self.asked)

    def enter(self, process: int) -> bool:
        del self.waiting[process]
        return bool(self.before[process] & set(self.waiting.values()))


@pytest.mark.parametrize("seed", range(5))
def test_the_order_monitor_agrees_with_sets_of_requests(seed: int) -> None:
    """A process that starves keeps its bit; messages outlive many requests of others."""
    random, size = Random(seed), 6
    order, sets = CausalOrder(size), SetsOfRequests()
    letters: list[tuple[Any, set[int]]] = []
    overtook = 0
    for _ in range(3000):
        process = random.randint(1, size)
        match random.choice(("ask or enter", "send", "deliver", "crash")):
            case "ask or enter" if process not in sets.waiting:
                order.asked(process)
                sets.ask(process)
            case "ask or enter" if process != 1 or random.random() < 0.01:
                expected = sets.enter(process)
                assert order.entered(process) == expected
                overtook += expected
            case "send":
                letters.append((order.knowledge(process), set(sets.known.get(process, ()))))
            case "deliver" if letters:
                carried, known = letters.pop(random.randrange(len(letters)))
                order.learnt(process, carried)
                sets.known.setdefault(process, set()).update(known)
            case "crash" if random.random() < 0.05:
                order.crashed(process)
                sets.waiting.pop(process, None)
            case _:
                pass
    assert order.overtakings == overtook > 0
