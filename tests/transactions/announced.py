"""Trials over several sites whose transactions are announced: they begin in the order of stamps."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from coterie.clocks import Stamp
from coterie.lab.trials.trial import Runner, declaration, program
from coterie.transactions.schemes.scheduler import Answer, Attempt
from tests.transactions.spread import Spread
from tests.transactions.storms import KEYS, OPERATIONS, script

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.transactions.schemes.scheduler import Scheduler


class Announced(Spread):
    """A trial in which transactions begin wherever they will come to, and sites promise on demand.

    Every site is a source of transactions. Those of one source begin in the order of their stamps:
    whoever moves lets all older ones of its source begin before. A site promises what it is asked
    for as soon as it has nothing smaller to begin.
    """

    nulls: int = 0  # promises that were sent

    def join(self, name: str, time: int, source: int, text: str) -> None:
        """Bring in a transaction of a site, numbered from 1."""
        stamp, script = Stamp(time, source), program(text)
        self.runners[name] = Runner(Attempt(name, stamp, stamp, 0, declaration(script)), script)

    def move(self, name: str) -> list[Answer]:
        if self.runners[name].state == "new":
            self.begin(name)
        answers = super().move(name)
        return answers + self.keep_promises()

    def begin(self, name: str) -> None:
        last = self.runners[name].attempt.stamp
        new = [r.attempt for r in self.runners.values() if r.state == "new"]
        due = [a for a in new if a.stamp.process == last.process and a.stamp <= last]
        for attempt in sorted(due, key=lambda attempt: attempt.stamp):
            runner = self.runners[attempt.name]
            runner.state = "running"
            homes = sorted({self.homes[r.key] for r in runner.script if r.key})
            self.begun[attempt.name] = homes
            for home in homes:
                out: list[Answer] = []
                self.scheduler[home].begin(attempt, out)
                self._hear(out)

    def abort(self, name: str) -> None:
        super().abort(name)
        self.keep_promises()

    def promise(self, site: int, source: int, stamp: Stamp) -> None:
        """Let a source promise something to a site, whether it can keep that or not."""
        out: list[Answer] = []
        self.scheduler[site - 1].promise(source, stamp, out)
        self._hear(out)

    def keep_promises(self) -> list[Answer]:
        """Let every site that is waited for promise, if it can; give the answers that came of it."""
        answers: list[Answer] = []
        for scheduler in self.scheduler:
            for source, stamp in scheduler.awaited():
                if not any(
                    self._is_coming(runner, source, stamp) for runner in self.runners.values()
                ):
                    out: list[Answer] = []
                    scheduler.promise(source, stamp, out)
                    self.nulls += 1
                    self._hear(out)
                    answers += out
        return answers

    def _is_coming(self, runner: Runner, source: int, limit: Stamp) -> bool:
        stamp = runner.attempt.stamp
        return runner.state == "new" and stamp.process == source and stamp <= limit


def announced_at_two_sites(schedulers: list[Scheduler], scripts: Sequence[str]) -> Announced:
    """Let two sites begin the scripts in turn; x is at the first of them, y at the second."""
    trial = Announced(schedulers, ("x", "y"), homes={"x": 0, "y": 1})
    for number, text in enumerate(scripts):
        trial.join(f"T{number + 1}", number // 2 + 1, number % 2 + 1, text)
    return trial


def announced_storm(
    schedulers: list[Scheduler], seed: int, *, transactions: int = 16, aborts: float = 0.02
) -> Announced:
    """Run random transactions of all sites; a few of them are under way at a time."""
    dice = random.Random(seed)
    sites = len(schedulers)
    homes = {key: place % sites for place, key in enumerate(KEYS)}
    operations = tuple(op for op in OPERATIONS if op != "s")
    trial = Announced(schedulers, KEYS, homes=homes)
    clocks = [0] * sites
    left = transactions
    while True:
        while left and len(trial.movable()) + len(trial.waiting()) < 4:
            left -= 1
            source = dice.randrange(sites)
            clocks[source] = max(clocks[source] + 1, _promised(trial, source) + 1)
            stamp = Stamp(clocks[source], source + 1)
            trial.join(f"T{stamp}", *stamp, script(dice, operations))
        movable = trial.movable()
        if not movable:
            return trial
        name = dice.choice(movable)
        if dice.random() < aborts and trial.runners[name].state == "running":
            trial.abort(name)
        else:
            trial.move(name)


def _promised(trial: Announced, source: int) -> int:
    """Give the time of the largest promise of a source, which its clock must exceed."""
    promises: list[Stamp] = [scheduler.promises[source] for scheduler in trial.scheduler]
    return max(promise.time for promise in promises)
