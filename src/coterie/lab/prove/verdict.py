"""The verdict on a page: proved or not, by what, and how far the code was held against it."""

from __future__ import annotations

import functools
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from coterie.catalogue import load
from coterie.errors import UsageError
from coterie.lab.prove.bounded import find_run, first_counterexample, impossible
from coterie.lab.prove.handlers import leased_ballot, ricart_agrawala
from coterie.lab.prove.link import hold
from coterie.lab.prove.pages.leased import leased_tokens
from coterie.lab.prove.proof import EFFORT, START, THEOREM, prove
from coterie.lab.prove.wait_proof import prove_waits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.catalogue import Algorithm
    from coterie.lab.prove.bounded import Counterexample, Run
    from coterie.lab.prove.library import Entry
    from coterie.lab.prove.link import Held, Trial
    from coterie.lab.prove.page import Page
    from coterie.lab.prove.proof import Proof
    from coterie.lab.prove.symbolic import Followed
    from coterie.lab.prove.wait_proof import WaitObligation
    from coterie.process import Process

Answer = Literal["proved", "not proved", "not followed", "vacuous", "unknown"]
DEPTH = 10  # of the search for a run, with two things of each sort
HANDLED = (2, 3)  # processes whose handlers are run on symbolic values
WIDER, SHALLOWER = 3, 6  # of a second one
HEADER = ("page", "verdict", "axioms", "clauses", "obligations", "of waits", "shown", "code held")


@dataclass(frozen=True)
class Verdict:
    """What came of a page."""

    name: str  # what was asked for
    page: Page
    proof: Proof
    impossible: Sequence[str]  # steps that no state of the invariant allows
    counterexample: Counterexample | None  # to induction
    run: Run | None  # of the search for one that breaks a promise
    held: Sequence[Held] | None  # the code against the page; None without a link
    waits: Sequence[WaitObligation] | None = None  # that every wait ends; None if it was not tried
    handlers: Sequence[Followed] = ()  # real ones, on symbolic values

    @property
    def title(self) -> str:
        """The page, and whose it is if it has another name."""
        known = self.name == self.page.name.partition(",")[0] or self.name.endswith(".py")
        return self.page.name if known else f"{self.name}, by the page of {self.page.name}"

    @property
    def answer(self) -> Answer:
        """The verdict in a word or two; a run that breaks a promise shows that it cannot be proved."""
        if self.impossible:
            return "vacuous"
        if not self.proof.proved:
            shown = self.counterexample is not None or any(
                each.result == "fails" for each in self.proof.failed
            )
            return "not proved" if shown else "unknown"
        if self.lost_waits:
            return "unknown"  # other sets may show it
        if any(each.trouble for each in self.held or ()) or self.lost_handlers:
            return "not followed"
        return "proved"

    @property
    def lost_waits(self) -> list[WaitObligation]:
        """The claims that every wait ends by, and that were not shown."""
        return [each for each in self.waits or () if each.result != "proved"]

    @property
    def lost_handlers(self) -> list[str]:
        """What handlers do that is not what the page says."""
        return [trouble for each in self.handlers for trouble in each.troubles]

    def lines(self) -> list[str]:
        """Say it to people."""
        match self.answer:
            case "proved" | "not followed":
                return [*self._proved(), *self.following()]
            case "vacuous":
                never = ", ".join(_words(name) for name in self.impossible)
                what = f"By its clauses this never happens: {never}; so the proof shows nothing."
                return [f"{self.title}: vacuous. {what}"]
            case "not proved" | "unknown":
                if self.proof.proved:
                    return [*self._proved(), *self._lost_waits()]
                return [*self._lost(), *self.reality()]

    def row(self) -> list[str | int]:
        """Say it in one line of a table, as `HEADER` names its columns."""
        code = "its numbers alone" if self.handlers else "specification only"
        if self.held is not None:
            states, steps = sum(h.states for h in self.held), sum(h.steps for h in self.held)
            code = f"{states:,} states, {steps:,} steps"
        return [
            self.name,
            self.answer,
            len(self.page.axioms),
            len(self.page.clauses),
            len(self.proof.obligations),
            "-" if self.waits is None else len(self.waits),
            ", ".join(clause.words for clause in self.page.promises),
            code,
        ]

    def facts(self) -> dict[str, Any]:
        """Say it to programs."""
        found = self.counterexample
        return {
            "name": self.name,
            "page": self.page.name,
            "scope": self.page.scope,
            "verdict": self.answer,
            "promises": [clause.words for clause in self.page.promises],
            "assumes": self.page.assumptions,
            "clauses": len(self.page.clauses),
            "actions": len(self.page.actions),
            "obligations": len(self.proof.obligations),
            "waits": None if self.waits is None else len(self.waits),
            "lost_waits": [[each.place, each.claim] for each in self.lost_waits],
            "seconds": round(self.proof.seconds, 3),
            "impossible": list(self.impossible),
            "lost": [
                {
                    "step": each.question.place,
                    "clause": each.question.clause.words,
                    "result": each.result,
                }
                for each in self.proof.failed
            ],
            "counterexample": None if found is None else _facts_of(found),
            "run": None if self.run is None else _facts_of_run(self.run),
            "code": None if self.held is None else [asdict(each) for each in self.held],
            "handlers": [asdict(each) for each in self.handlers],
        }

    def _proved(self) -> list[str]:
        page = self.page
        counts = f"{len(page.clauses)} clauses, kept by {len(page.actions)} actions"
        lines = [
            f"{self.title}, {page.scope}: proved. {counts}.",
            f"  {', '.join(clause.words for clause in page.promises)}",
        ]
        if page.assumptions:
            lines.append(f"  assumes: {', '.join(page.assumptions)}")
        lines.append(f"  {len(self.proof.obligations)} obligations")
        if self.waits is not None and not self.lost_waits:
            lines.append(f"  every wait ends: {len(self.waits)} obligations more")
        elif self.waits is None and page.waits is not None:
            lines.append("  that every wait ends is shown with --waits")
        return lines

    def _lost_waits(self) -> list[str]:
        lost = self.lost_waits
        count = f"{len(lost)} of {len(self.waits or ())} obligations are not met"
        return [
            f"  that every wait ends is not shown ({count}):",
            *(f"    {each.place}: {each.claim}: {each.result}" for each in lost),
        ]

    def following(self) -> list[str]:
        """Say how far the code was held against the page, or that it was not."""
        if self.held is None:
            alone = ["  this proves the specification only: no code is held against it"]
            numbers = ["  no run of the code is held against it", *self._handled()]
            return numbers if self.handlers else alone
        lines = [
            f"  the code does not follow it, {each.words}: {each.trouble}"
            for each in self.held
            if each.trouble
        ]
        lines += [f"  the code does not follow it: {trouble}" for trouble in self.lost_handlers]
        followed = [f"    {each.words}" for each in self.held]
        return lines or ["  the code follows it:", *followed, *self._handled()]

    def _handled(self) -> list[str]:
        if not self.handlers:
            return []
        if self.held is None:
            ways = sum(each.ways for each in self.handlers)
            return [f"  its ballots count as the steps say, for all integers: {ways} ways"]
        counts = "; ".join(f"N = {each.size}, {each.ways} ways" for each in self.handlers)
        return [
            "  its handlers do what the steps say in every state of the invariant, with any integers:",
            f"    {counts}",
        ]

    @property
    def lost(self) -> str:
        """What is not kept, or does not follow, in a sentence; of a proof that was not found."""
        found = self.counterexample
        question = found.question if found is not None else self.proof.failed[0].question
        verb = "breaks" if self.answer == "not proved" else "may break"
        match question.place:
            case place if place == START:
                return f"The start {verb} “{question.clause.words}”"
            case place if place == THEOREM:
                return f"“{question.clause.words}” does not follow from the clauses"
            case place:
                return f"The step {_words(place)} {verb} “{question.clause.words}”"

    def _lost(self) -> list[str]:
        failed, found = self.proof.failed, self.counterexample
        count = f"{len(failed)} of {len(self.proof.obligations)} obligations are not met"
        word = "not proved" if self.answer == "not proved" else "not known"
        lines = [f"{self.title}: {word}. {self.lost} ({count})."]
        if found is None:
            return [*lines, "  the solver gave up, and there is no small counterexample"]
        lines.append(f"  before: {'; '.join(found.facts()) or 'nothing'}")
        if found.question.action is not None:
            lines.append(f"  step:   {found.step}")
            lines.append(f"  change: {'; '.join(found.changes()) or 'nothing'}")
        if found.witness:
            named = ", ".join(f"{name} = {value}" for name, value in found.witness.items())
            lines.append(f"  breaks: “{found.question.clause.words}” for {named}")
        return lines

    def reality(self) -> list[str]:
        """Tell a state that a run reaches from one that may never be reached."""
        run = self.run
        if run is None:
            return []
        if run.broken is not None:
            steps = [f"    {step}" for step in run.steps]
            count = len(run.steps)
            return [
                f"  it is real: {count} steps from the start break “{run.broken.words}”:",
                *steps,
            ]
        none = f"none of up to {max(run.depth, 0)} steps with two things of each sort"
        if run.complete:
            why = "the algorithm is wrong later on, or a clause is missing"
            return [f"  no run from the start is known to break a promise, {none}: {why}"]
        return [f"  not known whether a run leads there: {none}, and then the effort was spent"]


def judge(entry: Entry, page: Page, *, effort: float = EFFORT, with_waits: bool = False) -> Verdict:
    """Prove a page; hold the code against it, or look for what is wrong."""
    proof = prove(page, effort=effort)
    dead = impossible(page)
    if not proof.proved:
        found = first_counterexample(proof)
        return Verdict(entry.name, page, proof, dead, found, search_run(page, effort), None)
    waits = None
    if with_waits:
        if page.waits is None:
            raise UsageError(f"{page.name} does not say why every wait ends: leave out --waits")
        waits = prove_waits(page, page.waits, effort=effort)
    held = hold_all(entry) if entry.link is not None and page is entry.page else None
    handlers = follow_handlers(page)
    return Verdict(entry.name, page, proof, dead, None, None, held, waits, handlers)


def search_run(page: Page, effort: float = EFFORT) -> Run:
    """Search for a run that breaks a promise, with two things of each sort and then with three."""
    run = find_run(page, depth=DEPTH, effort=effort)
    if run.broken is None:
        wider = find_run(page, size=WIDER, depth=SHALLOWER, effort=effort)
        return wider if wider.broken is not None else run
    return run


def follow_handlers(page: Page) -> Sequence[Followed]:
    """Hold handlers on symbolic values against the pages for which that is done."""
    if page is ricart_agrawala.PAGE:
        return [ricart_agrawala.follow(size) for size in HANDLED]
    return [leased_ballot.follow()] if page is leased_tokens.PAGE else []


def hold_all(entry: Entry, trials: Sequence[Trial] | None = None) -> list[Held]:
    """Hold the code of all linked variants against their page, by default in the trials of the link."""
    link = entry.link
    assert link is not None
    build, variants = link.build, link.variants
    if build is None:
        algorithm = load(entry.algorithm)
        build = functools.partial(_build, algorithm)
        variants = ("",) if algorithm.own else link.variants
    return [
        hold(entry.page, link, build(trial, variant), trial, variant=variant)
        for trial in (link.trials if trials is None else trials)
        for variant in variants
    ]


def _build(algorithm: Algorithm, trial: Trial, variant: str) -> Sequence[Process[Any]]:
    return algorithm.build(algorithm.setup(trial.size, variant))


def _facts_of(found: Counterexample) -> dict[str, Any]:
    return {
        "step": found.step,
        "breaks": found.question.clause.words,
        "for": dict(found.witness),
        "before": found.facts(),
        "changes": found.changes(),
    }


def _facts_of_run(run: Run) -> dict[str, Any]:
    return {
        "steps": list(run.steps),
        "breaks": run.broken and run.broken.words,
        "depth": run.depth,
        "complete": run.complete,
    }


def _words(name: str) -> str:
    return name.replace("_", " ")
