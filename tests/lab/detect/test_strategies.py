"""The same jobs under each way to deal with deadlocks."""

from __future__ import annotations

import json

import pytest

from coterie.algorithms.deadlock.allocator import Client
from coterie.algorithms.deadlock.strategies import STRATEGIES
from coterie.cli import run
from coterie.errors import UsageError
from coterie.lab.detect.strategies import JOBS, Workload, build_clients, strategy_costs

SMALL = Workload(clients=4, locks=5, takes=2, claims=2)
ALONE = Workload(clients=1, locks=5, takes=2, claims=2)


@pytest.mark.parametrize("strategy", [each for each in STRATEGIES if each != "nothing"])
def test_all_jobs_are_done(strategy: str) -> None:
    costs = strategy_costs(strategy, SMALL, seeds=5)
    assert costs.done == costs.jobs == 5 * 4 * JOBS


def test_to_do_nothing_ends_in_a_deadlock() -> None:
    costs = strategy_costs("nothing", SMALL, seeds=5)
    assert costs.done < costs.jobs


def test_to_look_from_time_to_time_finds_every_deadlock_too() -> None:
    costs = strategy_costs("detect", SMALL, seeds=5, period=20.0)
    assert costs.done == costs.jobs
    assert costs.time_per_job > strategy_costs("detect", SMALL, seeds=5).time_per_job


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_client_alone_pays_for_its_locks_and_nothing_more(strategy: str) -> None:
    costs = strategy_costs(strategy, ALONE, seeds=2)
    assert (costs.done, costs.attempts_per_job, costs.held_back) == (2 * JOBS, 1.0, 0)
    assert costs.messages_per_job == 2 * 2 + 1  # a request and an answer for each lock, and the end


@pytest.mark.parametrize("strategy", ["avoid", "order"])
def test_neither_avoidance_nor_one_order_does_anything_twice(strategy: str) -> None:
    assert strategy_costs(strategy, SMALL, seeds=5).attempts_per_job == 1.0


def test_who_claims_more_is_held_back_more() -> None:
    exact = strategy_costs("avoid", SMALL, seeds=5)
    vague = strategy_costs("avoid", Workload(clients=4, locks=5, takes=2, claims=5), seeds=5)
    assert vague.held_back > exact.held_back > 0


def test_the_jobs_are_the_same_for_all() -> None:
    jobs = {
        strategy: [
            [(job.after, sorted(job.locks), job.work) for job in each.jobs]
            for each in build_clients(strategy, SMALL, seed=3)
            if isinstance(each, Client)
        ]
        for strategy in STRATEGIES
    }
    assert all(each == jobs["nothing"] for each in jobs.values())


def test_the_command_prints_a_row_each(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["compare-deadlocks", "-N", "3", "--locks", "4", "--takes", "2", "--seeds", "1"]
    assert run([*command, "--period", "30", "-o", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [each["strategy"] for each in rows] == [*STRATEGIES, "detect"]
    assert rows[-1]["period"] == 30
    assert run(command) == 0
    assert "wound-wait  30 of 30" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("workload", "reason"),
    [
        ({"clients": 0}, "at least 1 client, got 0"),
        ({"takes": 13}, "takes 1 to 12 locks, got 13"),
        ({"claims": 2}, "claims 3 to 12 locks, got 2"),
    ],
)
def test_what_cannot_be_drawn_is_refused(workload: dict[str, int], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        Workload(**workload)
