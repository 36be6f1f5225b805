"""How a page looks to the solver: for any number of things, or for a few of each sort.

With a few, quantifiers are written out, so that the solver always decides and can show a state.
"""

from __future__ import annotations

import itertools
import operator
from typing import TYPE_CHECKING, Any, TypeAlias

from coterie.lab.prove.solver import z3
from coterie.lab.prove.terms import Formula, Int, Ordered, Real

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from coterie.lab.prove.page import Action, Clause, Page, Symbol, Update
    from coterie.lab.prove.terms import Sort, Term

    Scope: TypeAlias = Mapping[Term, Any]  # the solver's constants for the variables of a page
    Meaning: TypeAlias = Mapping[Symbol[Any], Callable[..., Any]]  # of all symbols, in one state

OPERATIONS = {
    "and": z3.And,
    "or": z3.Or,
    "not": z3.Not,
    "implies": z3.Implies,
    "if": z3.If,
    "plus": operator.add,
    "minus": operator.sub,
}
_worlds = itertools.count()  # z3 takes the name of a sort of so many things once


class Theory:
    """The sorts and symbols of a page as the solver's own, and its formulas read with them."""

    def __init__(
        self,
        page: Page,
        size: int | Mapping[Sort, int] | None = None,
        *,
        integers: Collection[Sort] = (),
    ) -> None:
        """Read for any number of things; with a size, for so many of each sort but of the integers."""
        self.page = page
        self.elements: dict[Sort, list[Any]] = {}
        self.laws: list[Any] = []  # that orders are total
        self._sorts: dict[Sort, Any] = {
            Formula: z3.BoolSort(),
            Int: z3.IntSort(),
            Real: z3.RealSort(),
        }
        self._orders: dict[Sort, Callable[[Any, Any], Any]] = {}
        self._names = itertools.count()
        for sort in page.sorts:
            if sort in integers:
                self._sorts[sort] = z3.IntSort()
            elif size is None:
                self._declare(sort)
            else:
                self._enumerate(sort, size if isinstance(size, int) else size[sort])
        self.before: Meaning = {symbol: self.fresh(symbol) for symbol in page.symbols}

    def _declare(self, sort: Sort) -> None:
        made = self._sorts[sort] = z3.DeclareSort(sort.__name__)
        if not issubclass(sort, Ordered):
            return
        order = z3.Function(f"{sort.__name__} at most", made, made, z3.BoolSort())
        self._orders[sort] = order
        a, b, c = z3.Consts("a b c", made)
        self.laws += [
            z3.ForAll([a], order(a, a)),
            z3.ForAll([a, b], z3.Implies(z3.And(order(a, b), order(b, a)), a == b)),
            z3.ForAll([a, b, c], z3.Implies(z3.And(order(a, b), order(b, c)), order(a, c))),
            z3.ForAll([a, b], z3.Or(order(a, b), order(b, a))),
        ]

    def _enumerate(self, sort: Sort, size: int) -> None:
        letter, world = sort.__name__[0].lower(), next(_worlds)
        names = [f"{letter}{place + 1}!{sort.__name__}{world}" for place in range(size)]
        made, things = z3.EnumSort(f"{sort.__name__}!{world}", names)
        self._sorts[sort] = made
        self.elements[sort] = things
        if issubclass(sort, Ordered):
            ranks = {thing.get_id(): rank for rank, thing in enumerate(things)}

            def at_most(one: Any, other: Any) -> Any:
                if one.get_id() in ranks and other.get_id() in ranks:
                    return z3.BoolVal(ranks[one.get_id()] <= ranks[other.get_id()])
                pairs = itertools.combinations_with_replacement(things, 2)
                return z3.Or([z3.And(self.same(one, a), self.same(other, b)) for a, b in pairs])

            self._orders[sort] = at_most

    def fresh(self, symbol: Symbol[Any], moment: str = "") -> Any:
        """Return the solver's function for a symbol, at a moment of a run."""
        sorts = [self._sorts[sort] for sort in (*symbol.sorts, symbol.to)]
        return z3.Function(f"{symbol.name}{moment}", *sorts)

    def constants(self, variables: Iterable[Term], use: str) -> dict[Term, Any]:
        """Return a constant for each variable, such as the arguments of a step."""
        return {v: z3.Const(f"{v.data}!{use}", self._sorts[type(v)]) for v in variables}

    def same(self, one: Any, other: Any) -> Any:
        """Say that both are one thing; two of the few things of a sort are known to be two."""
        if self.elements and all(_is_named(thing) for thing in (one, other)):
            return z3.BoolVal(one.eq(other))
        return one == other

    def holds(self, clauses: Iterable[Clause], meaning: Meaning | None = None) -> list[Any]:
        """Read clauses in a state, by default the one before a step."""
        meaning = self.before if meaning is None else meaning
        return [self.read(clause.formula, {}, meaning) for clause in clauses]

    def fails(self, clause: Clause, meaning: Meaning) -> tuple[Any, dict[Term, Any]]:
        """Say that a clause does not hold; the things for which it fails get names."""
        whole = clause.formula
        if whole.op != "every":
            return z3.Not(self.read(whole, {}, meaning)), {}
        witness = self.constants(whole.data, "witness")
        return z3.Not(self.read(whole.args[0], witness, meaning)), witness

    def after(self, action: Action, scope: Scope, before: Meaning | None = None) -> Meaning:
        """Return what the symbols mean after a step, in terms of the state before it."""
        before = self.before if before is None else before
        changed = {
            symbol: self._updated(symbol, updates, scope, before)
            for symbol, updates in action.updates.items()
        }
        return {**before, **changed}

    def _updated(
        self, symbol: Symbol[Any], updates: Sequence[Update], scope: Scope, before: Meaning
    ) -> Callable[..., Any]:
        def meaning(*args: Any) -> Any:
            value = before[symbol](*args)
            for pattern, free, new in updates:
                inner, tests = dict(scope), []
                for place, arg in zip(pattern, args, strict=True):
                    if any(place is thing for thing in free):
                        inner[place] = arg
                    else:
                        tests.append((place, arg))
                found = [self.same(self.read(p, inner, before), arg) for p, arg in tests]
                changed = self.read(new, inner, before)
                value = z3.If(z3.And(found), changed, value) if found else changed
            return value

        return meaning

    def read(self, term: Term, scope: Scope, meaning: Meaning) -> Any:
        """Return a term as the solver's own."""
        if term.op == "var":
            return scope[term]
        if term.op in ("every", "some"):
            return self._quantified(term, scope, meaning)
        below = [self.read(arg, scope, meaning) for arg in term.args]
        if term.op == "app":
            return meaning[term.data](*below)
        return self._combine(term, below)

    def _combine(self, term: Term, below: list[Any]) -> Any:
        if term.op == "equal":
            return self.same(*below)
        if term.op in ("less", "at most"):
            return self._compare(type(term.args[0]), below, strictly=term.op == "less")
        if term.op == "truth":
            return z3.BoolVal(term.data)
        if term.op == "number":
            return z3.IntVal(term.data) if type(term) is Int else z3.RealVal(str(term.data))
        return OPERATIONS[term.op](*below)

    def _compare(self, sort: Sort, below: list[Any], *, strictly: bool) -> Any:
        one, other = below
        if sort not in self._orders:  # numbers
            return one < other if strictly else one <= other
        comes = self._orders[sort](one, other)
        return z3.And(comes, z3.Not(self.same(one, other))) if strictly else comes

    def _quantified(self, term: Term, scope: Scope, meaning: Meaning) -> Any:
        join, bind = (z3.And, z3.ForAll) if term.op == "every" else (z3.Or, z3.Exists)
        few = [v for v in term.data if type(v) in self.elements]
        many = [v for v in term.data if type(v) not in self.elements]
        # A name of its own for each: what a step puts in here may have bound one of the same name.
        bound = {v: z3.Const(f"{v.data}{next(self._names)}", self._sorts[type(v)]) for v in many}
        cases = []
        for things in itertools.product(*(self.elements[type(v)] for v in few)):
            inner = {**scope, **bound, **dict(zip(few, things, strict=True))}
            cases.append(self.read(term.args[0], inner, meaning))
        whole = join(cases) if few else cases[0]
        return bind(list(bound.values()), whole) if bound else whole


def _is_named(thing: Any) -> bool:
    """Return whether it is one of the few things of a sort itself, and not a function's value."""
    return bool(z3.is_app(thing) and thing.decl().kind() == z3.Z3_OP_DT_CONSTRUCTOR)
