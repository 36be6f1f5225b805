"""Timestamp ordering in all interleavings of small histories, in storms, and with rules broken."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from coterie.transactions.schemes.timestamp_ordering import TimestampOrdering
from coterie.transactions.serializability import check
from tests.transactions import test_timestamp_ordering as rules
from tests.transactions.stamped import (
    HISTORIES,
    SCHEMES,
    Ends,
    Hand,
    WatchedTimestampOrdering,
    ends,
    explored_figures,
    outcomes,
    page,
    stormy_restarts,
)
from tests.transactions.stamped_mutants import Case, break_rule, noticed
from tests.transactions.storms import storm

if TYPE_CHECKING:
    from collections.abc import Callable

NAME = "timestamp-ordering"
EXPLORED = {
    "lost update": Ends(schedules=17, committed=20, refused=14),
    "write skew": Ends(schedules=58, committed=61, refused=55),
    "blind writes": Ends(schedules=70, committed=135, refused=5),
    "read between writes": Ends(schedules=353, committed=934, refused=125),
    "chain of reads": Ends(schedules=230, committed=434, refused=256),
    "write that aborts": Ends(schedules=388, committed=765, refused=233),
    "insertions into scans": Ends(schedules=17, committed=20, refused=14),
    "deletion under a scan": Ends(schedules=841, committed=2039, refused=484),
    "delete and put again": Ends(schedules=353, committed=934, refused=125),
    "reader between writers": Ends(schedules=868, committed=2144, refused=460),
    "circle of two": Ends(schedules=17, committed=20, refused=14),
    "circle through a gap": Ends(schedules=17, committed=20, refused=14),
    "circle of three": Ends(schedules=506, committed=866, refused=652),
    "circle of writes": Ends(schedules=1082, committed=1856, refused=1390),
    "insertion that aborts": Ends(schedules=520, committed=655, refused=385),
    "two scans": Ends(schedules=17, committed=20, refused=14),
}
RESTARTS = {
    "circle of two": Ends(schedules=86, committed=83, refused=50),
    "circle through a gap": Ends(schedules=86, committed=83, refused=50),
}
MUTANTS = {
    "a late read is granted": Case(
        "timestamp_ordering.rules",
        "if cell.overtaken(stamp):\n            return self._overtaken(",
        "if False:\n            return self._overtaken(",
    ),
    "a write behind a later read is granted": Case(
        "timestamp_ordering.rules", "if stamp < cell.read:", "if False:"
    ),
    "a write behind a later write is granted": Case(
        "timestamp_ordering.rules",
        "if cell.overtaken(stamp):\n                return self._place_behind(",
        "if False:\n                return self._place_behind(",
    ),
    "reads wait for nobody": Case(
        "timestamp_ordering.rules", "return None if cell.blocks(stamp) else cell", "return cell"
    ),
    "reads wait for later writes, too": Case(
        "timestamp_ordering.cell", " and self.pending[0].stamp < stamp", ""
    ),
    "writes are installed as they come": Case(
        "timestamp_ordering.cell",
        "while place and stamp < self.pending[place - 1].stamp:",
        "while False:",
    ),
    "reads that waited are not decided again": Case(
        "timestamp_ordering.rules",
        "if cell.readers:  # whoever",
        "if False:  # whoever",
    ),
    "the wrong readers are woken": Case(
        "timestamp_ordering.rules",
        "if first is None or stamp < first.stamp]",
        "if first is None or stamp > first.stamp]",
    ),
    "aborts lower read stamps": Case(
        "timestamp_ordering.rules",
        "        self._stop_waiting(active)\n",
        "        self._stop_waiting(active)\n"
        "        for cell in self.table.items.values():\n"
        "            cell.read = BEGINNING if cell.reader == active.attempt.name else cell.read\n",
    ),
    "keys that are not there leave no trace": Case(
        "timestamp_ordering.reading", "self.unwritten.mark(self.span, active.attempt.stamp)", "pass"
    ),
    "an insertion looks at no read stamp": Case(
        "timestamp_ordering.rules",
        "cell = Cell(read=self.unwritten.at(key))\n            if",
        "cell = Cell()\n            if",
    ),
    "keys that are there leave no trace": Case(
        "timestamp_ordering.reading",
        "        sight.note(active)\n        if item",
        "        if item",
    ),
    "scans leave no trace between keys": Case(
        "timestamp_ordering.reading",
        "self.unwritten.mark(listed.covered, active.attempt.stamp)",
        "pass",
    ),
    "scans leave no trace at keys": Case(
        "timestamp_ordering.reading",
        "for sight in seen:\n            sight.note(active)\n",
        "seen.clear()\n",
    ),
    "scans wait for nobody": Case(
        "timestamp_ordering.reading",
        "                if sight is None:\n"
        "                    self._wait(active, request, key)\n"
        "                    return None\n",
        "                if sight is None:\n                    continue\n",
    ),
    "a key whose insertion aborts forgets who read it": Case(
        "timestamp_ordering.rules", "self.unwritten.mark(Span.of(key), cell.read)", "pass"
    ),
    "a restart loses the read stamps of keys": Case(
        "timestamp_ordering.rules", "Cell(item, read=now)", "Cell(item)"
    ),
    "a restart loses the read stamps between keys": Case(
        "timestamp_ordering.rules", "self.unwritten.mark(Span(), now)", "pass"
    ),
    "a restart loses prepared writes": Case(
        "timestamp_ordering.rules", "if not cell.overtaken(active.attempt.stamp):", "if False:"
    ),
    "a prepared write comes back over a later one": Case(
        "timestamp_ordering.rules", "if not cell.overtaken(active.attempt.stamp):", "if True:"
    ),
    "whoever waits and gives up is still expected": Case(
        "timestamp_ordering.reading", ".readers.remove(active.attempt.name)", ".readers.copy()"
    ),
    "whoever is refused keeps its pending writes": Case(
        "timestamp_ordering.stamp_ordered",
        "            self._withdraw(active)\n            ended",
        "            ended",
    ),
    "whoever waited for the refused waits for ever": Case(
        "timestamp_ordering.stamp_ordered", "            ended.append(active)\n", ""
    ),
    "reservations hold back smaller stamps, too": Case(
        "timestamp_ordering.stamp_ordered", "if attempt.stamp < stamp and", "if"
    ),
    "whoever was held back by a reservation waits for ever": Case(
        "timestamp_ordering.stamp_ordered", "self._again(held, ended, out)", "pass"
    ),
}

# Rules that only time or bad luck put to the test, so that scripts have to: T4 comes late to keys
# that are forgotten, and T30 meets a reservation.
SCRIPTED_MUTANTS: dict[str, tuple[Case, Callable[[], None]]] = {
    "who comes late reads what is forgotten": (
        Case("timestamp_ordering.graves", "elif self.buried < stamp:", "elif False:"),
        lambda: rules.test_deletions_are_forgotten_in_bulk_and_older_stamps_refused(NAME),
    ),
    "who comes late writes what is forgotten": (
        Case(
            "timestamp_ordering.stamp_ordered",
            "self.unwritten.mark(Span(), self.graves.buried)",
            "pass",
        ),
        lambda: rules.test_deletions_are_forgotten_in_bulk_and_older_stamps_refused(NAME),
    ),
    "deletions are forgotten under those who may ask": (
        Case("timestamp_ordering.rules", "if cell.pending or newest > bound:", "if cell.pending:"),
        lambda: rules.test_deletions_are_forgotten_in_bulk_and_older_stamps_refused(NAME),
    ),
    "reservations hold nobody back": (
        Case(
            "timestamp_ordering.stamp_ordered",
            "return any(request.span.meets(span) for span in spans)",
            "return not spans",
        ),
        lambda: rules.test_a_reservation_holds_back_what_meets_the_declaration_and_is_later(
            Hand(TimestampOrdering())
        ),
    ),
    "a limited scan counts as a whole one": (
        Case("timestamp_ordering.reading", "mark(listed.covered,", "mark(request.span,"),
        lambda: rules.test_a_limited_scan_protects_only_what_it_has_seen(Hand(TimestampOrdering())),
    ),
}


@pytest.mark.parametrize("history", HISTORIES)
def test_all_interleavings_are_serializable_and_nobody_is_stuck(history: str) -> None:
    """2.2 a to f, i; every wait goes from a larger to a smaller stamp."""
    first, scripts = HISTORIES[history]
    assert ends(WatchedTimestampOrdering(), scripts, first) == EXPLORED[history]


@pytest.mark.parametrize("history", RESTARTS)
def test_all_interleavings_with_a_restart_are_serializable(history: str) -> None:
    """2.2 e."""
    first, scripts = HISTORIES[history]
    assert ends(WatchedTimestampOrdering(), scripts, first, restart=True) == RESTARTS[history]


@pytest.mark.parametrize("aborts", [0.0, 0.03, 0.3])
def test_storms_are_serializable_and_leave_nothing_behind(aborts: float) -> None:
    """2.2 b: nobody who commits has read from somebody who aborts."""
    committed = 0
    for seed in range(300):
        trial = storm(WatchedTimestampOrdering(patience=seed % 6), seed, aborts=aborts)
        report = check(trial.history())
        assert report.serializable, f"seed {seed}: {report}"
        scheduler = trial.scheduler
        left = [trial.waiting(), scheduler.active, scheduler.waiting, scheduler.reserved]
        left += [cell.pending + cell.readers for cell in scheduler.table.items.values()]
        assert not any(left), f"seed {seed}"
        committed += outcomes(trial).count("committed")
    assert committed > 1000


def test_storms_with_restarts_are_serializable() -> None:
    """2.2 e."""
    for seed in range(300):
        trial = stormy_restarts(WatchedTimestampOrdering(), seed)
        assert not trial.waiting(), f"seed {seed}"
        report = check(trial.history())
        assert report.serializable, f"seed {seed}: {report}"


@pytest.mark.parametrize("scheme", SCHEMES)
def test_whoever_has_made_a_reservation_is_never_refused(scheme: str) -> None:
    """2.2 g: at one site, where all begin in the order of their stamps."""
    reserving = 0
    for seed in range(100):
        trial = storm(SCHEMES[scheme](patience=2), seed, in_order=True, aborts=0)
        for runner in trial.runners.values():
            if runner.attempt.failures >= 2:
                assert runner.state == "committed", f"seed {seed}"
                reserving += 1
    assert reserving > 100


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_rule_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    break_rule(MUTANTS[name], monkeypatch)
    assert noticed("timestamp-ordering")


@pytest.mark.parametrize("name", SCRIPTED_MUTANTS)
def test_a_broken_rule_fails_its_script(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case, script = SCRIPTED_MUTANTS[name]
    script()
    break_rule(case, monkeypatch)
    with pytest.raises(AssertionError):
        script()


def test_nothing_is_noticed_where_nothing_is_broken() -> None:
    assert not noticed("timestamp-ordering")


def test_the_page_tells_what_was_explored() -> None:
    assert explored_figures(EXPLORED) in page("timestamp-ordering")
    broken = len(MUTANTS) + len(SCRIPTED_MUTANTS)
    assert f"{broken} rules broken one at a time" in page("timestamp-ordering")
