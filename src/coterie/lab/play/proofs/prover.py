"""Answers about one page, again and again, while its reader leaves out clauses and adds some.

What was shown from some clauses follows from more of them, and what fails with some fails with fewer.
So after a change few questions are new, and the answer comes in less than a second.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from coterie.lab.play.proofs.answer import Code, Judged, Loss, Proof, Reality
from coterie.lab.prove.bounded import SIZES, Bounded, impossible
from coterie.lab.prove.picture import draw_states
from coterie.lab.prove.proof import START, Obligation, Solving, questions
from coterie.lab.prove.proof import Proof as Obligations
from coterie.lab.prove.verdict import Verdict, follow_handlers, hold_all, search_run

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from coterie.lab.play.proofs.answer import Line, Outcome
    from coterie.lab.play.proofs.sheet import Made
    from coterie.lab.prove.bounded import Counterexample, Run
    from coterie.lab.prove.link import Held
    from coterie.lab.prove.page import Clause, Page
    from coterie.lab.prove.proof import Question, Result

PICTURES_MAX = 8  # clauses that are drawn
RUN_EFFORT = 2  # millions of the solver's steps, where the command takes ten: a reader waits
ELSEWHERE = "no code is held against a flawed page"


class Asked(NamedTuple):
    """A question, apart from what is assumed."""

    page: str
    place: str
    clause: str


class Prover:
    """Remembers what was found out about the pages that it was asked about."""

    def __init__(self) -> None:
        """Begin with nothing known."""
        self._known: dict[Asked, list[tuple[frozenset[str], Result]]] = {}
        self._runs: dict[frozenset[str], Run] = {}
        self._held: dict[frozenset[str], list[Held]] = {}

    def prove(self, made: Made) -> Iterator[Line]:
        """Answer line by line: clauses, the verdict, pictures of what fails, and what that means."""
        page = made.page
        asked = list(questions(page))
        answered: dict[Question, Obligation] = {}
        solving: list[Solving] = []
        for clause in dict.fromkeys(question.clause for question in asked):
            own = {q: self._answer(page, q, solving) for q in asked if q.clause is clause}
            answered |= own
            yield _judged(clause, list(own.values()))
        proof = Obligations(page, tuple(answered[question] for question in asked))
        losses = _losses(proof)
        first = losses[0] if losses else None
        verdict = Verdict(made.entry.name, page, proof, impossible(page), first, None, None)
        yield _proof(verdict)
        yield from map(_loss, losses)
        yield self._code(made, verdict)
        if not proof.proved:
            yield _reality(replace(verdict, run=self._run(page)))

    def _answer(self, page: Page, question: Question, solving: list[Solving]) -> Obligation:
        """Look it up, or ask the solver, which reads the page when it is first asked."""
        assumed = _keys(page.axioms if question.place == START else (*page.axioms, *page.clauses))
        known = self._known.setdefault(Asked(page.name, question.place, _key(question.clause)), [])
        for given, result in known:
            more, fewer = given <= assumed, assumed <= given
            if (result == "proved" and more) or (result == "fails" and fewer) or (more and fewer):
                return Obligation(question, result, 0.0)
        if not solving:
            solving.append(Solving(page))
        found = solving[0].answer(question)
        known.append((assumed, found.result))
        return found

    def _run(self, page: Page) -> Run:
        """Search for a run that breaks a promise: clauses that help do not matter to it."""
        key = _keys((*page.axioms, *page.promises)) | {page.name}
        if key not in self._runs:
            self._runs[key] = search_run(page, RUN_EFFORT)
        return self._runs[key]

    def _code(self, made: Made, verdict: Verdict) -> Code:
        """Hold the code against the page as the reader has it: added clauses, too, hold in its states."""
        page, entry = made.page, made.entry
        if made.whole is not entry.page:
            return Code("not held", ELSEWHERE, [])
        if entry.link is not None:
            key = _keys((*page.axioms, *page.clauses)) | {page.name}
            if key not in self._held:
                self._held[key] = hold_all(replace(entry, page=page))
            verdict = replace(verdict, held=self._held[key])
        verdict = replace(verdict, handlers=follow_handlers(page))
        said, *trials = (line.strip() for line in verdict.following())
        if any(each.trouble for each in verdict.held or ()) or verdict.lost_handlers:
            return Code("does not follow", said, trials)
        return Code("not held" if verdict.held is None else "follows", said.rstrip(":"), trials)


def _keys(clauses: Sequence[Clause]) -> frozenset[str]:
    return frozenset(map(_key, clauses))


def _key(clause: Clause) -> str:
    """Return what makes two clauses the same: readers write a new one by a name that was there."""
    return f"{clause.name}: {clause.formula}"


def _judged(clause: Clause, answered: Sequence[Obligation]) -> Judged:
    bad = [each for each in answered if each.result != "proved"]
    outcome: Outcome = "kept"
    if bad:
        outcome = "lost" if any(each.result == "fails" for each in bad) else "not known"
    return Judged(clause.name, outcome, [each.question.place for each in bad])


def _losses(proof: Obligations) -> list[Counterexample]:
    """Find for each clause that is lost a smallest state that shows it, of some clauses at most."""
    found: dict[str, Counterexample] = {}
    for size in SIZES:
        left = [each for each in proof.failed if each.question.clause.name not in found]
        if not left:
            break
        bounded = Bounded(proof.page, size)
        for each in left:
            name = each.question.clause.name
            if name in found or len(found) >= PICTURES_MAX:
                continue
            shown = bounded.refute(each.question)
            if shown is not None:
                found[name] = shown
    return list(found.values())


def _proof(verdict: Verdict) -> Proof:
    page, proof = verdict.page, verdict.proof
    promises = [clause.words for clause in page.promises]
    match verdict.answer:
        case "vacuous":
            never = ", ".join(name.replace("_", " ") for name in verdict.impossible)
            sentence = f"By its clauses this never happens: {never}. So the proof shows nothing."
        case "not proved" | "unknown":
            sentence = f"{verdict.lost}."
        case _:
            sentence = f"{', '.join(promises)}: {page.scope}."
    return Proof(
        answer=verdict.answer,
        sentence=sentence,
        promises=promises,
        assumes=page.assumptions,
        clauses=len(page.clauses),
        steps=len(page.actions),
        obligations=len(proof.obligations),
        lost=len(proof.failed),
        seconds=round(proof.seconds, 2),
    )


def _loss(found: Counterexample) -> Loss:
    return Loss(
        name=found.question.clause.name,
        step=found.step if found.question.action is not None else "",
        witness=", ".join(f"{name} = {thing}" for name, thing in found.witness.items()),
        before=found.facts(),
        changes=found.changes(),
        pictures=draw_states(found),
    )


def _reality(verdict: Verdict) -> Reality:
    run = verdict.run
    assert run is not None
    said, *steps = (line.strip() for line in verdict.reality())
    if run.broken is not None:
        return Reality("real", said, steps)
    return Reality("none" if run.complete else "not known", said, [])
