"""Campaigns: many seeds, any executor, failures that can be had again; and what they measure."""

from __future__ import annotations

import itertools
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from coterie.catalogue import find
from coterie.errors import UsageError
from coterie.lab.simulate import (
    Burst,
    Closed,
    Constant,
    Crash,
    Fault,
    Network,
    Report,
    Restart,
    Simulation,
    Trial,
    Uniform,
    campaign,
    parse_fault,
    random_crashes,
)
from coterie.lab.simulate.campaign import Batch, run_batch, run_trials
from coterie.process import Channel, Outbox, Process
from coterie.trace import Header
from tests.lab.simulate.toys import (
    Careless,
    Forgetful,
    Note,
    OrderedPostman,
    Postman,
    Server,
    state,
)

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Fine:
    """Trials in which nothing goes wrong."""

    def __call__(self, seed: int) -> Trial:
        entry = find("ricart-agrawala")
        processes = entry.build(entry.setup(3))
        return Trial(processes, Closed(2), Network(Uniform(0.5, 1.5)))


def clash_on_odd_seeds(seed: int) -> Trial:
    processes = [Careless(1), Careless(2)]
    return Trial(processes, Burst(requesters=[1, 2] if seed % 2 else [1], hold=1.0))


def test_a_campaign_counts_all_its_runs() -> None:
    report = campaign(Fine(), range(50))
    assert (report.runs, report.entries, report.messages) == (50, 300, 1200)
    assert report.failures == []
    assert report.outage is None


@pytest.mark.parametrize("pool", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_the_report_is_the_same_on_any_executor(pool: Callable[[int], Any]) -> None:
    with pool(2) as executor:
        report = campaign(clash_on_odd_seeds, range(100), executor=executor)
    assert msgspec.json.encode(report) == msgspec.json.encode(
        campaign(clash_on_odd_seeds, range(100))
    )


class Immediate(Executor):
    """Runs a task when it is handed out, on a machine of a given speed."""

    def __init__(self, seconds_per_run: float) -> None:
        self.sizes: list[int] = []
        self._seconds_per_run = seconds_per_run

    def submit(self, task: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
        report = task(*arguments, **named).report
        self.sizes.append(report.runs)
        done: Future[Any] = Future()
        done.set_result(Batch(report, self._seconds_per_run * report.runs))
        return done


def test_tasks_grow_until_one_lasts_half_a_second() -> None:
    executor = Immediate(seconds_per_run=0.005)
    report = campaign(clash_on_odd_seeds, range(1000), executor=executor, workers=1)
    assert executor.sizes[:4] == [20] * 4
    assert executor.sizes[4:8] == [40] * 4
    assert set(executor.sizes[12:-1]) == {100}
    assert report == campaign(clash_on_odd_seeds, range(1000))


def test_tasks_shrink_where_one_run_takes_long() -> None:
    executor = Immediate(seconds_per_run=0.6)
    campaign(clash_on_odd_seeds, range(100), executor=executor, workers=1)
    assert executor.sizes == [20] * 4 + [1] * 20


def test_the_work_of_a_task_is_measured_where_it_is_done() -> None:
    batch = run_batch(partial(run_trials, clash_on_odd_seeds), range(5))
    assert batch.report == campaign(clash_on_odd_seeds, range(5))
    assert batch.seconds > 0


@pytest.mark.parametrize("workers", [1, pytest.param(100, marks=pytest.mark.slow)])
def test_four_tasks_for_each_worker_are_pending(workers: int) -> None:
    executor, pending = Immediate(seconds_per_run=0.6), []
    campaign(
        clash_on_odd_seeds,
        itertools.islice(itertools.count(), 20 * 4 * workers + 1),
        executor=executor,
        workers=workers,
        progress=lambda _: pending.append(len(executor.sizes)),
    )
    assert pending[0] == 4 * workers


def test_a_failure_names_its_seed_and_what_was_violated() -> None:
    failures = campaign(clash_on_odd_seeds, range(6)).failures
    assert [(failure.seed, failure.property) for failure in failures] == [
        (1, "safety"),
        (3, "safety"),
        (5, "safety"),
    ]
    assert "processes 1 and 2" in failures[0].text


def test_progress_is_told_and_seeds_may_be_endless() -> None:
    told: list[int] = []

    def stop(report: Report) -> None:
        told.append(report.runs)
        if report.runs >= 60:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        campaign(Fine(), itertools.count(), progress=stop)
    assert told == list(range(1, 61))


def test_a_run_that_serves_not_everybody_or_does_not_end_has_failed() -> None:
    def trial(seed: int) -> Trial:
        if seed == 1:
            return Trial([Forgetful(1)], Closed(1))
        return Trial([Server(1), Server(2)], Closed(100), max_time=5.0)

    failures = campaign(trial, [1, 2]).failures
    assert [failure.property for failure in failures] == ["stuck", "time limit"]


def test_random_crashes_spare_somebody_and_follow_from_their_seed() -> None:
    for seed in range(50):
        faults = random_crashes(seed, 5, duration=100.0, crashes=4, returns=True)
        assert faults == random_crashes(seed, 5, duration=100.0, crashes=4, returns=True)
        crashed = [fault.process for fault in faults if isinstance(fault, Crash)]
        returned = [fault.process for fault in faults if isinstance(fault, Restart)]
        assert len(set(crashed)) == 4
        assert set(returned) <= set(crashed)
        assert not any(fault.memory for fault in faults if isinstance(fault, Restart))
    assert not any(
        isinstance(fault, Restart) for fault in random_crashes(1, 5, duration=9.0, crashes=4)
    )


def test_not_everybody_can_crash() -> None:
    with pytest.raises(UsageError, match="0 to 2 may crash, got 3"):
        random_crashes(1, 3, duration=10.0, crashes=3)


# What a campaign relies on


class Herald(Process[Note]):
    """Tells everybody, twice, when its timer rings."""

    got: list[int] = []

    def start(self, out: Outbox[Note]) -> None:
        if self.me == 1:
            out.set_timer("NOW", 5.0)

    def ring(self, timer: str, out: Outbox[Note]) -> None:
        out.broadcast([2, 3, 4], Note(1))
        out.broadcast([2, 3, 4], Note(2))
        out.set_timer("NOW", 5.0)

    def receive(self, sender: int, message: Note, out: Outbox[Note]) -> None:
        self.got.append(message.number)


def test_a_process_can_die_half_way_through_a_broadcast() -> None:
    simulation = Simulation([Herald(me) for me in range(1, 5)], faults=[Crash(1, 1.0, 4)], until=50)
    result = simulation.run()
    assert [state(simulation, me).got for me in (2, 3, 4)] == [[1, 2], [1], [1]]
    assert result.messages == 4


@pytest.mark.parametrize("messages", [0, 4])
def test_who_dies_in_the_middle_of_a_step_wishes_no_more_in_it(messages: int) -> None:
    """The timer that the step set is not armed: not even one who returns with memory hears it."""
    faults: list[Fault] = [Crash(1, 1.0, messages), Restart(1, 8.0, memory=True)]
    header = Header(algorithm="herald", size=4)
    simulation = Simulation(
        [Herald(me) for me in range(1, 5)], faults=faults, header=header, until=50
    )
    result = simulation.run()
    assert result.messages == messages
    assert result.trace is not None
    kinds = [type(record).__name__ for record in result.trace.records if record.time == 5.0]
    assert kinds == ["Rang", *["Sent"] * messages, "Crashed"]


def test_that_fault_is_read_and_written() -> None:
    assert parse_fault("crash 3 @ 10 after 2") == Crash(3, 10.0, 2)
    assert str(Crash(3, 10.0, 2)) == "crash 3 @ 10.0 after 2"
    with pytest.raises(UsageError, match="after MESSAGES"):
        parse_fault("crash 3 @ 10 after two")


class Hurried(OrderedPostman):
    """Relies on messages that take no longer than 1."""

    channel = Channel.FIFO

    def delay_max(self) -> float:
        return 1.0

    def facts(self) -> dict[str, Any]:
        return {"notes": self.notes, "kind": "hurried"}


@pytest.mark.parametrize(("latency", "late"), [(1.0, 0), (0.3, 0), (1.5, 10)])
def test_messages_that_take_longer_than_a_process_relies_on_are_counted(
    latency: float, late: int
) -> None:
    simulation = Simulation([Hurried(1, 10), Hurried(2)], network=Network(Constant(latency)))
    assert simulation.run().late == late


def test_who_relies_on_nothing_is_never_late() -> None:
    simulation = Simulation([Postman(1, 10), Postman(2)], network=Network(Constant(99.0)))
    assert simulation.run().late == 0


def test_what_all_live_processes_tell_alike_is_told_once() -> None:
    result = Simulation([Hurried(1, 10), Hurried(2)]).run()
    assert result.facts == {"notes": {1: 10, 2: 0}, "kind": "hurried"}
    result = Simulation([Hurried(1, 10), Hurried(2)], faults=[Crash(2, 0.5)]).run()
    assert result.facts == {"notes": 10, "kind": "hurried"}


def test_an_outage_is_the_longest_wait_for_a_free_section_after_a_crash() -> None:
    """1 serves 2 and 3; 2 enters at 2 and dies inside at 5, so 3 waits in vain from then on."""
    processes = [Server(me, newest_first=False) for me in (1, 2, 3)]
    faults: list[Fault] = [Crash(2, 5.0), Restart(2, 25.0)]
    result = Simulation(
        processes, workload=Burst(requesters=[2, 3], hold=10.0), faults=faults
    ).run()
    assert result.outages == [0.0]
    assert result.unserved == 1

    alive = [Server(me, newest_first=False) for me in (1, 2, 3)]
    crash = [Crash(3, 1.5)]
    served = Simulation(alive, workload=Burst(requesters=[2], hold=10.0), faults=crash).run()
    assert served.outages == [0.5]
