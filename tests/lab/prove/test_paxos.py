"""Paxos, a file as a user writes it: proved for any quorums, and its class held against the proof."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from coterie.catalogue import load
from coterie.lab.prove import library
from coterie.lab.prove.bounded import Bounded, find_run, impossible
from coterie.lab.prove.link import Trial, hold
from coterie.lab.prove.proof import THEOREM, prove, questions
from coterie.lab.prove.verdict import hold_all
from tests.harness import broken_class

if TYPE_CHECKING:
    from coterie.lab.prove.page import Clause, Page

PAXOS = str(Path(__file__).parents[3] / "examples" / "paxos.py")
ENTRY = library.find(PAXOS)
LOST = {  # without it, in a state with so many things of each sort: the step and what it breaks
    "two_quorums_meet": (2, "propose_anything", "older_attempts_choose_nothing_else"),
    "one_proposal": (2, "propose_the_latest", "older_attempts_choose_nothing_else"),
    "votes_are_for_proposals": (2, "promise_and_tell", "the_latest_is_told"),
    "promises_bind": (2, "propose_anything", "older_attempts_choose_nothing_else"),
    "a_promise_tells": (3, "propose_the_latest", "older_attempts_choose_nothing_else"),
    "nothing_is_true": (2, "propose_anything", "older_attempts_choose_nothing_else"),
    "the_latest_is_told": (2, "propose_the_latest", "older_attempts_choose_nothing_else"),
    "older_attempts_choose_nothing_else": (2, THEOREM, "agreement"),
}


def test_it_is_proved_and_its_class_follows() -> None:
    assert prove(ENTRY.page).failed == []
    assert impossible(ENTRY.page) == []
    held = hold_all(ENTRY)
    assert [each.trouble for each in held if each.trouble] == []
    used = set().union(*(each.used for each in held))
    assert used == {action.name for action in ENTRY.page.actions}


def refuted(page: Page, size: int, step: str, clause: str) -> bool:
    asked = [q for q in questions(page) if (q.place, q.clause.name) == (step, clause)]
    assert len(asked) == 1
    return Bounded(page, size).refute(asked[0]) is not None


@pytest.mark.parametrize("item", [*ENTRY.page.axioms, *ENTRY.page.clauses], ids=lambda i: i.name)
def test_each_clause_is_needed(item: Clause) -> None:
    assert refuted(ENTRY.page.without(item.name), *LOST[item.name])


def test_a_proposer_that_does_not_give_way_breaks_agreement() -> None:
    page = ENTRY.page.flawed["proposes-its-own-value"]
    assert refuted(page, 2, "propose_anything", "older_attempts_choose_nothing_else")
    run = find_run(page, size=3, depth=6)
    assert run.broken is not None
    assert (run.broken.name, len(run.steps)) == ("agreement", 6)


BUGS = {
    "forgets its vote": ("Promise(attempt, self.latest)", "Promise(attempt, None)"),
    "votes in older attempts": (
        "self.promised is None or self.promised <= vote.attempt",
        "self.highest",
    ),
    "proposes its own value": ("max(votes).value if votes else self.me", "self.me"),
    "proposes the oldest vote": ("max(votes)", "min(votes)"),
    "counts a promise for an older attempt": ("if attempt == self.attempt and", "if"),
    "a promise that does not bind": (
        "self._take_part(attempt)\n                    out.send",
        "out.send",
    ),
    "proposes without a majority": (
        "if 2 * len(self.promises) > self.size:",
        "if self.promises:",
    ),
}


@pytest.mark.parametrize("name", BUGS)
def test_a_bug_is_noticed(name: str) -> None:
    wrong: Any = broken_class(load(PAXOS).process, *BUGS[name])
    assert ENTRY.link is not None
    trials = (Trial(2, 2), Trial(3, 2, runs=40))
    troubles = [
        hold(
            ENTRY.page,
            ENTRY.link,
            [wrong(me=i + 1, size=t.size) for i in range(t.size)],
            t,
            states_max=400,
        ).trouble
        for t in trials
    ]
    assert any(troubles)
