"""Two-phase commit as a file of one's own: checked, played and proved, and its class held against the proof."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from coterie.catalogue import load
from coterie.cli import run
from coterie.lab.explore import check
from coterie.lab.play.laboratory import Laboratory
from coterie.lab.play.questions import Question
from coterie.lab.prove import library
from coterie.lab.prove.bounded import Bounded, find_run, impossible
from coterie.lab.prove.link import Trial, hold
from coterie.lab.prove.proof import prove, questions
from coterie.lab.prove.verdict import hold_all
from coterie.lab.scenario import perform
from tests.harness import broken_class

if TYPE_CHECKING:
    from coterie.lab.prove.page import Clause

FILE = str(Path(__file__).parents[3] / "examples" / "two_phase_commit.py")
ENTRY = library.find(FILE)


def test_it_is_checked(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", FILE, "-N", "2"]) == 0
    assert "verified. Every property holds in all 35 reachable states." in capsys.readouterr().out


def test_it_is_played() -> None:
    load(FILE)
    played = perform(f"{FILE} 2\ncommit 1\ndeliver 1 > 2\ndeliver 2 > 1\ndeliver 1 > 2\n")
    assert "2 Ended(True)" in played.transcript
    position = Laboratory().play(Question(f"{FILE} 2", ["refuse 2", "commit 1", "run"]))
    assert ("an abort", True, "seen here") in [
        (x.name, x.holds, x.text) for x in position.properties
    ]


def test_it_is_proved_and_its_class_follows() -> None:
    assert prove(ENTRY.page).failed == []
    assert impossible(ENTRY.page) == []
    held = hold_all(ENTRY)
    assert [each.trouble for each in held if each.trouble] == []
    used = set().union(*(each.used for each in held))
    assert used == {action.name for action in ENTRY.page.actions}


@pytest.mark.parametrize(
    "clause", [each for each in ENTRY.page.clauses if not each.promised], ids=lambda each: each.name
)
def test_each_clause_is_needed(clause: Clause) -> None:
    bounded = Bounded(ENTRY.page, 2)
    asked = list(questions(ENTRY.page.without(clause.name)))
    assert any(bounded.refute(question, without=clause.name) for question in asked)


@pytest.mark.parametrize(
    ("flaw", "clause"),
    [("decides-by-one-vote", "decided_by_all"), ("aborts-in-doubt", "atomicity")],
)
def test_a_flawed_page_loses_its_proof_and_has_a_run(flaw: str, clause: str) -> None:
    page = ENTRY.page.flawed[flaw]
    assert clause in {each.question.clause.name for each in prove(page).failed}
    found = find_run(page, depth=8)
    assert found.broken is not None
    assert found.broken.name == "atomicity"


BUGS = {
    "counts its own vote alone": ("if len(self.yes) == self.size:", "if self.yes:"),
    "votes though it has aborted": ("self.voted = self.outcome is None", "self.voted = True"),
    "says yes though it has aborted": ("Vote(self.voted))", "Vote(True))"),
    "aborts in doubt": ("if not self.voted:", "if self.outcome is None:"),
    "decides twice": ("if self.decision is None:", "if True:"),
    "takes a refusal for a vote": ("case Vote(True):", "case Vote(_):"),
}


@pytest.mark.parametrize("name", BUGS)
def test_a_bug_is_noticed(name: str) -> None:
    wrong: Any = broken_class(load(FILE).process, *BUGS[name])
    assert ENTRY.link is not None
    processes = [wrong(me=me, size=2) for me in (1, 2)]
    assert hold(ENTRY.page, ENTRY.link, processes, Trial(2, 2)).trouble


def test_a_site_that_aborts_in_doubt_breaks_atomicity() -> None:
    wrong: Any = broken_class(load(FILE).process, *BUGS["aborts in doubt"])
    verdict = check([wrong(me=me, size=2) for me in (1, 2)])
    assert verdict.verdict == "violated"
