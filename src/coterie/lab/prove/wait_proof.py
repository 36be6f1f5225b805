"""Every wait ends: the claims about sets that shrink, put to the solver."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from coterie.lab.prove.proof import EFFORT, Result, decide
from coterie.lab.prove.solver import z3
from coterie.lab.prove.terms import Formula, PageError, Term, formula, quantify
from coterie.lab.prove.theory import Theory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from coterie.lab.prove.page import Action, Page
    from coterie.lab.prove.waits import Help, Waits
    from coterie.lab.prove.theory import Meaning, Scope

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
    """A claim about a step, or about all states, and what is wrong if it does not hold."""

    place: str
    claim: str
    wrong: list[Any]


class WaitObligation(NamedTuple):
    """A claim with its answer."""

    place: str
    claim: str
    result: Result
    seconds: float


def prove_waits(
    page: Page, waits: Waits, *, effort: float = EFFORT
) -> list[WaitObligation]:
    """Put every claim to the solver."""
    found = []
    for place, claim, wrong in WaitReader(page, waits, Theory(page)).questions():
        began = time.perf_counter()
        result = decide(wrong, effort)
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
        theory, before = self.theory, self.theory.before
        holds = theory.laws + theory.holds(self.page.axioms) + theory.holds(self.page.clauses)
        waits = theory.read(formula(self.waits.waiting(self._me)), self._scope, before)
        for question in itertools.chain(self._of_steps(), self._of_states()):
            yield question._replace(wrong=[*holds, waits, *question.wrong])

    def _of_steps(self) -> Iterator[WaitQuestion]:
        theory, before = self.theory, self.theory.before
        for action in self.page.actions:
            args = theory.constants(action.params, "step")
            after = theory.after(action, args)
            still = theory.read(formula(self.waits.waiting(self._me)), self._scope, after)
            step = [theory.read(action.guard, args, before), still]
            for number, ranked in enumerate(self._sets, 1):
                scope = {**self._scope, **theory.constants(ranked.things, "member")}
                joins = theory.read(ranked.test, scope, after)
                was = theory.read(ranked.test, scope, before)
                wrong = [*step, *self._same_up_to(ranked.level, after), joins, z3.Not(was)]
                yield WaitQuestion(action.name, GROWS.format(number), wrong)
            for number, help_ in enumerate(self.waits.helps, 1):
                yield from self._of_help(action, args, after, step, number, help_)

    def _of_help(
        self,
        action: Action,
        args: Scope,
        after: Meaning,
        step: list[Any],
        number: int,
        help_: Help,
    ) -> Iterator[WaitQuestion]:
        sign, scope, given = self._sign(help_)
        stands = self.theory.read(sign, scope, self.theory.before)
        smaller = self._is_smaller(after)
        others: list[Any] = []
        if help_.action == action.name:
            taken = [args[param] == value for param, value in zip(action.params, given, strict=True)]
            wrong = [*step, stands, *taken, z3.Not(smaller)]
            yield WaitQuestion(action.name, FALLS.format(number), wrong)
            others = [z3.Not(z3.And(taken))]
        stays = z3.Or(self.theory.read(sign, scope, after), smaller)
        wrong = [*step, stands, *others, z3.Not(stays)]
        yield WaitQuestion(action.name, STAYS.format(number), wrong)

    def _of_states(self) -> Iterator[WaitQuestion]:
        before = self.theory.before
        signs = []
        for number, help_ in enumerate(self.waits.helps, 1):
            sign, scope, given = self._sign(help_)
            action = self._action(help_.action)
            args = dict(zip(action.params, given, strict=True))
            possible = self.theory.read(action.guard, args, before)
            wrong = [self.theory.read(sign, scope, before), z3.Not(possible)]
            yield WaitQuestion(help_.action, POSSIBLE.format(number), wrong)
            things = [thing for thing in scope if thing is not self._me]
            signs.append(self.theory.read(quantify("some", things, sign), self._scope, before))
        given_ = self.theory.read(formula(self.waits.given), {}, before)
        yield WaitQuestion(ENDS, HELPED, [given_, z3.Not(z3.Or(signs))])

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
