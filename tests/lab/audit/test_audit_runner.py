"""Rounds of an audit against a store in memory: what is run, how much, and that nothing is left."""

from __future__ import annotations

import asyncio

import pytest

from coterie.errors import Unavailable
from coterie.lab.audit.runner import AuditPlan, Runner
from coterie.lab.audit.verdict import Verdict, judge
from coterie.lab.audit.workload import WORKLOADS
from tests.lab.audit.memory_target import MemoryTarget

PLAN = AuditPlan("none", list(WORKLOADS), clients=8, seconds=60.0, transactions=200, seed=3)


async def audited(target: MemoryTarget, plan: AuditPlan = PLAN) -> Runner:
    runner = Runner(target, plan, lambda _: None)
    await runner.run()
    return runner


def verdict_of(runner: Runner, target: MemoryTarget) -> Verdict:
    return judge("memory", "none", target.levels["none"], runner)


@pytest.mark.parametrize("workload", WORKLOADS)
def test_each_workload_catches_a_store_without_isolation(workload: str) -> None:
    target = MemoryTarget()
    runner = asyncio.run(audited(target, PLAN._replace(workloads=[workload], transactions=40)))
    verdict = verdict_of(runner, target)
    assert verdict.serializable is False
    assert verdict.found_by == workload
    assert verdict.smallest is not None
    assert len(verdict.smallest.cycle) <= 3


def test_as_many_transactions_are_run_as_asked_for() -> None:
    target = MemoryTarget()
    runner = asyncio.run(audited(target))
    begun = len(runner.recorder.workloads)
    assert 200 <= begun <= 200 + 2 * 5, "rounds under way are finished"
    verdict = verdict_of(runner, target)
    assert sum(tally.committed for tally in verdict.workloads) == begun
    assert all(tally.rounds > 0 for tally in verdict.workloads)


def test_the_time_ends_an_audit() -> None:
    runner = asyncio.run(audited(MemoryTarget(), PLAN._replace(seconds=0.0)))
    assert not runner.recorder.workloads


def test_the_same_seed_runs_the_same_transactions() -> None:
    plan = PLAN._replace(clients=4)
    one, other = (asyncio.run(audited(MemoryTarget(), plan)) for _ in range(2))
    keys = [
        sorted({str(event.key) for event in runner.recorder.events if event.key is not None})
        for runner in (one, other)
    ]
    assert keys[0] == keys[1]


def test_everything_is_removed_after_a_run() -> None:
    target = MemoryTarget()
    asyncio.run(audited(target))
    assert target.is_removed
    assert target.sessions == 0


def test_everything_is_removed_after_a_failure() -> None:
    target = MemoryTarget(calls_max=100)
    with pytest.raises(Unavailable, match="memory: it is gone"):
        asyncio.run(audited(target))
    assert target.is_removed
    assert target.sessions == 0


def test_everything_is_removed_where_an_audit_is_cancelled() -> None:
    async def main() -> MemoryTarget:
        target = MemoryTarget()
        task = asyncio.create_task(audited(target, PLAN._replace(transactions=None)))
        await target.began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return target

    target = asyncio.run(main())
    assert target.is_removed
    assert target.sessions == 0


def test_a_store_that_refuses_everything_ends_the_audit() -> None:
    target = MemoryTarget(refuses=True)
    with pytest.raises(Unavailable, match="refused 100 times"):
        asyncio.run(audited(target))
    assert target.is_removed


def test_no_transaction_goes_on_after_a_failure() -> None:
    async def main() -> set[asyncio.Task[None]]:
        target = MemoryTarget(calls_max=15)  # in the first round, while one of it makes a pause
        with pytest.raises(Unavailable, match="memory: it is gone"):
            await audited(target, PLAN._replace(workloads=["bank"], clients=4))
        return asyncio.all_tasks() - {asyncio.current_task()}

    assert not asyncio.run(main())


def test_a_commit_without_an_answer_has_an_unknown_outcome_and_the_audit_goes_on() -> None:
    target = MemoryTarget()
    target.lost_answers = 3
    runner = asyncio.run(audited(target))
    tallies = verdict_of(runner, target).workloads
    assert sum(tally.unknown for tally in tallies) == 3
    assert sum(tally.committed for tally in tallies) >= 197
    assert target.sessions == 0
