"""Driving the stamp-ordered schemes by hand, watching every wait, and running them at random."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import msgspec

from coterie.clocks import Stamp
from coterie.lab.trials.trial import Trial, explore
from coterie.transactions.schemes.multiversion import Multiversion
from coterie.transactions.schemes.scheduler import (
    BEGINNING,
    EVERYTHING,
    Accepted,
    Active,
    Answer,
    Attempt,
    Committed,
    Declaration,
    Found,
    Listed,
    Prepared,
    Refused,
)
from coterie.transactions.schemes.span import Span
from coterie.transactions.schemes.thomas_write_rule import ThomasWriteRule
from coterie.transactions.schemes.timestamp_ordering import TimestampOrdering
from coterie.transactions.schemes.timestamp_ordering.stamp_ordered import StampOrdered
from tests.transactions.desk import Tally, tally
from tests.transactions.storms import KEYS, script

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from coterie.transactions.schemes.timestamp_ordering.stamp_ordered import Request

SCHEMES: dict[str, type[StampOrdered]] = {
    "timestamp-ordering": TimestampOrdering,
    "thomas-write-rule": ThomasWriteRule,
    "multiversion": Multiversion,
}


def assert_downhill(scheduler: StampOrdered) -> None:
    """Whoever waits, waits for somebody under way whose stamp is smaller."""
    edges = scheduler.waits()
    assert list(edges) == list(scheduler.waiting)
    for name, others in edges.items():
        assert others, f"{name} waits for nobody"
        for other in others:
            assert scheduler.active[other].attempt.stamp < scheduler.active[name].attempt.stamp


class Watched(StampOrdered):
    """A scheme whose waits are looked at after every request."""

    def _ask(self, active: Active, request: Request, out: list[Answer]) -> None:
        super()._ask(active, request, out)
        assert_downhill(self)

    def _go_on(self, ended: list[Active], out: list[Answer]) -> None:
        super()._go_on(ended, out)
        assert_downhill(self)


class WatchedTimestampOrdering(Watched, TimestampOrdering):
    pass


class WatchedThomasWriteRule(Watched, ThomasWriteRule):
    pass


class WatchedMultiversion(Watched, Multiversion):
    """It drops nothing, since a second site never promises anything."""

    promises: list[Stamp] = msgspec.field(default_factory=lambda: [BEGINNING, BEGINNING])


class CollectingMultiversion(Watched, Multiversion):
    """It drops versions at every opportunity.

    Trials give out stamps before the transactions begin, so that some of them come too late.
    """

    def _go_on(self, ended: list[Active], out: list[Answer]) -> None:
        super()._go_on(ended, out)
        self.collect()


WATCHED: dict[str, type[StampOrdered]] = {
    "timestamp-ordering": WatchedTimestampOrdering,
    "thomas-write-rule": WatchedThomasWriteRule,
    "multiversion": WatchedMultiversion,
    "multiversion, collecting": CollectingMultiversion,
}


class Hand:
    """Transactions T10, T20, ... by their stamps, one request at a time; all waits are watched.

    Each request returns what was answered, to whomever, in words. Whoever is new begins.
    """

    def __init__(self, scheduler: StampOrdered) -> None:
        self.scheduler = scheduler
        self.begun: set[int] = set()
        self.refusals: list[Refused] = []

    def begin(self, stamp: int, failures: int = 0, declaration: Declaration = EVERYTHING) -> None:
        self.begun.add(stamp)
        first = Stamp(stamp, 1)
        attempt = Attempt(f"T{stamp}", first, first, failures, declaration)
        self.scheduler.begin(attempt, [])

    def read(self, stamp: int, key: str) -> list[str]:
        out = self._out(stamp)
        self.scheduler.read(f"T{stamp}", key, out)
        return self._told(out)

    def scan(self, stamp: int, low: str, high: str, limit: int | None = None) -> list[str]:
        out = self._out(stamp)
        self.scheduler.scan(f"T{stamp}", Span(low, high), limit, out)
        return self._told(out)

    def write(self, stamp: int, key: str, value: str) -> list[str]:
        out = self._out(stamp)
        self.scheduler.write(f"T{stamp}", key, value.encode(), out)
        return self._told(out)

    def delete(self, stamp: int, key: str) -> list[str]:
        out = self._out(stamp)
        self.scheduler.write(f"T{stamp}", key, None, out)
        return self._told(out)

    def prepare(self, stamp: int) -> list[str]:
        out = self._out(stamp)
        self.scheduler.prepare(f"T{stamp}", out)
        return self._told(out)

    def commit(self, stamp: int) -> list[str]:
        """Prepare and commit; what is answered to prepare is a matter of course."""
        active = self.scheduler.active[f"T{stamp}"]
        if not active.prepared:
            assert self.prepare(stamp) == [f"T{stamp} is prepared"]
        out: list[Answer] = []
        self.scheduler.commit(f"T{stamp}", Stamp(stamp, 1), out)
        return self._told(out)

    def abort(self, stamp: int) -> list[str]:
        out = self._out(stamp)
        self.scheduler.abort(f"T{stamp}", out)
        return self._told(out)

    def put(self, stamp: int, **values: str) -> None:
        """Run a transaction that writes these."""
        for key, value in values.items():
            assert self.write(stamp, key, value) == [f"T{stamp} may write"]
        assert self.commit(stamp)[0] == f"T{stamp} has committed"

    def latest(self) -> dict[str, str]:
        """Tell what is there in the end."""
        items = self.scheduler.latest()
        return {key: item.value.decode() for key, item in items if item.value is not None}

    def waits(self) -> dict[str, tuple[str, ...]]:
        return self.scheduler.waits()

    def restart(self, now: int) -> None:
        """End the site and bring it back with what it has on disk."""
        self.scheduler = restarted(self.scheduler, Stamp(now, 1))

    def _out(self, stamp: int) -> list[Answer]:
        if stamp not in self.begun:
            self.begin(stamp)
        return []

    def _told(self, out: list[Answer]) -> list[str]:
        assert_downhill(self.scheduler)
        self.refusals += [answer for answer in out if isinstance(answer, Refused)]
        return [words(answer) for answer in out]


def words(answer: Answer) -> str:
    match answer:
        case Found(name):
            return f"{name} sees {shown(answer)}"
        case Listed(name, items):
            return f"{name} lists {' '.join(shown(item) for item in items) or 'nothing'}"
        case Accepted(name):
            return f"{name} may write"
        case Prepared(name):
            return f"{name} is prepared"
        case Committed(name):
            return f"{name} has committed"
        case Refused(name, rule, keys, others):
            return f"{name} refused: {rule}: {' '.join((*keys, *others))}"


def shown(found: Found) -> str:
    if found.value is not None:
        return f"{found.key}={found.value.decode()}"
    return f"no {found.key}" if found.number is None else f"{found.key} deleted"


def restarted(scheduler: StampOrdered, now: Stamp) -> StampOrdered:
    """Give the scheduler of a site that ended and has only what it had put on disk."""
    twin = type(scheduler)()
    twin.restore(list(scheduler.latest()), now)
    for active in scheduler.active.values():
        if active.prepared:
            twin.reinstate(active.attempt, active.attempt.stamp, active.writes, ())
    return twin


class RestartingTrial(Trial):
    """A trial whose site may end and come back."""

    def restart(self) -> None:
        """End the site and bring it back; what is not prepared is gone."""
        begun = [runner for runner in self.runners.values() if runner.state != "new"]
        now = max((runner.attempt.stamp for runner in begun), default=BEGINNING)
        self.scheduler = restarted(self.scheduler, now)
        for runner in begun:
            if runner.state == "running":
                self._end(runner, "aborted")


def prepared_trial(
    scheduler: StampOrdered, scripts: Sequence[str], first: str = ""
) -> RestartingTrial:
    """Bring in transactions of stamps 10, 20, ...; another one may have run before."""
    trial = RestartingTrial(scheduler, ("a", "b", "c", "x", "y"))
    if first:
        trial.add("T1", 1, first)
        while not trial.runners["T1"].over:
            trial.move("T1")
    for place, text in enumerate(scripts, start=1):
        trial.add(f"T{place}0", place * 10, text)
    return trial


def outcomes(trial: Trial) -> list[str]:
    return [runner.state for runner in trial.runners.values()]


def explore_restarts(trial: RestartingTrial) -> Iterator[Trial]:
    """Make all moves in all orders, and restart the site once at every moment."""
    twin = trial.copy()
    twin.restart()
    yield from explore(twin)
    for name in trial.movable():
        twin = trial.copy()
        twin.move(name)
        yield from explore_restarts(twin)


def stormy_restarts(scheduler: StampOrdered, seed: int) -> Trial:
    """Run transactions while the site ends and comes back now and then.

    Whoever is prepared then stays prepared; everybody else is gone.
    """
    dice = random.Random(seed)
    trial = RestartingTrial(scheduler, KEYS)
    for stamp in range(1, 31):
        trial.add(f"T{stamp}", stamp, script(dice))
        for _ in range(4):
            if movable := trial.movable():
                trial.move(dice.choice(movable))
        if dice.random() < 0.2:
            trial.restart()
    while movable := trial.movable():
        trial.move(dice.choice(movable))
    return trial


def ends(
    scheduler: StampOrdered, first: str, scripts: Sequence[str], *, restart: bool = False
) -> Tally:
    """Run transactions of stamps 10, 20, ... in all orders, after one that ran alone.

    With `restart` the site ends and comes back once, at every possible moment.
    """
    trial = prepared_trial(scheduler, scripts, first)
    return tally(explore_restarts(trial) if restart else explore(trial), before=bool(first))


RESTARTED = ("circle of two", "circle through a gap")  # histories worth a restart

# Small histories, each with what runs before them.
HISTORIES: dict[str, tuple[str, tuple[str, ...]]] = {
    "lost update": ("", ("r(x) w(x)", "r(x) w(x)")),
    "write skew": ("w(x) w(y)", ("r(x) r(y) w(x)", "r(x) r(y) w(y)")),
    "blind writes": ("", ("w(x) w(y)", "w(y) w(x)")),
    "read between writes": ("", ("w(x)", "r(x)", "w(x)")),
    "chain of reads": ("w(x)", ("w(x)", "r(x) w(y)", "r(y)")),
    "write that aborts": ("w(x)", ("w(x) a", "r(x) w(y)", "w(x)")),
    "insertions into scans": ("", ("s(a,c) w(a)", "s(a,c) w(b)")),
    "deletion under a scan": ("w(a) w(b)", ("s(a,c) w(c)", "d(a)", "r(c)")),
    "delete and put again": ("w(a)", ("d(a)", "s(,)", "w(a)")),
    "reader between writers": ("w(x) w(y)", ("w(x) w(y)", "r(x) r(y)", "w(y)")),
    "circle of two": ("w(x) w(y)", ("r(y) w(x)", "r(x) w(y)")),
    "circle through a gap": ("w(y)", ("r(y) w(x)", "r(x) w(y)")),
    "circle of three": ("", ("r(x) w(y)", "r(y) w(x)", "r(x)")),
    "circle of writes": ("", ("r(a) w(b)", "r(b) w(c)", "r(c) w(a)")),
    "insertion that aborts": ("", ("r(y) w(x)", "r(x) w(y)", "w(x) a")),
    "two scans": ("w(a)", ("s(a,b) w(b)", "s(b,c) w(a)")),
}
