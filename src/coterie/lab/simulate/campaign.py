"""Many random runs, on one machine or on many: a row for each, which of them fail, and the means.

A campaign takes a function that draws a trial from a seed, so that every failure can be had again
from its seed alone. The runs go to any `concurrent.futures.Executor`; on one whose workers are
other processes, the function must be picklable: a module's function, or a dataclass with `__call__`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from random import Random
from time import thread_time
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import msgspec

from coterie.errors import UsageError
from coterie.lab.simulate.faults import Crash, Fault, Restart
from coterie.lab.simulate.interval import CONFIDENCE
from coterie.lab.simulate.metrics import Result, Summary, summarise
from coterie.lab.simulate.network import Network
from coterie.lab.simulate.rows import to_dicts, totals
from coterie.lab.simulate.simulation import Simulation

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

    from coterie.lab.simulate.interval import Interval
    from coterie.lab.simulate.workload import Workload
    from coterie.process import Process
    from coterie.trace import Header

SEEDS_PER_TASK = 20  # at first
TASK_SECONDS = 0.5  # that it costs little beside to hand out a task, and to wait for the last one
TASKS_PER_WORKER = 4  # that are pending at most: seeds may be endless, memory is not
WORKERS = 16  # if nothing is said: enough for the cores of one machine


@dataclass(frozen=True)
class Trial:
    """Everything about one run but its seed."""

    processes: Sequence[Process[Any]]
    workload: Workload
    network: Network = field(default_factory=Network)
    faults: Sequence[Fault] = ()
    max_time: float = 1e6


Draw: TypeAlias = Callable[[int], Trial]


class Failure(msgspec.Struct, frozen=True):
    """A run that broke a property, left a user waiting or did not end."""

    seed: int
    property: str  # that a monitor names, "unserved", or what stopped the run
    text: str


class Report(msgspec.Struct, kw_only=True):
    """What the runs of a campaign came to, all together."""

    runs: int = 0
    failures: list[Failure] = []  # in the order of the seeds
    entries: int = 0
    messages: int = 0
    late: int = 0  # messages that took longer than the processes rely on
    outages: list[
        float
    ] = []  # after each crash, the longest time that users waited for a free section
    results: list[Result] = []  # of each run, in the order of the seeds, if they are kept

    @property
    def outage(self) -> Summary | None:
        """Sum up the outages; None without a crash."""
        return summarise(self.outages)

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return one flat row per seed with all that its run reports, as a data frame takes them."""
        return to_dicts(self.results)

    def totals(self, confidence: float = CONFIDENCE) -> dict[str, Interval]:
        """Compute the mean of each column over the runs that came to their end, with its interval.

        A run that a violation or a limit cut short says nothing about costs, and is left out.
        """
        ended = [result for result in self.results if result.stopped == "done"]
        return totals(to_dicts(ended), confidence)

    def __repr__(self) -> str:
        """Name the sums; the results of all runs would fill pages."""
        return f"<Report: {self.runs} runs, {len(self.failures)} failed, {self.entries} entries>"

    def _repr_html_(self) -> str:
        """List the means where a notebook shows it."""
        rows = [
            f"<tr><td>{name}</td><td>{found.mean:g}</td><td>{_spread(found)}</td>"
            f"<td>{found.min:g}</td><td>{found.max:g}</td></tr>"
            for name, found in self.totals().items()
        ]
        head = "<tr><th>column</th><th>mean</th><th>±</th><th>least</th><th>most</th></tr>"
        caption = f"<caption>{self.runs} runs, {len(self.failures)} failed</caption>"
        return f"<table>{caption}<thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"

    def add(self, other: Report) -> None:
        """Count the runs of another report in."""
        self.runs += other.runs
        self.failures += other.failures
        self.entries += other.entries
        self.messages += other.messages
        self.late += other.late
        self.outages += other.outages
        self.results += other.results

    def sort(self) -> None:
        """Bring the lists into the order of the seeds, whatever the order the runs came in."""
        self.failures.sort(key=lambda failure: failure.seed)
        self.outages.sort()
        self.results.sort(key=lambda result: result.seed)


def _spread(interval: Interval) -> str:
    return "" if interval.half_width is None else f"{interval.half_width:.2g}"


class Batch(NamedTuple):
    """What a task of a campaign returns."""

    report: Report
    seconds: float  # of work


Run: TypeAlias = Callable[[Sequence[int]], Report]


def campaign(
    draw: Draw,
    seeds: Iterator[int] | Sequence[int],
    *,
    executor: Executor | None = None,
    workers: int = WORKERS,
    keep: bool = True,
    progress: Callable[[Report], None] | None = None,
) -> Report:
    """Run the trial of each seed.

    Args:
        draw: makes a trial from a seed.
        seeds: any number of them.
        executor: runs the trials; by default they run here, one after the other.
        workers: how many tasks the executor runs at once, about.
        keep: whether the report has the result of each run, for rows and means: some 2 kB each. Without
            them endless seeds take no memory.
        progress: called with what is there so far, whenever some more runs are done. It
            is one report that grows: keep it, and an interrupt leaves what is done, unsorted.

    Returns:
        the same report whatever the executor, up to the order of its lists until all is done.
    """
    total = Report()
    run = partial(run_trials, draw, keep=keep)
    for part in _parts(run, iter(seeds), executor, workers):
        total.add(part)
        if progress is not None:
            progress(total)
    total.sort()
    return total


def _parts(
    run: Run, seeds: Iterator[int], executor: Executor | None, workers: int
) -> Iterator[Report]:
    """Run the trials in groups, and give a report on each group when it is done."""
    if executor is None:
        for seed in seeds:
            yield run([seed])
        return
    size = SEEDS_PER_TASK
    pending: set[Future[Batch]] = set()
    while True:
        while len(pending) < TASKS_PER_WORKER * workers and (group := list(islice(seeds, size))):
            pending.add(executor.submit(run_batch, run, group))
        if not pending:
            return
        done, pending = wait(pending, return_when=FIRST_COMPLETED)
        for future in done:
            batch = future.result()
            size = _next_size(batch)
            yield batch.report


def _next_size(batch: Batch) -> int:
    """Return how many seeds a task is to have: at most twice as many as one that was too short."""
    count = batch.report.runs
    if batch.seconds * 2 <= TASK_SECONDS:
        return 2 * count
    return max(1, round(count * TASK_SECONDS / batch.seconds))


def run_batch(run: Run, seeds: Sequence[int]) -> Batch:
    """Run a few trials as one task, and measure the work: a busy machine does not count."""
    begun = thread_time()
    report = run(seeds)
    return Batch(report, thread_time() - begun)


def run_trials(draw: Draw, seeds: Sequence[int], *, keep: bool = True) -> Report:
    """Run a few trials, one after the other."""
    report = Report()
    for seed in seeds:
        result = run_trial(draw(seed), seed)
        failure = _failure(result)
        report.add(
            Report(
                runs=1,
                failures=[failure] if failure else [],
                entries=result.entries,
                messages=result.messages,
                late=result.late,
                outages=result.outages,
                results=[result] if keep else [],
            )
        )
    return report


def run_trial(trial: Trial, seed: int, header: Header | None = None) -> Result:
    """Run one trial; with a header its result has a trace."""
    return Simulation(
        trial.processes,
        workload=trial.workload,
        network=trial.network,
        faults=trial.faults,
        seed=seed,
        header=header,
        max_time=trial.max_time,
    ).run()


def _failure(result: Result) -> Failure | None:
    for violation in result.violations:
        return Failure(result.seed, violation.name, f"{violation.text} at {violation.time:g}")
    if result.stopped != "done":
        text = f"not over at {result.time:g}, with {result.unserved} users waiting"
        return Failure(result.seed, result.stopped, text)
    if result.unserved:
        return Failure(result.seed, "unserved", f"{result.unserved} users still wait")
    return None


def random_crashes(
    seed: int, size: int, *, duration: float, crashes: int, returns: bool = False
) -> list[Fault]:
    """Draw that many crashes of different processes within `duration`, all but one at the most.

    One in three happens in the middle of a broadcast. With `returns`, two in three of the processes
    come back without memory, at once or later, and some of them crash once more.
    """
    if not 0 <= crashes < size:
        raise UsageError(f"of {size} processes 0 to {size - 1} may crash, got {crashes}")
    random = Random(f"{seed}/crashes")
    faults: list[Fault] = []
    for process in random.sample(range(1, size + 1), crashes):
        time = random.uniform(0, duration)
        faults.append(_crash(random, process, time, size))
        while returns and random.random() < 2 / 3:
            time += random.choice((random.uniform(0, 5), random.expovariate(5 / duration)))
            faults.append(Restart(process, time))
            if random.random() < 2 / 3:
                break
            time += random.expovariate(5 / duration)
            faults.append(_crash(random, process, time, size))
    return faults


def _crash(random: Random, process: int, time: float, size: int) -> Crash:
    midway = random.random() < 1 / 3
    return Crash(process, time, random.randrange(size) if midway else None)
