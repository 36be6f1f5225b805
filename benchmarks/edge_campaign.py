"""A campaign of all that has to hold at the edges of a cluster: python -m benchmarks.edge_campaign [--seeds N] [--minutes M].

All of it runs in the simulated world, on all cores: seeds of the mixed draw; seeds of each classic algorithm with
each kind of fault that it claims to tolerate; returns of the algorithm of 1996, of five nodes and of seven; and stores over sites
under each variant of each scheme, with faults and without, until so many commits were judged. Each part gets
its share of the time from the first minute on, so that a campaign that is ended early has seen something of all. The table says
what was seen, and each finding comes with the command that shows it again.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import signal
import statistics
import sys
import tempfile
import time
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from coterie.cli.common.progress import ProgressLine
from coterie.cli.lab.workers import workers
from coterie.lab.stack.campaign import (
    Outcome,
    classic_pairs,
    draw,
    run_plan,
    variants_of_schemes,
)
from coterie.lab.stack.world import memory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Executor

SAFETY = (
    "exclusion",
    "tokens",
    "told",
    "one decision",
    "adopted",
    "kept",
    "finished",
    "formed",
    "installation",
    "money",
    "serializable",
)
RETURNS = "classic-rejoins"
SIZES = (5, 7)  # of these
COMMITS_GUESS = 200  # of a run of a store, until one has come to its end
LAST_SECONDS = 60.0  # for what runs when the time is up
POLL_SECONDS = 0.5


class Run(NamedTuple):
    """A seed, and what is not left to its draw."""

    seed: int
    workload: str | None = None
    details: str | None = None
    calm: bool = False  # leaves all faults out


class Finding(NamedTuple):
    """What a run has shown, and how to see it again."""

    command: str
    name: str
    text: str


@dataclass
class Part:
    """One row of the table: runs until so many seeds or commits were seen."""

    name: str
    runs: Iterator[Run]
    goal: int
    counts_commits: bool = False
    seeds: int = 0
    running: int = 0
    grants: int = 0  # or commits
    findings: list[Finding] = field(default_factory=list)

    @property
    def share(self) -> float:
        """Say how much of the goal is reached when all that runs has ended."""
        if not self.counts_commits:
            return (self.seeds + self.running) / self.goal
        each = self.grants / self.seeds if self.seeds else COMMITS_GUESS
        return (self.grants + self.running * each) / self.goal

    def add(self, run: Run, outcome: Outcome) -> Finding | None:
        """Count a run that has ended; return what it has shown, if it broke a promise."""
        self.seeds += 1
        self.grants += outcome.counts["transactions"] if self.counts_commits else outcome.grants
        if not outcome.violation:
            return None
        command = outcome.command + (" --keep none" if run.calm else "")
        finding = Finding(command, outcome.violation, outcome.text)
        self.findings.append(finding)
        return finding

    @property
    def row(self) -> str:
        """Write the row."""
        unsafe = sum(finding.name in SAFETY for finding in self.findings)
        others = len(self.findings) - unsafe
        return f"| {self.name} | {self.seeds:,} | {self.grants:,} | {unsafe} | {others} |"


def parts(seeds: int, classics: int, returns: int, commits: int) -> list[Part]:
    """List all there is to see."""
    found = [Part("the mixed draw", map(Run, itertools.count()), seeds)]
    for workload, details in classic_pairs():
        found.append(Part(f"{details}, {workload}", runs_of(workload, details), classics))
    found += [Part(f"returns, N = {size}", returns_among(size), returns) for size in SIZES]
    for details in variants_of_schemes():
        for calm in (False, True):
            runs = runs_of("store-mixture", details, calm=calm)
            kind = "without faults" if calm else "with faults"
            found.append(Part(f"store, {details}, {kind}", runs, commits, counts_commits=True))
    return found


def runs_of(workload: str, details: str, *, calm: bool = False) -> Iterator[Run]:
    """Give a run of each seed."""
    return (Run(seed, workload, details, calm) for seed in itertools.count())


def returns_among(nodes: int) -> Iterator[Run]:
    """Give the runs of returns whose seeds draw so many nodes."""
    runs = (Run(seed, RETURNS) for seed in itertools.count())
    return (run for run in runs if draw(run.seed, RETURNS).nodes == nodes)


def perform(run: Run, folder: Path) -> Outcome:
    """Run a seed; a defect of the simulated world itself is a finding, too."""
    plan = draw(run.seed, run.workload, run.details)
    if run.calm:
        plan = plan.keeping(())
    try:
        return run_plan(plan, folder=folder)[0]
    except Exception as error:  # noqa: BLE001 - one run says nothing about the others
        outcome = Outcome(plan.seed, plan.workload, plan.details, "", 0.0, 0, 0, tls=plan.tls)
        text = f"{type(error).__name__}: {error}"
        return replace(outcome, violation="crash", text=text)


class Campaign:
    """All parts, and what of them runs now."""

    def __init__(self, chosen: list[Part], seconds: float, folder: Path) -> None:
        self.parts = chosen
        self.perform = partial(perform, folder=folder)
        self.deadline = time.monotonic() + seconds
        self.running: dict[Future[Outcome], tuple[Part, Run]] = {}
        self.ended_by = ""

    def run(self, jobs: int) -> None:
        """Carry out all of them, until the time is up or somebody interrupts."""
        try:
            with contextlib.closing(ProgressLine()) as line, workers(jobs) as executor:
                while self._hand_out(executor, jobs):
                    self._collect(line)
        except KeyboardInterrupt:
            self.ended_by = "an interrupt"
        except TimeoutError:
            self.ended_by = "runs that did not come to an end"
        except BrokenProcessPool:
            self.ended_by = "the death of a worker; was there enough memory?"

    def _hand_out(self, executor: Executor, jobs: int) -> bool:
        """Keep the workers busy; return whether anything runs."""
        while len(self.running) < 2 * jobs and time.monotonic() < self.deadline:
            part = min(self.parts, key=lambda part: part.share)  # the one that is least far
            if part.share >= 1:
                break
            run = next(part.runs)
            self.running[executor.submit(self.perform, run)] = part, run
            part.running += 1
        return bool(self.running)

    def _collect(self, line: ProgressLine) -> None:
        """Wait for a moment, and count what has ended."""
        if time.monotonic() > self.deadline + LAST_SECONDS:
            raise TimeoutError
        for future in wait(self.running, POLL_SECONDS, FIRST_COMPLETED).done:
            part, run = self.running.pop(future)
            part.running -= 1
            if finding := part.add(run, future.result()):
                line.say(f"{finding.command}: {finding.name}: {finding.text}")
        seeds = sum(part.seeds for part in self.parts)
        findings = sum(len(part.findings) for part in self.parts)
        share = statistics.mean(min(1, part.share) for part in self.parts)
        line.show(f"{seeds:,} seeds, {share:.0%} of all, {findings} findings")

    def print(self) -> None:
        """Print the table, and the findings with their commands."""
        print("| what | seeds | grants or commits | unsafe | other findings |")
        print("|---|---:|---:|---:|---:|")
        total = Part("all", iter(()), 1)
        for part in self.parts:
            print(part.row)
            total.seeds += part.seeds
            total.grants += part.grants
            total.findings += part.findings
        print(total.row)
        for finding in total.findings:
            print(f"{finding.command}: {finding.name}: {finding.text}")
        if self.ended_by:
            print(f"ended by {self.ended_by}; these ran:")
            for _, run in self.running.values():
                print(f"  {run}")
        elif any(part.share < 1 for part in self.parts):
            print("The time was up before all parts were complete.")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("--seeds", type=int, default=10_000, help="of the mixed draw")
    parser.add_argument("--classics", type=int, default=300, help="seeds of each pair")
    parser.add_argument("--returns", type=int, default=50, help="seeds of each size")
    parser.add_argument("--commits", type=int, default=2000, help="of each variant of a scheme")
    parser.add_argument("--minutes", type=float, default=60.0, help="after which no run begins")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the table is printed then, too
    chosen = parts(given.seeds, given.classics, given.returns, given.commits)
    with tempfile.TemporaryDirectory(prefix="coterie-edges-", dir=memory()) as folder:
        # Workers that are ended leave files behind, which are gone with this folder.
        campaign = Campaign(chosen, 60 * given.minutes, Path(folder))
        campaign.run(given.jobs)
    campaign.print()
    return 1 if campaign.ended_by or any(part.findings for part in chosen) else 0


if __name__ == "__main__":
    sys.exit(main())
