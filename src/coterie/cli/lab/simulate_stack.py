"""`coterie simulate-stack`: the code that is shipped, in virtual time, from one seed or many."""

from __future__ import annotations

import contextlib
import itertools
import tempfile
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from coterie.cli.common.output import number, output_option, print_json, write_file
from coterie.cli.common.progress import ProgressLine
from coterie.cli.lab.options import write_trace
from coterie.cli.lab.workers import workers
from coterie.errors import UsageError
from coterie.lab.stack.campaign import (
    Outcome,
    classic_pairs,
    draw,
    run_plan,
    run_seed,
    shrink,
)
from coterie.lab.stack.points import find_points
from coterie.lab.stack.workloads.catalogue import WORKLOADS
from coterie.lab.stack.world import memory

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    from coterie.lab.stack.scene.plan import RunPlan

FAILURES_SHOWN = 10


@click.command("simulate-stack")
@click.option("--seed", type=int, default=0, show_default=True, help="The first, or the only one.")
@click.option("--seeds", type=click.IntRange(min=1), help="Run a campaign of this many seeds.")
@click.option("--jobs", type=click.IntRange(min=1), default=1, help="... on this many cores.")
@click.option(
    "--workload",
    type=click.Choice(list(WORKLOADS)),
    metavar="KIND",
    help=f"One of {', '.join(WORKLOADS)}. Default: each seed draws one.",
)
@click.option("--details", help="Algorithm/variant of a classic workload, scheme of a store.")
@click.option(
    "--classics",
    is_flag=True,
    help="Run the seeds for each classic algorithm with each kind of fault that it tolerates.",
)
@click.option(
    "--tls", is_flag=True, help="Over TLS. Default: a fifth of seeds that draw a workload."
)
@click.option("--points", is_flag=True, help="List rare places of the code, and who came there.")
@click.option("--keep", metavar="I,J,...", help="Faults to keep, by number; 'none' for no fault.")
@click.option(
    "--trace",
    "trace_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the end of the run: .svg (space-time diagram), .jsonl, or .log (text).",
)
@output_option
def command(
    *,
    seed: int,
    seeds: int | None,
    jobs: int,
    workload: str | None,
    details: str | None,
    classics: bool,
    tls: bool,
    points: bool,
    keep: str | None,
    trace_file: Path | None,
    output: str,
) -> int:
    """Run nodes, programs, sockets, clocks and disks of a whole cluster in virtual time.

    A seed draws a cluster, a workload and faults. A run that breaks a promise is made smaller by
    leaving faults out, and can be seen again by the command that is printed.
    Exits with 1 if a promise was broken.
    """
    if classics and (seeds is None or workload is not None or details is not None):
        raise UsageError("--classics takes --seeds, and no --workload and no --details")
    if points and seeds is None:
        raise UsageError("--points belongs to a campaign: add --seeds")
    if seeds is None:
        plan = _plan(draw(seed, workload, details, tls=tls), keep)
        return _run_one(plan, trace_file, output, shrinks=keep is None)
    if keep is not None or trace_file is not None:
        raise UsageError("--keep and --trace belong to a single seed: leave out --seeds")
    chosen = classic_pairs() if classics else [(workload, details)]
    runs = [Chosen(number, *each) for each in chosen for number in range(seed, seed + seeds)]
    report = _Report(len(runs))
    with tempfile.TemporaryDirectory(prefix="coterie-stack-", dir=memory()) as folder:
        # Workers that are ended leave files behind, which are gone with this folder.
        run = partial(_run, folder=Path(folder), tls=tls)
        with contextlib.closing(_outcomes(run, runs, jobs)) as outcomes:
            report.read(outcomes)
    if output == "json":
        print_json(report.facts())
    else:
        report.print(lists_points=points)
    if report.failures:
        first = report.failures[0]
        plan = draw(first.seed, first.workload, first.details, tls=first.tls)
        return _run_one(plan, Path(f"stack-seed-{first.seed}.svg"), output, shrinks=True)
    return 0


class Chosen(NamedTuple):
    """A run of a campaign."""

    seed: int
    workload: str | None
    details: str | None


def _run(chosen: Chosen, *, folder: Path, tls: bool) -> Outcome:
    return run_seed(chosen.seed, chosen.workload, chosen.details, folder=folder, tls=tls)


def _plan(plan: RunPlan, keep: str | None) -> RunPlan:
    if keep is None:
        return plan
    try:
        numbers = [] if keep == "none" else [int(part) for part in keep.split(",")]
        return plan.keeping(numbers)
    except (ValueError, IndexError):
        most = len(plan.faults) - 1
        raise UsageError(f"--keep takes numbers of faults from 0 to {most}, got {keep!r}") from None


def _run_one(plan: RunPlan, trace_file: Path | None, output: str, *, shrinks: bool) -> int:
    """Run a plan; if it breaks a promise, find the faults that it takes, and leave a trace."""
    outcome, trace, lines = run_plan(plan, traced=trace_file is not None)
    see_again = ""
    if outcome.violation and shrinks:
        kept = shrink(plan, outcome.violation)
        smaller = plan.keeping(kept)
        if len(kept) < len(plan.faults):
            outcome, trace, lines = run_plan(smaller, traced=trace_file is not None)
            see_again = f" --keep {','.join(map(str, kept)) or 'none'}"
        plan = smaller
    if trace_file is not None:
        if trace_file.suffix == ".log":
            write_file(trace_file, "\n".join(lines) + "\n")
        else:
            write_trace(trace, trace_file)
    if output == "json":
        print_json(asdict(outcome) | {"faults": [str(fault) for fault in plan.faults]})
    else:
        _print(outcome, plan)
        if outcome.violation:
            click.echo(f"{'see again':13} {outcome.command}{see_again} --trace seed.svg")
        if trace_file is not None:
            click.echo(f"{'trace':13} {trace_file}")
    return 1 if outcome.violation else 0


def _print(outcome: Outcome, plan: RunPlan) -> None:
    lines = {
        "seed": str(outcome.seed),
        "workload": f"{outcome.workload} {outcome.details}".strip(),
        "cluster": f"{plan.nodes} nodes, {plan.programs} programs, lease {plan.lease:g} s,"
        f" {1000 * plan.delay:.1f} ms one way",
        "virtual time": f"{number(outcome.time)} s, {outcome.turns:,} turns of event loops",
        "grants": f"{outcome.grants:,}",
        "digest": outcome.digest,
    }
    for name, value in lines.items():
        click.echo(f"{name:13} {value}")
    for name, count in outcome.counts.items():
        click.echo(f"{'':13} {name}: {count:,}")
    for fault in plan.faults:
        click.echo(f"{'fault':13} {fault}")
    if outcome.violation:
        click.echo(f"{'violation':13} {outcome.violation}: {outcome.text}")


class _Report:
    """What came of a campaign so far."""

    def __init__(self, seeds: int) -> None:
        self.runs = 0
        self.failures: list[Outcome] = []
        self._seeds = seeds
        self._seconds = 0.0
        self._turns = 0
        self._grants = 0
        self._workloads: Counter[str] = Counter()
        self._counts: Counter[str] = Counter()
        self._reached: dict[str, _Reached] = {}

    def read(self, outcomes: Iterable[Outcome]) -> None:
        line = ProgressLine()
        with contextlib.closing(line):
            for outcome in outcomes:
                self._add(outcome)
                if outcome.violation:
                    line.say(f"failed: {outcome.command}: {outcome.violation}: {outcome.text}")
                line.show(f"{self.runs:,} of {self._seeds:,} runs, {len(self.failures)} failed")

    def _add(self, outcome: Outcome) -> None:
        self.runs += 1
        self._seconds += outcome.time
        self._turns += outcome.turns
        self._grants += outcome.grants
        self._workloads[outcome.workload] += 1
        self._counts.update(outcome.counts)
        for name, visits in outcome.points.items():
            self._reached.setdefault(name, _Reached(outcome)).add(outcome, visits)
        if outcome.violation:
            self.failures.append(outcome)
            self.failures.sort(key=lambda failure: failure.seed)

    def facts(self) -> dict[str, Any]:
        return {
            "runs": self.runs,
            "virtual_seconds": self._seconds,
            "turns": self._turns,
            "grants": self._grants,
            "workloads": dict(sorted(self._workloads.items())),
            "counts": dict(sorted(self._counts.items())),
            "points": {name: reached.facts() for name, reached in self._points()},
            "failures": [asdict(failure) for failure in self.failures],
        }

    def _points(self) -> list[tuple[str, _Reached]]:
        """List all points, those in front that were reached least."""
        names = sorted({point.name for point in find_points()})
        found = [(name, self._reached.get(name, _Reached())) for name in names]
        return sorted(found, key=lambda pair: pair[1].seeds)

    def print(self, *, lists_points: bool) -> None:
        lines = {
            "runs": f"{self.runs:,}, {len(self.failures):,} of them failed",
            "virtual time": f"{number(self._seconds)} s, {self._turns:,} turns of event loops",
            "grants": f"{self._grants:,}",
            "workloads": _listed(self._workloads),
            "happened": _listed(self._counts),
            "points": f"{len(self._reached):,} of {len(self._points()):,} rare places reached"
            + ("" if lists_points else "; --points lists them"),
        }
        for name, value in lines.items():
            click.echo(f"{name:13} {value}")
        for name, reached in self._points() if lists_points else ():
            click.echo(f"{reached.seeds:13,} {name}{reached.where()}")
        for failure in self.failures[:FAILURES_SHOWN]:
            click.echo(f"{'failure':13} {failure.command}: {failure.violation}: {failure.text}")
        if len(self.failures) > FAILURES_SHOWN:
            click.echo(f"{'':13} and {len(self.failures) - FAILURES_SHOWN} more")


@dataclass
class _Reached:
    """What a campaign has seen of one point."""

    first: Outcome | None = None  # by its number, whatever the order in which runs have ended
    seeds: int = 0
    visits: int = 0

    def add(self, outcome: Outcome, visits: int) -> None:
        self.seeds += 1
        self.visits += visits
        if self.first is None or outcome.seed < self.first.seed:
            self.first = outcome

    def facts(self) -> dict[str, Any]:
        first = self.first and self.first.command
        return {"seeds": self.seeds, "visits": self.visits, "first": first}

    def where(self) -> str:
        if self.first is None:
            return ": never"
        words = f"{self.first.seed} ({self.first.workload} {self.first.details}".rstrip()
        return f": first by seed {words}), {self.visits:,} times in all"


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items())) or "-"


def _outcomes(
    run: Callable[[Chosen], Outcome], chosen: Iterable[Chosen], jobs: int
) -> Generator[Outcome, None, None]:
    """Run seeds, in this process or in several that end when this one does."""
    if jobs == 1:
        yield from map(run, chosen)
        return
    left = iter(chosen)
    with workers(jobs) as executor:
        running = {executor.submit(run, each) for each in itertools.islice(left, 2 * jobs)}
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()
                running |= {executor.submit(run, each) for each in itertools.islice(left, 1)}
