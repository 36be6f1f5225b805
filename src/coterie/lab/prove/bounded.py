"""A few things of each sort: counterexamples to induction, runs from the start, and vacuity.

A counterexample to induction need not be reachable. `find_run` searches for a run from the start
that breaks a promise, and says how deep it has looked if there is none.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from coterie.lab.prove.proof import START, Question, decide, limited, solve, wrong
from coterie.lab.prove.solver import z3
from coterie.lab.prove.terms import Formula
from coterie.lab.prove.theory import Theory

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from coterie.lab.prove.page import Action, Clause, Page, Symbol
    from coterie.lab.prove.proof import Proof
    from coterie.lab.prove.terms import Sort, Term
    from coterie.lab.prove.theory import Meaning

SIZES = (2, 3, 4)  # of each sort, the smallest first
EFFORT = 10  # for one question, in millions of steps of the solver

Table = dict[tuple[str, ...], str]  # the values of a symbol


@dataclass(frozen=True)
class Counterexample:
    """A state that fulfils all clauses, a step, and the state after it, in which a clause fails."""

    page: Page
    question: Question
    arguments: Mapping[str, str]  # of the step
    witness: Mapping[str, str]  # the things for which the clause fails
    before: Mapping[Symbol[Any], Table]
    after: Mapping[Symbol[Any], Table]

    @property
    def step(self) -> str:
        """The step with its arguments."""
        if self.question.action is None:
            return self.question.place
        given = ", ".join(f"{name} = {value}" for name, value in self.arguments.items())
        return f"{self.question.place}({given})"

    def facts(self) -> list[str]:
        """List all that holds before the step."""
        return list(_facts(self.before, self.before, everything=True))

    def changes(self) -> list[str]:
        """List what the step changed."""
        return list(_facts(self.before, self.after, everything=False))


def _facts(
    before: Mapping[Symbol[Any], Table], after: Mapping[Symbol[Any], Table], *, everything: bool
) -> Iterable[str]:
    for symbol, table in after.items():
        for args, value in table.items():
            if not everything and before[symbol][args] == value:
                continue
            place = f"{symbol.name}({', '.join(args)})" if args else symbol.name
            if symbol.to is not Formula:
                yield f"{place} = {value}"
            elif value == "True":
                yield place
            elif not everything:
                yield f"not {place}"


class Bounded:
    """A page with a few things of each sort."""

    def __init__(self, page: Page, size: int) -> None:
        """Read the page once; each question reads its step and its clause."""
        self.page = page
        self.theory = Theory(page, size)
        self._axioms = self.theory.holds(page.axioms)
        self._starts = self.theory.holds(page.starts)
        self._clauses = dict(zip(page.clauses, self.theory.holds(page.clauses), strict=True))

    def possible(self, action: Action | None, *, effort: float = EFFORT) -> bool:
        """Return whether some state that fulfils the invariant allows the action; whether there is a start."""
        if action is None:
            return decide([*self._axioms, *self._starts], effort) == "fails"
        scope = self.theory.constants(action.params, "step")
        allowed = self.theory.read(action.guard, scope, self.theory.before)
        return decide([*self._axioms, *self._clauses.values(), allowed], effort) == "fails"

    def refute(
        self, question: Question, *, without: str = "", effort: float = EFFORT
    ) -> Counterexample | None:
        """Look for a state in which the clause is lost; `without` leaves out a clause or an axiom."""
        axioms = zip(self.page.axioms, self._axioms, strict=True)
        assumed = [read for axiom, read in axioms if axiom.name != without]
        if question.place == START:
            assumed += self._starts
        else:
            clauses = self._clauses.items()
            assumed += [read for clause, read in clauses if clause.name != without]
        claims, meaning = wrong(self.theory, question)
        answer, solver = solve([*assumed, *claims], effort)
        if answer != z3.sat:
            return None
        return self._shown(question, solver.model(), meaning)

    def _shown(self, question: Question, solution: Any, meaning: Meaning) -> Counterexample:
        def value(term: Any) -> str:
            return str(solution.eval(term, model_completion=True)).partition("!")[0]

        def named(variables: Iterable[Term], use: str) -> dict[str, str]:
            constants = self.theory.constants(variables, use)
            return {str(variable.data): value(term) for variable, term in constants.items()}

        def state(of: Meaning) -> dict[Symbol[Any], Table]:
            return {
                symbol: {
                    tuple(value(arg) for arg in args): value(of[symbol](*args))
                    for args in itertools.product(
                        *(self._things(s, solution) for s in symbol.sorts)
                    )
                }
                for symbol in self.page.symbols
            }

        formula = question.clause.formula
        return Counterexample(
            page=self.page,
            question=question,
            arguments=named(question.action.params if question.action else (), "step"),
            witness=named(formula.data if formula.op == "every" else (), "witness"),
            before=state(self.theory.before),
            after=state(meaning),
        )

    def _things(self, sort: Sort, solution: Any) -> list[Any]:
        """List the things of a sort; of numbers, those that the solution speaks of."""
        if sort in self.theory.elements:
            return self.theory.elements[sort]
        values = [solution[name] for name in solution.decls() if name.arity() == 0]
        numbers = {value.as_long() for value in values if z3.is_int_value(value)}
        return [z3.IntVal(number) for number in sorted(numbers | {0, 1})]


def refute(
    page: Page, question: Question, sizes: Iterable[int] = SIZES, *, effort: float = EFFORT
) -> Counterexample | None:
    """Look for a small counterexample to one obligation."""
    for size in sizes:
        found = Bounded(page, size).refute(question, effort=effort)
        if found is not None:
            return found
    return None


def first_counterexample(proof: Proof, sizes: Iterable[int] = SIZES) -> Counterexample | None:
    """Look for a small counterexample to some obligation that was not met."""
    for size in sizes:
        bounded = Bounded(proof.page, size)
        for obligation in proof.failed:
            found = bounded.refute(obligation.question)
            if found is not None:
                return found
    return None


def impossible(page: Page, sizes: Iterable[int] = SIZES) -> list[str]:
    """Name the actions that no small state of the invariant allows, and the start if there is none.

    A clause that is wrong forbids steps, and what never happens keeps every clause.
    """
    dead: list[Action | None] = [None, *page.actions]
    for size in sizes:
        bounded = Bounded(page, size)
        dead = [action for action in dead if not bounded.possible(action)]
        if not dead:
            break
    return [START if action is None else action.name for action in dead]


class Run(NamedTuple):
    """Steps from a start to a state in which a promise fails; without one, how deep there is none."""

    steps: tuple[str, ...]
    broken: Clause | None
    depth: int
    complete: bool  # whether that was as deep as was asked for


class RunSearch:
    """Unrolls a page step by step, with a few things of each sort."""

    def __init__(self, page: Page, size: int, effort: float) -> None:
        """Begin at the start; spend so much effort on one promise at one depth."""
        self._page = page
        self._theory = Theory(page, size)
        self._solver = limited(effort)
        self._solver.add(self._theory.holds(page.axioms))
        self._now: Meaning = self._theory.before
        self._solver.add(self._theory.holds(page.starts))
        self._chosen: list[dict[str, tuple[Any, list[Any]]]] = []  # for each step, by action

    def find(self, depth: int) -> Run:
        """Return the shortest run that breaks a promise."""
        for length in range(depth + 1):
            for promise in self._page.promises:
                self._solver.push()
                self._solver.add(self._theory.fails(promise, self._now)[0])
                answer = self._solver.check()
                if answer == z3.sat:
                    return Run(self._steps(), promise, length, complete=True)
                if answer == z3.unknown:
                    return Run((), None, length - 1, complete=False)
                self._solver.pop()
            if length < depth:
                self._step(length)
        return Run((), None, depth, complete=True)

    def _step(self, length: int) -> None:
        """Add one step: exactly one action happens, with some arguments."""
        theory, moment = self._theory, f"@{length + 1}"
        changing = [symbol for symbol in self._page.symbols if not symbol.fixed]
        after = {**self._now, **{s: theory.fresh(s, moment) for s in changing}}
        chosen = {}
        for action in self._page.actions:
            happens = z3.Bool(f"{action.name}{moment}")
            scope = theory.constants(action.params, f"step{moment}")
            chosen[action.name] = happens, list(scope.values())
            meaning = theory.after(action, scope, self._now)
            effects = [theory.read(action.guard, scope, self._now)]
            effects += [self._equal(symbol, after, meaning) for symbol in changing]
            self._solver.add(z3.Implies(happens, z3.And(effects)))
        self._solver.add(z3.PbEq([(happens, 1) for happens, _ in chosen.values()], 1))
        self._chosen.append(chosen)
        self._now = after

    def _equal(self, symbol: Symbol[Any], one: Meaning, other: Meaning) -> Any:
        """Say that a symbol means the same in two states."""
        elements = self._theory.elements
        numbers = [
            z3.FreshConst(z3.IntSort() if sort.number is int else z3.RealSort())
            for sort in symbol.sorts
            if sort not in elements
        ]
        unused = iter(numbers)
        places = [elements[s] if s in elements else [next(unused)] for s in symbol.sorts]
        same = z3.And(
            [one[symbol](*args) == other[symbol](*args) for args in itertools.product(*places)]
        )
        return z3.ForAll(numbers, same) if numbers else same

    def _steps(self) -> tuple[str, ...]:
        solution = self._solver.model()
        steps = []
        for chosen in self._chosen:
            for name, (happens, args) in chosen.items():
                if z3.is_true(solution.eval(happens, model_completion=True)):
                    values = [str(solution.eval(arg, model_completion=True)) for arg in args]
                    given = ", ".join(value.partition("!")[0] for value in values)
                    steps.append(f"{name}({given})")
        return tuple(steps)


def find_run(page: Page, *, size: int = 2, depth: int = 10, effort: float = EFFORT) -> Run:
    """Search for a run of at most `depth` steps from the start that breaks a promise."""
    return RunSearch(page, size, effort).find(depth)
