"""Every wait ends: the claims about sets that shrink, put to the solver."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from coterie.lab.prove.proof import EFFORT, Result, decide
from coterie.lab.prove.solver import z3
from coterie.lab.prove.terms import Formula, PageError, Term, formula, quantify
from coterie.lab.prove.theory import Theory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from coterie.lab.prove.page import Action, Page
    from coterie.lab.prove.theory import Meaning, Scope
    from coterie.lab.prove.waits import Help, Waits

GROWS = "set {} does not grow"
FALLS = "help {} makes the rank smaller"
STAYS = "help {} stays possible"
POSSIBLE = "help {} is possible"
HELPED = "some help is there"
ENDS = "the end of waits"


class RankSet(NamedTuple):
    """A set of tuples of things; the first argument of its test is the one that waits."""

    level: int
    things: tuple[Term, ...]
    test: Formula


class WaitQuestion(NamedTuple):
    """A claim about a step, or about all states, and what to say for the opposite of it."""

    place: str
    claim: str
    wrong: Callable[[], list[Any]]


class WaitStep(NamedTuple):
    """A step as the solver reads it: with constants for its parameters, and the state after it."""

    action: Action
    args: Scope
    after: Meaning


class WaitObligation(NamedTuple):
    """A claim with its answer."""

    place: str
    claim: str
    result: Result
    seconds: float


def prove_waits(page: Page, waits: Waits, *, effort: float = EFFORT) -> list[WaitObligation]:
    """Put every claim to the solver."""
    found = []
    for place, claim, wrong in WaitReader(page, waits, Theory(page)).questions():
        began = time.perf_counter()
        result = decide(wrong(), effort)
        found.append(WaitObligation(place, claim, result, time.perf_counter() - began))
    return found


@dataclass
class WaitReader:
    """The claims of a page's waits, as the solver reads them."""

    page: Page
    waits: Waits
    theory: Theory
    _me: Term = field(init=False)
    _scope: dict[Term, Any] = field(init=False)
    _sets: list[RankSet] = field(init=False)

    def __post_init__(self) -> None:
        """Name the one that waits, and write its sets."""
        self._me = self.waits.sort("var", (), "waiting")
        self._scope = self.theory.constants([self._me], "wait")
        self._sets = []
        for level, sets in enumerate(self.waits.levels):
            for sorts, test in sets:
                things = tuple(sort("var", (), f"x{n}") for n, sort in enumerate(sorts))
                self._sets.append(RankSet(level, things, formula(test(self._me, *things))))

    def questions(self) -> Iterator[WaitQuestion]:
        """List all that has to be shown, in any state that fulfils the clauses."""
        for action in self.page.actions:
            step = self._step(action)
            for number, ranked in enumerate(self._sets, 1):
                grows = partial(self._grows, step, ranked)
                yield WaitQuestion(action.name, GROWS.format(number), grows)
            for number, help_ in enumerate(self.waits.helps, 1):
                if help_.action == action.name:
                    stays = partial(self._does_not_fall, step, help_)
                    yield WaitQuestion(action.name, FALLS.format(number), stays)
                ends = partial(self._ends, step, help_)
                yield WaitQuestion(action.name, STAYS.format(number), ends)
        for number, help_ in enumerate(self.waits.helps, 1):
            impossible = partial(self._is_impossible, help_)
            yield WaitQuestion(help_.action, POSSIBLE.format(number), impossible)
        yield WaitQuestion(ENDS, HELPED, self._is_helpless)

    @cached_property
    def _holds(self) -> list[Any]:
        """Say that the state fulfils all clauses, and that one waits in it."""
        theory = self.theory
        clauses = theory.laws + theory.holds(self.page.axioms) + theory.holds(self.page.clauses)
        waits = formula(self.waits.waiting(self._me))
        return [*clauses, theory.read(waits, self._scope, theory.before)]

    def _step(self, action: Action) -> WaitStep:
        args = self.theory.constants(action.params, "step")
        return WaitStep(action, args, self.theory.after(action, args))

    def _happens(self, step: WaitStep) -> list[Any]:
        """Say that the step happens, and the wait lasts."""
        waits = formula(self.waits.waiting(self._me))
        return [
            *self._holds,
            self.theory.read(step.action.guard, step.args, self.theory.before),
            self.theory.read(waits, self._scope, step.after),
        ]

    def _grows(self, step: WaitStep, ranked: RankSet) -> list[Any]:
        scope = {**self._scope, **self.theory.constants(ranked.things, "member")}
        joins = self.theory.read(ranked.test, scope, step.after)
        was = self.theory.read(ranked.test, scope, self.theory.before)
        unchanged = self._same_up_to(ranked.level, step.after)
        return [*self._happens(step), *unchanged, joins, z3.Not(was)]

    def _does_not_fall(self, step: WaitStep, help_: Help) -> list[Any]:
        sign, scope, given = self._sign(help_)
        stands = self.theory.read(sign, scope, self.theory.before)
        taken = self._taken(step, given)
        return [*self._happens(step), stands, *taken, z3.Not(self._is_smaller(step.after))]

    def _ends(self, step: WaitStep, help_: Help) -> list[Any]:
        """Say that the sign goes, though its step was not taken and the rank did not fall."""
        sign, scope, given = self._sign(help_)
        stands = self.theory.read(sign, scope, self.theory.before)
        stays = z3.Or(self.theory.read(sign, scope, step.after), self._is_smaller(step.after))
        is_it = help_.action == step.action.name
        other = [z3.Not(z3.And(self._taken(step, given)))] if is_it else []
        return [*self._happens(step), stands, *other, z3.Not(stays)]

    def _is_impossible(self, help_: Help) -> list[Any]:
        sign, scope, given = self._sign(help_)
        action = self._action(help_.action)
        args = dict(zip(action.params, given, strict=True))
        possible = self.theory.read(action.guard, args, self.theory.before)
        stands = self.theory.read(sign, scope, self.theory.before)
        return [*self._holds, stands, z3.Not(possible)]

    def _is_helpless(self) -> list[Any]:
        """Say that no sign stands."""
        signs = []
        for help_ in self.waits.helps:
            sign, scope, _ = self._sign(help_)
            things = [thing for thing in scope if thing is not self._me]
            whole = quantify("some", things, sign)
            signs.append(self.theory.read(whole, self._scope, self.theory.before))
        given = self.theory.read(formula(self.waits.given), {}, self.theory.before)
        return [*self._holds, given, z3.Not(z3.Or(signs))]

    def _taken(self, step: WaitStep, given: list[Any]) -> list[Any]:
        """Say that the step is the one that helps."""
        params = step.action.params
        return [step.args[param] == value for param, value in zip(params, given, strict=True)]

    def _sign(self, help_: Help) -> tuple[Formula, dict[Term, Any], list[Any]]:
        """Return the sign for some things, constants for these, and the arguments of the step."""
        things = [sort("var", (), f"h{n}") for n, sort in enumerate(help_.sorts)]
        scope = {**self._scope, **self.theory.constants(things, "help")}
        args = help_.args(self._me, *things)
        given = [self.theory.read(arg, scope, self.theory.before) for arg in args]
        return formula(help_.sign(self._me, *things)), scope, given

    def _action(self, name: str) -> Action:
        for action in self.page.actions:
            if action.name == name:
                return action
        raise PageError(f"{self.page.name}: there is no action {name} to help with")

    def _same_up_to(self, level: int, after: Meaning) -> list[Any]:
        """Say that all sets of the levels before are unchanged."""
        return [self._unchanged(ranked, after) for ranked in self._sets if ranked.level < level]

    def _unchanged(self, ranked: RankSet, after: Meaning) -> Any:
        bound = self.theory.constants(ranked.things, "same")
        scope = {**self._scope, **bound}
        was = self.theory.read(ranked.test, scope, self.theory.before)
        same = was == self.theory.read(ranked.test, scope, after)
        return z3.ForAll(list(bound.values()), same) if bound else same

    def _is_smaller(self, after: Meaning) -> Any:
        """Say that some level has lost a thing, and none before it has changed."""
        cases = []
        for ranked in self._sets:
            bound = self.theory.constants(ranked.things, "lost")
            scope = {**self._scope, **bound}
            was = self.theory.read(ranked.test, scope, self.theory.before)
            lost = z3.And(was, z3.Not(self.theory.read(ranked.test, scope, after)))
            lost = z3.Exists(list(bound.values()), lost) if bound else lost
            cases.append(z3.And(*self._same_up_to(ranked.level, after), lost))
        return z3.Or(cases)
