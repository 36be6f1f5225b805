"""Timestamp ordering with rules broken, and whether a reservation is of use in storms."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from coterie.transactions.schemes.timestamp_ordering import TimestampOrdering
from coterie.transactions.schemes.timestamp_ordering.deletions import Deletions
from coterie.transactions.schemes.timestamp_ordering.rules import Cell
from coterie.transactions.schemes.timestamp_ordering.stamp_ordered import Gap, StampOrdered
from tests.transactions import test_timestamp_ordering as rules
from tests.transactions.desk import page
from tests.transactions.mutants import Mutant, break_rule
from tests.transactions.stamped import SCHEMES, Hand
from tests.transactions.storms import storm

if TYPE_CHECKING:
    from collections.abc import Callable

NAME = "timestamp-ordering"
MUTANTS = {
    "a late read is granted": Mutant(
        TimestampOrdering,
        "if cell.overtaken(stamp):\n            return self._overtaken(",
        "if False:\n            return self._overtaken(",
    ),
    "a write behind a later read is granted": Mutant(
        TimestampOrdering, "if stamp < cell.read:", "if False:"
    ),
    "a write behind a later write is granted": Mutant(
        TimestampOrdering,
        "if cell.overtaken(stamp):\n                return self._place_behind(",
        "if False:\n                return self._place_behind(",
    ),
    "reads wait for nobody": Mutant(
        TimestampOrdering, "return None if cell.blocks(stamp) else cell", "return cell"
    ),
    "reads wait for later writes, too": Mutant(Cell, " and self.pending[0].stamp < stamp", ""),
    "writes are installed as they come": Mutant(
        Cell,
        "while place and stamp < self.pending[place - 1].stamp:",
        "while False:",
    ),
    "reads that waited are not decided again": Mutant(
        TimestampOrdering,
        "if cell.readers:  # those",
        "if False:  # those",
    ),
    "the wrong readers are woken": Mutant(
        TimestampOrdering,
        "if first is None or stamp < first.stamp]",
        "if first is None or stamp > first.stamp]",
    ),
    "aborts lower read stamps": Mutant(
        TimestampOrdering,
        "        self._stop_waiting(active)\n",
        "        self._stop_waiting(active)\n"
        "        for cell in self.table.items.values():\n"
        "            cell.read = BEGINNING if cell.reader == active.attempt.name else cell.read\n",
    ),
    "keys that are not there leave no trace": Mutant(
        Gap, "self.unwritten.mark(self.span, active.attempt.stamp)", "pass"
    ),
    "an insertion looks at no read stamp": Mutant(
        TimestampOrdering,
        "cell = Cell(read=self.unwritten.at(key))\n            if",
        "cell = Cell()\n            if",
    ),
    "keys that are there leave no trace": Mutant(
        StampOrdered,
        "        sight.note(active)\n        if item",
        "        if item",
    ),
    "scans leave no trace between keys": Mutant(
        StampOrdered,
        "self.unwritten.mark(listed.covered, active.attempt.stamp)",
        "pass",
    ),
    "scans leave no trace at keys": Mutant(
        StampOrdered,
        "for sight in seen:\n            sight.note(active)\n",
        "seen.clear()\n",
    ),
    "scans wait for nobody": Mutant(
        StampOrdered,
        "                if sight is None:\n"
        "                    self._wait(active, request, key)\n"
        "                    return None\n",
        "                if sight is None:\n                    continue\n",
    ),
    "a key whose insertion aborts forgets who read it": Mutant(
        TimestampOrdering, "self.unwritten.mark(Span.of(key), cell.read)", "pass"
    ),
    "a restart loses the read stamps of keys": Mutant(
        TimestampOrdering, "Cell(item, read=now)", "Cell(item)"
    ),
    "a restart loses the read stamps between keys": Mutant(
        TimestampOrdering, "self.unwritten.mark(Span(), now)", "pass"
    ),
    "a restart loses prepared writes": Mutant(
        TimestampOrdering, "if not cell.overtaken(active.attempt.stamp):", "if False:"
    ),
    "a prepared write comes back over a later one": Mutant(
        TimestampOrdering, "if not cell.overtaken(active.attempt.stamp):", "if True:"
    ),
    "whoever waits and gives up is still expected": Mutant(
        StampOrdered, ".readers.remove(active.attempt.name)", ".readers.copy()"
    ),
    "whoever is refused keeps its pending writes": Mutant(
        StampOrdered,
        "            self._withdraw(active)\n            ended",
        "            ended",
    ),
    "whoever waited for the refused waits for ever": Mutant(
        StampOrdered, "            ended.append(active)\n", ""
    ),
    "reservations hold back smaller stamps, too": Mutant(
        StampOrdered, "if attempt.stamp < stamp and", "if"
    ),
    "whoever was held back by a reservation waits for ever": Mutant(
        StampOrdered, "self._again(held, ended, out)", "pass"
    ),
}

# Rules that only time or bad luck put to the test, so that scripts have to: T4 comes late to keys
# that are forgotten, and T30 meets a reservation.
SCRIPTED_MUTANTS: dict[str, tuple[Mutant, Callable[[], None]]] = {
    "who comes late reads what is forgotten": (
        Mutant(Deletions, "elif self.forgotten < stamp:", "elif False:"),
        lambda: rules.test_deletions_are_forgotten_in_bulk_and_older_stamps_refused(NAME),
    ),
    "who comes late writes what is forgotten": (
        Mutant(
            StampOrdered,
            "self.unwritten.mark(Span(), self.deletions.forgotten)",
            "pass",
        ),
        lambda: rules.test_deletions_are_forgotten_in_bulk_and_older_stamps_refused(NAME),
    ),
    "deletions are forgotten under those who may ask": (
        Mutant(TimestampOrdering, "if cell.pending or newest > bound:", "if cell.pending:"),
        lambda: rules.test_deletions_are_forgotten_in_bulk_and_older_stamps_refused(NAME),
    ),
    "reservations hold nobody back": (
        Mutant(
            StampOrdered,
            "return any(request.span.meets(span) for span in spans)",
            "return not spans",
        ),
        lambda: rules.test_a_reservation_holds_back_what_meets_the_declaration_and_is_later(
            Hand(TimestampOrdering())
        ),
    ),
    "a limited scan counts as a whole one": (
        Mutant(StampOrdered, "mark(listed.covered,", "mark(request.span,"),
        lambda: rules.test_a_limited_scan_protects_only_what_it_has_seen(Hand(TimestampOrdering())),
    ),
}


@pytest.mark.slow
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


@pytest.mark.parametrize("name", SCRIPTED_MUTANTS)
def test_a_broken_rule_fails_its_script(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case, script = SCRIPTED_MUTANTS[name]
    script()
    break_rule(case, monkeypatch)
    with pytest.raises(AssertionError):
        script()


def test_the_page_tells_how_many_rules_were_broken() -> None:
    broken = len(MUTANTS) + len(SCRIPTED_MUTANTS)
    assert f"{broken} rules broken one at a time" in " ".join(page(NAME).split())
