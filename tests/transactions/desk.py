"""One scheduler, asked by hand; and what all interleavings of a few transactions come to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from coterie.clocks import Stamp
from coterie.lab.serializability import check
from coterie.lab.trials.trial import Trial, explore
from coterie.transactions.schemes.scheduler import (
    EVERYTHING,
    Answer,
    Attempt,
    Declaration,
    Prepared,
    Scheduler,
    Value,
)
from tests.transactions.spread import Spread

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from coterie.transactions.schemes.span import Span


class Desk:
    """Gives the answers to each request, those to earlier ones that now went through included."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.time = 0

    def begin(
        self,
        *names: str,
        failures: int = 0,
        source: int = 1,
        time: int | None = None,
        declaration: Declaration = EVERYTHING,
    ) -> list[Answer]:
        out: list[Answer] = []
        for name in names:
            self.time = self.time + 1 if time is None else time
            stamp = Stamp(self.time, source)
            self.scheduler.begin(Attempt(name, stamp, stamp, failures, declaration), out)
        return out

    def read(self, name: str, key: str, *, update: bool = False) -> list[Answer]:
        out: list[Answer] = []
        self.scheduler.read(name, key, out, update=update)
        return out

    def scan(self, name: str, span: Span, limit: int | None = None) -> list[Answer]:
        out: list[Answer] = []
        self.scheduler.scan(name, span, limit, out)
        return out

    def write(self, name: str, key: str, value: Value) -> list[Answer]:
        out: list[Answer] = []
        self.scheduler.write(name, key, value, out)
        return out

    def prepare(self, name: str) -> list[Answer]:
        out: list[Answer] = []
        self.scheduler.prepare(name, out)
        return out

    def commit(self, name: str, number: Stamp) -> list[Answer]:
        out: list[Answer] = []
        self.scheduler.commit(name, number, out)
        return out

    def finish(self, name: str) -> list[Answer]:
        """Prepare and, if that is granted at once, commit."""
        answers = self.prepare(name)
        if answers and isinstance(answers[0], Prepared):
            return self.commit(name, answers[0].number)
        return answers

    def put(self, name: str, **values: bytes | None) -> None:
        """Let a transaction that reads nothing come and go."""
        self.begin(name)
        for key, value in values.items():
            self.write(name, key, value)
        self.finish(name)

    def promise(self, source: int, stamp: Stamp) -> list[Answer]:
        out: list[Answer] = []
        self.scheduler.promise(source, stamp, out)
        return out

    def abort(self, name: str) -> list[Answer]:
        out: list[Answer] = []
        self.scheduler.abort(name, out)
        return out


class Tally(NamedTuple):
    """The ends of all interleavings: how many, and what was found in them."""

    ends: int
    committed: int  # transactions, in all ends together
    refused: int
    stuck: int  # ends in which a transaction waits without end
    wrong: int  # ends that no serial order explains


def tally(ends: Iterable[Trial], before: int = 0) -> Tally:
    """Judge every end, but do not count the first few transactions, which ran before."""
    total = Tally(0, 0, 0, 0, 0)
    for end in ends:
        states = [runner.state for runner in end.runners.values()][before:]
        total = Tally(
            total.ends + 1,
            total.committed + states.count("committed"),
            total.refused + states.count("refused"),
            total.stuck + bool(end.waiting()),
            total.wrong + (not check(end.history()).serializable),
        )
    return total


def faulty(ends: Iterable[Trial]) -> bool:
    """Tell whether there is an end that no serial order explains; stop at the first."""
    return any(not check(end.history()).serializable for end in ends)


def states(trial: Trial) -> Iterator[Trial]:
    """Walk all states that any interleaving comes through."""
    yield trial
    for name in trial.movable():
        twin = trial.copy()
        twin.move(name)
        yield from states(twin)


def trial_of(scheduler: Scheduler, scripts: Sequence[str], keys: Sequence[str]) -> Trial:
    """Bring in the scripts as T1, T2, ..."""
    trial = Trial(scheduler, tuple(keys))
    for number, text in enumerate(scripts, start=1):
        trial.add(f"T{number}", number, text)
    return trial


def spread_over_two_sites(schedulers: list[Scheduler], scripts: Sequence[str]) -> Spread:
    """Bring in the scripts as T1, T2, ...; x is at the first site, y at the second."""
    spread = Spread(schedulers, ("x", "y"), homes={"x": 0, "y": 1})
    for number, text in enumerate(scripts, start=1):
        spread.add(f"T{number}", number, text)
    return spread


def all_orders(scheduler: Scheduler, scripts: Sequence[str], keys: Sequence[str]) -> Tally:
    """Run the scripts as T1, T2, ... in every interleaving."""
    return tally(explore(trial_of(scheduler, scripts, keys)))


def table_row(scripts: Sequence[str], variant: str, found: tuple[int, ...]) -> str:
    """Write the row of a page that states what an exploration has found."""
    cells = (" · ".join(f"`{script}`" for script in scripts), variant)
    return f"| {' | '.join((*cells, *(f'{count:,}' for count in found[:3])))} |"


def page(name: str) -> str:
    """Return the page of a scheme."""
    path = Path(__file__).parents[2] / "docs" / "transactions" / f"{name}.md"
    return path.read_text(encoding="utf-8")
