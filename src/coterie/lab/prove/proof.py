"""Is the invariant inductive? True at the start, kept by each action, and the theorems follow from it.

One question to the solver for each action and clause that share a symbol, for any number of things.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from coterie.lab.prove.solver import z3
from coterie.lab.prove.theory import Theory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from coterie.lab.prove.page import Action, Clause, Page

Result = Literal["proved", "fails", "unknown"]

START = "the start"
THEOREM = "no step"  # a theorem is about every state that fulfils the clauses
EFFORT = 10  # for one try, in millions of the solver's own steps: so a busy machine proves no less

# Short tries with several seeds before a long one: what one seed does not find in a minute, another
# finds at once. Each: share of the effort, seed, whether the solver may search for models.
TRIES = (
    (0.2, 0, True),
    (0.2, 0, False),
    (0.2, 1, True),
    (1.0, 2, True),
    (1.0, 2, False),
    (1.0, 3, True),
)


class Question(NamedTuple):
    """Does this clause hold after this action, or at the start, or in every state if there is neither?"""

    action: Action | None
    clause: Clause
    place: str  # the name of the action, `START` or `THEOREM`


class Obligation(NamedTuple):
    """A question with its answer."""

    question: Question
    result: Result
    seconds: float


@dataclass(frozen=True)
class Proof:
    """All obligations of a page."""

    page: Page
    obligations: tuple[Obligation, ...]

    @property
    def proved(self) -> bool:
        """Whether every obligation was met."""
        return not self.failed

    @property
    def failed(self) -> list[Obligation]:
        """Those that were not: refuted first, then those that the solver gave up."""
        bad = [each for each in self.obligations if each.result != "proved"]
        return sorted(bad, key=lambda each: each.result == "unknown")

    @property
    def seconds(self) -> float:
        """How long the solver worked."""
        return sum(each.seconds for each in self.obligations)


def questions(page: Page) -> Iterator[Question]:
    """List what has to be shown; a clause that reads nothing that an action changes is kept by it."""
    for clause in page.clauses:
        yield Question(None, clause, START)
    for action in page.actions:
        for clause in page.clauses:
            if not action.updates.keys().isdisjoint(clause.formula.symbols()):
                yield Question(action, clause, action.name)
    for theorem in page.theorems:
        yield Question(None, theorem, THEOREM)


class Solving:
    """One page before the solver, for one question after another."""

    def __init__(self, page: Page, *, effort: float = EFFORT, seed: int = 0) -> None:
        """Read the page; `seed` shifts the solver's random choices."""
        assert page.promises
        self._effort, self._seed = effort, seed
        self._theory = Theory(page)
        axioms = self._theory.laws + self._theory.holds(page.axioms)
        self._starts = axioms + self._theory.holds(page.starts)
        self._clauses = axioms + self._theory.holds(page.clauses)

    def answer(self, question: Question) -> Obligation:
        """Put a question to the solver."""
        began = time.perf_counter()
        assumed = self._starts if question.place == START else self._clauses
        claims = [*assumed, *wrong(self._theory, question)[0]]
        result = decide(claims, self._effort, self._seed)
        return Obligation(question, result, time.perf_counter() - began)


def prove(page: Page, *, effort: float = EFFORT, seed: int = 0) -> Proof:
    """Put every question to the solver."""
    solving = Solving(page, effort=effort, seed=seed)
    return Proof(page, tuple(solving.answer(question) for question in questions(page)))


def wrong(theory: Theory, question: Question) -> tuple[list[Any], Any]:
    """Say that the step happens and the clause fails after it; return the meaning after it, too."""
    happens: list[Any] = []
    meaning = theory.before
    if question.action is not None:
        scope = theory.constants(question.action.params, "step")
        happens = [theory.read(question.action.guard, scope, theory.before)]
        meaning = theory.after(question.action, scope)
    return [*happens, theory.fails(question.clause, meaning)[0]], meaning


def limited(effort: float, context: Any = None) -> Any:
    """Return a solver that gives up after this many million steps."""
    solver = z3.Solver(ctx=context)
    solver.set("rlimit", int(effort * 1_000_000))
    return solver


def decide(claims: list[Any], effort: float = EFFORT, seed: int = 0) -> Result:
    """Return whether no state fulfils all claims: then what they deny is proved.

    In a context of its own, or earlier questions of this process would have a say in which ones are decided.
    """
    context = z3.Context()
    answer, _ = solve([claim.translate(context) for claim in claims], effort, seed, context)
    if answer == z3.unknown:
        return "unknown"
    return "proved" if answer == z3.unsat else "fails"


def solve(
    claims: list[Any], effort: float = EFFORT, seed: int = 0, context: Any = None
) -> tuple[Any, Any]:
    """Return the answer of the first try that has one, and the solver, which knows a state if there is one."""
    for share, luck, search in TRIES:
        solver = limited(effort * share, context)
        solver.set("smt.random_seed", luck + seed)
        solver.set("smt.mbqi", search)
        solver.add(claims)
        answer = solver.check()
        if answer != z3.unknown:
            break
    return answer, solver
