"""Who asks when."""

from __future__ import annotations

from itertools import pairwise

import pytest

from coterie.errors import ConfigError, UsageError
from coterie.lab.simulate import (
    Burst,
    Closed,
    Constant,
    HandOver,
    HotSpot,
    OneAtATime,
    Poisson,
    Result,
    Simulation,
    Uniform,
    Workload,
)
from coterie.trace import Called, Header
from tests.lab.simulate.toys import Careless, Postman, Server


def run(workload: Workload, size: int = 4) -> Result:
    """Run a fair lock whose server does not ask; it costs 3 messages and two of them to enter."""
    return Simulation(
        [Server(me, newest_first=False) for me in range(1, size + 1)],
        workload=workload,
        header=Header(algorithm="toy", size=size),
        max_time=10_000,
    ).run()


def calls(result: Result, name: str) -> list[tuple[float, int]]:
    assert result.trace is not None
    return [
        (record.time, record.process)
        for record in result.trace.records
        if isinstance(record, Called) and record.call == name
    ]


def test_one_at_a_time_starts_with_the_second_and_waits_until_all_is_quiet() -> None:
    result = run(OneAtATime(4, [2, 3, 4], hold=5))
    assert calls(result, "acquire") == [(0, 3), (8, 4), (16, 2), (24, 3)]
    assert result.client_delay is not None
    assert result.client_delay.count == 4


def test_one_at_a_time_can_let_each_enter_twice_in_a_row() -> None:
    result = run(OneAtATime(6, [2, 3, 4], repeat=2))
    assert [process for _, process in calls(result, "acquire")] == [3, 3, 4, 4, 2, 2]


def test_one_at_random_draws_any_other_but_the_last_evenly() -> None:
    result = run(OneAtATime(600, [2, 3, 4], order="random"))
    asked = [process for _, process in calls(result, "acquire")]
    assert asked[0] != 2
    assert not any(one == next_one for one, next_one in pairwise(asked))
    for process in (2, 3, 4):
        assert 170 < asked.count(process) < 230
    twice = [
        p for _, p in calls(run(OneAtATime(6, [2, 3, 4], repeat=2, order="random")), "acquire")
    ]
    assert twice[::2] == twice[1::2]
    assert [p for _, p in calls(run(OneAtATime(2, [3], order="random")), "acquire")] == [3, 3]


def test_a_closed_loop_asks_again_after_thinking() -> None:
    result = run(Closed(3, [2], think=7, hold=1))
    assert calls(result, "acquire") == [(0, 2), (10, 2), (20, 2)]


def test_in_a_closed_loop_everyone_enters_equally_often() -> None:
    result = run(Closed(5, [2, 3, 4]))
    assert (result.entries, result.fairness.jain) == (15, 1.0)


def test_a_burst_lets_all_ask_at_once_and_again_when_all_is_quiet() -> None:
    result = run(Burst(2, [2, 3]))
    assert calls(result, "acquire") == [(0, 2), (0, 3), (5, 2), (5, 3)]


def test_poisson_requests_come_at_their_rate_by_everyone_in_the_end() -> None:
    result = run(Poisson(0.1, 3000, [2, 3, 4]))
    assert 250 < result.entries < 350
    assert {process for _, process in calls(result, "acquire")} == {2, 3, 4}
    assert result.unserved == 0


def test_requests_of_a_busy_user_follow_one_another() -> None:
    result = run(Poisson(2, 50, [2], hold=3))
    leaving, asking = calls(result, "release"), calls(result, "acquire")[1:]
    assert result.entries > 50
    assert all(left <= asked for (left, _), (asked, _) in zip(leaving, asking, strict=False))


def test_a_hot_spot_makes_its_share_of_the_requests() -> None:
    result = run(HotSpot(0.1, 3000, [2, 3, 4], hot=1, share=0.8))
    by_hot = sum(process == 2 for _, process in calls(result, "acquire"))
    assert 0.7 < by_hot / result.entries < 0.9


def test_a_hand_over_happens_while_exactly_one_waits() -> None:
    result = run(HandOver([(2, 3), (4, 2)], hold=10))
    assert [process for _, process in calls(result, "acquire")] == [2, 3, 4, 2]
    assert [process for _, process in calls(result, "release")] == [2, 3, 4, 2]
    assert result.synchronisation_delay is not None
    assert (result.synchronisation_delay.count, result.synchronisation_delay.max) == (2, 2)


def test_the_stay_may_be_random() -> None:
    result = run(Closed(20, [2], hold=Uniform(1, 3)))
    stays = [
        left - entered - 2
        for (entered, _), (left, _) in zip(
            calls(result, "acquire"), calls(result, "release"), strict=True
        )
    ]
    assert all(1 <= stay <= 3 for stay in stays)
    assert len(set(stays)) == 20


def test_a_workload_serves_many_runs() -> None:
    workload = OneAtATime(5, [2, 3], hold=Constant(1))
    assert run(workload) == run(workload)


def test_one_that_asks_nothing_lets_processes_work_by_themselves() -> None:
    result = Simulation([Postman(1, 3), Postman(2)]).run()
    assert (result.entries, result.messages, result.stopped, result.time) == (0, 3, "done", 1)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: OneAtATime(0), "entries must be at least 1, got 0"),
        (lambda: OneAtATime(1, repeat=0), "repeat must be at least 1"),
        (lambda: Closed(0), "entries per process must be at least 1"),
        (lambda: Burst(0), "rounds must be at least 1"),
        (lambda: Poisson(0, 1), "rate and duration must be positive"),
        (lambda: HotSpot(1, 1, hot=0), "hot processes must be at least 1"),
        (lambda: HotSpot(1, 1, share=2), "must be a probability"),
        (lambda: run(HandOver([(2, 2)])), "cannot hand over to itself"),
        (lambda: run(Closed(1, [])), "at least one requester"),
        (lambda: run(Closed(1, hold=-1)), "at least 0"),
    ],
)
def test_a_workload_that_makes_no_sense_is_refused(make: object, problem: str) -> None:
    assert callable(make)
    with pytest.raises(UsageError, match=problem):
        make()


def test_a_workload_for_other_processes_is_refused() -> None:
    with pytest.raises(ConfigError, match="names process 5; there are 1 to 4"):
        run(Closed(1, [5]))
    with pytest.raises(ConfigError, match="process 1 is not a mutex"):
        Simulation([Postman(1)], workload=Closed(1)).run()


def test_users_of_different_processes_ask_in_the_order_given() -> None:
    result = Simulation(
        [Careless(me) for me in (1, 2, 3)],
        workload=OneAtATime(5, hold=1),
        header=Header(algorithm="toy", size=3),
    ).run()
    order = [process for _, process in calls(result, "acquire")]
    assert order == [2, 3, 1, 2, 3]
    assert all(one != other for one, other in pairwise(order))
