"""Proofs in the laboratory: what a reader leaves out and adds, what is remembered, and a process that can be ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from coterie.errors import UsageError
from coterie.lab.play.proofs import worker
from coterie.lab.play.proofs.answer import Code, Judged, Loss, Missing, Proof, Reality, Sheet
from coterie.lab.play.proofs.prover import Prover
from coterie.lab.play.proofs.sheet import Head, describe, make, read_head
from coterie.lab.play.proofs.solver_process import SolverProcess
from coterie.lab.play.runs.refusal import Refusal, Superseded

if TYPE_CHECKING:
    from pathlib import Path

T = TypeVar("T")
ONE = """
def one_is_let_in(p: Process, q: Process):
    return (holder(p) & holder(q)) >> (p == q)
"""
WRONG = """
def none_is_queued(p: Process):
    return ~queued(p)
"""
LAMP = """
from coterie.lab.prove import Page, Thing, when

PAGE = page = Page("lamp")


class Lamp(Thing):
    pass


on = page.relation("on", Lamp)


@page.start
def all_are_off(x: Lamp):
    return ~on(x)


@page.action
def switch(x: Lamp):
    when(~on(x))
    on[x] = True


@page.safety
def at_most_one(x: Lamp, y: Lamp):
    return (on(x) & on(y)) >> (x == y)
"""


def never() -> bool:
    return False


def one(lines: list[Any], kind: type[T]) -> T:
    return next(line for line in lines if isinstance(line, kind))


def of(prover: Prover, text: str) -> list[Any]:
    return list(prover.prove(make(text)))


def test_the_first_line_says_which_page_and_what_of_it() -> None:
    text = "maekawa variant=basic only a b without c, d\ndef x(): return True"
    assert read_head(text) == Head("maekawa", "basic", ("a", "b"), ("c", "d"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "begin with the name of a page"),
        ("centralized nix", "expected only or without, got 'nix'"),
        ("centralized only nix", "has no clause or axiom 'nix'"),
        ("centralized without nix", "has no clause or axiom 'nix'"),
        ("centralized variant=nix", "has no variant 'nix'"),
        ("nix", "there is no page for 'nix'"),
        ("./mine.py", "start the laboratory with ./mine.py"),
        ("centralized only one_holder", "promises nothing"),
    ],
)
def test_a_text_that_makes_no_page_is_refused_in_one_line(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as raised:
        of(Prover(), text)
    assert "\n" not in str(raised.value)


def test_a_page_is_described_as_its_file_has_it() -> None:
    sheet = describe(make("centralized without one_holder\n" + ONE))
    assert sheet.flaws == ["serves-while-one-is-inside"]
    assert [item.name for item in sheet.clauses if item.left_out] == ["one_holder"]
    assert [item.name for item in sheet.clauses if item.added] == ["one_is_let_in"]
    assert sheet.clauses[0].text.startswith("@page.safety\ndef mutual_exclusion(p: Process,")
    assert (
        sheet.theorems[0].why == "While one waits, a step is possible that no user has to ask for."
    )
    assert sheet.steps[2].text.splitlines()[1] == "def let_in(p: Process) -> None:"
    assert "waiting(Process)" in sheet.symbols
    of_lesson = describe(make("centralized only mutual_exclusion"))
    assert [item.name for item in (*of_lesson.clauses, *of_lesson.theorems)] == ["mutual_exclusion"]


def test_a_proof_is_told_clause_by_clause_then_the_verdict_and_the_code() -> None:
    lines = of(Prover(), "centralized")
    assert [line.outcome for line in lines if isinstance(line, Judged)] == ["kept"] * 7
    proof = one(lines, Proof)
    assert (proof.answer, proof.clauses, proof.obligations, proof.lost) == ("proved", 6, 27, 0)
    assert proof.sentence == "mutual exclusion, no deadlock: for every N."
    code = one(lines, Code)
    assert code.kind == "follows"
    assert "silent, N = 2: 71 states, 112 steps, all" in code.trials


def test_what_is_lost_is_drawn_and_told_from_what_is_wrong() -> None:
    lines = of(Prover(), "centralized without one_holder")
    lost = [line for line in lines if isinstance(line, Judged) and line.outcome == "lost"]
    assert [(line.name, line.steps) for line in lost] == [("mutual_exclusion", ["receive_grant"])]
    loss = one(lines, Loss)
    assert loss.name == "mutual_exclusion"
    assert len(loss.pictures) == 2
    assert all(picture.startswith("<svg") for picture in loss.pictures)
    reality = one(lines, Reality)
    assert (reality.kind, reality.steps) == ("none", [])
    wrong = of(Prover(), "centralized variant=serves-while-one-is-inside")
    assert one(wrong, Reality).kind == "real"
    assert one(wrong, Code).kind == "not held"
    vacuous = of(Prover(), "centralized\ndef x(p: Process): return queued(p) >> ~queued(p)")
    assert "never happens: let in" in one(vacuous, Proof).sentence


def test_an_added_clause_is_held_against_the_code_too() -> None:
    code = one(of(Prover(), "centralized\n" + WRONG), Code)
    assert code.kind == "does not follow"
    assert "none is queued" in code.text.replace("_", " ")
    assert one(of(Prover(), "centralized without one_holder\n" + ONE), Code).kind == "follows"


def verdict(prover: Prover, text: str) -> Proof:
    """Ask for no more than the verdict: the search for a run takes longer."""
    return next(line for line in prover.prove(make(text)) if isinstance(line, Proof))


def test_what_was_proved_is_not_asked_again() -> None:
    prover = Prover()
    assert verdict(prover, "centralized").seconds > 0
    again = verdict(prover, "centralized")
    assert (again.seconds, again.answer) == (0.0, "proved")
    assert verdict(prover, "centralized without one_holder").answer == "not proved"
    fewer = verdict(prover, "centralized without one_holder a_holder_is_somewhere no_deadlock")
    assert fewer.answer == "not proved", "what fails with some clauses fails with fewer"
    other = verdict(prover, "centralized variant=serves-while-one-is-inside")
    assert other.answer == "not proved", "another page is asked anew"


def test_without_a_solver_the_page_is_shown_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    lines = list(worker.answer(worker.ProofQuestion("centralized", []), worker.prover()))
    assert isinstance(lines[0], Sheet)
    assert lines[1] == Missing(worker.INSTALL)
    assert "pip install 'coterie[prove]'" in worker.INSTALL


def test_the_process_answers_is_ended_when_it_is_not_wanted_and_answers_again(
    tmp_path: Path,
) -> None:
    path = str(tmp_path / "lamp.py")
    (tmp_path / "lamp.py").write_text(LAMP, encoding="utf-8")
    solver = SolverProcess()
    try:
        with pytest.raises(UsageError, match="no page for"):
            solver.proof(path, never)
        solver.name_file(path)
        assert solver.proof(path, never).sentence == "The step switch breaks “at most one”."
        with pytest.raises(Superseded):
            list(solver.lines("maekawa without one_owner", lambda: True))
        with pytest.raises(Refusal, match="the page has no nix"):
            list(solver.lines("centralized\ndef a(p: Process): return nix(p)", never))
        assert solver.proof("centralized", never).answer == "proved"
    finally:
        solver.close()
