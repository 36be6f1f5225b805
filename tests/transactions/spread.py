"""Trials over several schedulers: keys have homes, and prepare and commit go to one site at a time."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Self

import msgspec

from coterie.lab.trials.trial import Runner, Trial
from coterie.transactions.schemes.scheduler import Answer, Prepared, Refused
from tests.transactions.storms import KEYS, OPERATIONS, script

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.clocks import Stamp
    from coterie.transactions.schemes.scheduler import Scheduler


class Spread(Trial):
    """A trial in which the `scheduler` is a list of them; a scan must stay at one site.

    Each transaction prepares and commits at its sites in the order in which it came to them. If one
    of them refuses, it is aborted at all others at once.
    """

    homes: dict[str, int] = {}  # the site of each key, from 0
    begun: dict[str, list[int]] = {}  # where each transaction has been
    votes: dict[str, int] = {}  # sites at which it is prepared
    decided: dict[str, int] = {}  # sites at which it has committed

    def copy(self) -> Self:
        twin = msgspec.convert(msgspec.to_builtins(self), type=type(self))
        twin.scheduler = [
            msgspec.convert(msgspec.to_builtins(one), type=type(one)) for one in self.scheduler
        ]
        return twin

    def abort(self, name: str) -> None:
        self.clock += 1
        out: list[Answer] = []
        self._end(self.runners[name], "aborted")
        self._abort_everywhere(name, out)
        self._hear(out)

    def move(self, name: str) -> list[Answer]:
        runner = self.runners[name]
        self.clock += 1
        runner.waiting = True
        runner.state = "running" if runner.state == "new" else runner.state
        out: list[Answer] = []
        if runner.state == "prepared":
            self._commit_next(runner, out)
        elif runner.next == len(runner.script):
            self._prepare_next(runner, out)
        else:
            self._access_at_home(runner, out)
        self._hear(out)
        return out

    def _access_at_home(self, runner: Runner, out: list[Answer]) -> None:
        request = runner.script[runner.next]
        name, home = runner.attempt.name, self.homes.get(request.key, 0)
        sites = self.begun.setdefault(name, [])
        if home not in sites:
            sites.append(home)
            self.scheduler[home].begin(runner.attempt, out)
        runner.next += 1
        everywhere, self.scheduler = self.scheduler, self.scheduler[home]
        self._access(runner, request, out)
        self.scheduler = everywhere

    def _prepare_next(self, runner: Runner, out: list[Answer]) -> None:
        name = runner.attempt.name
        site = self.begun[name][self.votes.get(name, 0)]
        self.scheduler[site].prepare(name, out)

    def _commit_next(self, runner: Runner, out: list[Answer]) -> None:
        name = runner.attempt.name
        done = self.decided[name] = self.decided.get(name, 0) + 1
        committed: list[Answer] = []
        site = self.begun[name][done - 1]
        self.scheduler[site].commit(name, runner.number, committed)
        if done < len(self.begun[name]):
            runner.waiting = False
            committed = [answer for answer in committed if answer.transaction != name]
        out += committed

    def _hear(self, answers: Sequence[Answer]) -> None:
        for answer in answers:
            name = answer.transaction
            runner = self.runners[name]
            if isinstance(answer, Prepared):
                self._count(runner, answer.number)
                continue
            super()._hear([answer])
            if isinstance(answer, Refused):
                out: list[Answer] = []
                self._abort_everywhere(name, out)
                self._hear(out)

    def _count(self, runner: Runner, number: Stamp) -> None:
        name = runner.attempt.name
        runner.waiting = False
        runner.number = max(number, runner.number or number)
        self.votes[name] = self.votes.get(name, 0) + 1
        if self.votes[name] == len(self.begun[name]):
            runner.state = "prepared"

    def _abort_everywhere(self, name: str, out: list[Answer]) -> None:
        for site in self.begun.get(name, []):
            if name in self.scheduler[site].active:
                self.scheduler[site].abort(name, out)


def spread_storm(
    schedulers: list[Scheduler],
    seed: int,
    *,
    clients: int = 4,
    transactions: int = 16,
    aborts: float = 0.02,
    tries: int = 12,
) -> Spread:
    """Run random transactions of a few clients over several sites, as `storm` does over one."""
    dice = random.Random(seed)
    homes = {key: place % len(schedulers) for place, key in enumerate(KEYS)}
    operations = tuple(op for op in OPERATIONS if op != "s")
    spread = Spread(schedulers, KEYS, homes=homes)
    stamp, left = 0, transactions
    current: list[tuple[str, str, int, int] | None] = [None] * clients  # name, script, age, tries
    while True:
        for client, work in enumerate(current):
            state = spread.runners[work[0]].state if work else "committed"
            if state not in ("committed", "aborted", "refused"):
                continue
            stamp += 1
            current[client] = None
            if work and state == "refused" and work[3] < tries:
                current[client] = fresh = (f"T{stamp}", work[1], work[2], work[3] + 1)
            elif left:
                left -= 1
                current[client] = fresh = (f"T{stamp}", script(dice, operations), stamp, 0)
            else:
                continue
            spread.add(fresh[0], stamp, fresh[1], age=fresh[2], failures=fresh[3])
        movable = spread.movable()
        if not movable:
            return spread
        if dice.random() < aborts:
            undecided = [n for n in movable if spread.runners[n].state != "prepared"]
            if undecided:
                spread.abort(dice.choice(undecided))
        else:
            spread.move(dice.choice(movable))
