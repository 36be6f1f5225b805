"""A page on plain values: which clauses hold in a state, and where its actions lead from there.

A state gives each symbol that changes its values: a relation is a set of tuples, a function a dict
from tuples. A function may leave out what does not matter now; that must then not be read, and is
not compared.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from coterie.lab.prove.terms import Formula

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    from coterie.lab.prove.page import Action, Clause, Page, Symbol
    from coterie.lab.prove.terms import Term

State: TypeAlias = dict[str, Any]  # of each symbol that changes, by name
Things: TypeAlias = Mapping[str, "Sequence[Any]"]  # of each sort, by name
Fixed: TypeAlias = Mapping[str, Callable[..., Any]]  # what does not change, by name
Compiled: TypeAlias = Callable[..., Any]

OPERATORS = {
    "and": "({0} and {1})",
    "or": "({0} or {1})",
    "not": "(not {0})",
    "implies": "(not {0} or {1})",
    "equal": "({0} == {1})",
    "less": "({0} < {1})",
    "at most": "({0} <= {1})",
    "if": "({1} if {0} else {2})",
    "plus": "({0} + {1})",
    "minus": "({0} - {1})",
}


class Move(NamedTuple):
    """An action with its arguments, and the state that it leads to."""

    name: str
    args: tuple[Any, ...]
    after: State


class PlainPage:
    """A page compiled to Python, with what is fixed given."""

    def __init__(self, page: Page, things: Things, fixed: Fixed) -> None:
        """Take the things of the sorts of which there are a few; others are those that states name."""
        self.changing = [symbol for symbol in page.symbols if not symbol.fixed]
        self._things = things
        self._fixed = fixed
        self._clauses = [_CompiledClause(clause) for clause in page.clauses]
        self._starts = [_CompiledClause(clause) for clause in page.starts]
        self._actions = [_CompiledAction(action) for action in page.actions]
        self._sorts = {sort.__name__ for sort in page.sorts} | {"Int"}
        # What a thing has for good, such as the time of a stamp, is a thing as well.
        self._parts = [s for s in page.symbols if s.fixed and s.to.__name__ in self._sorts]

    def things(self, *states: State) -> Things:
        """List the things that there are: those that were given, and those that the states name."""
        found: dict[str, set[Any]] = {name: set() for name in self._sorts}
        for state, symbol in itertools.product(states, self.changing):
            table = state[symbol.name]
            for args in table:
                for sort, arg in zip(symbol.sorts, args, strict=True):
                    found[sort.__name__].add(arg)
            if symbol.to is not Formula and symbol.to.__name__ in found:
                found[symbol.to.__name__].update(table.values())
        for part in self._parts:
            if len(part.sorts) == 1:
                owners = list(found[part.sorts[0].__name__])
                found[part.to.__name__].update(self._fixed[part.name](each) for each in owners)
        return {**{name: sorted(values) for name, values in found.items()}, **self._things}

    def broken(self, state: State, *, at_start: bool = False) -> list[str]:
        """Name the clauses that do not hold in a state; one that reads what is left out does not."""
        things = self.things(state)
        clauses = self._starts if at_start else self._clauses
        return [clause.name for clause in clauses if not clause.holds(state, things, self._fixed)]

    def moves(self, state: State, things: Things, allowed: Callable[..., bool]) -> Iterator[Move]:
        """Make every step of the page that is allowed by its name and arguments."""
        for action in self._actions:
            for args in itertools.product(*(things[sort] for sort in action.sorts)):
                if allowed(action.name, args):
                    after = action.apply(state, things, self._fixed, args)
                    if after is not None:
                        yield Move(action.name, args, after)

    def path(
        self, before: State, after: State, allowed: Callable[..., bool], longest: int
    ) -> list[Move] | None:
        """Find the shortest way from one state to another, of at most so many steps."""
        if self._leads_to(before, after):
            return []
        things = self.things(before, after)
        seen = {self.key(before)}
        level: list[tuple[State, list[Move]]] = [(before, [])]
        for _ in range(longest):
            found = []
            for state, way in level:
                for move in self.moves(state, things, allowed):
                    if self._leads_to(move.after, after):
                        return [*way, move]
                    key = self.key(move.after)
                    if key not in seen:
                        seen.add(key)
                        found.append((move.after, [*way, move]))
            level = found
        return None

    def play(
        self, before: State, after: State, way: Iterable[tuple[str, tuple[Any, ...]]]
    ) -> list[Move] | None:
        """Make steps of the page one after the other; None if one is not possible, or they lead elsewhere."""
        things = self.things(before, after)
        actions = {action.name: action for action in self._actions}
        state, made = before, []
        for name, args in way:
            reached = actions[name].apply(state, things, self._fixed, args)
            if reached is None:
                return None
            state = reached
            made.append(Move(name, args, state))
        return made if self._leads_to(state, after) else None

    def key(self, state: State) -> Hashable:
        """Return what two states have in common that are the same."""
        return tuple(
            frozenset(state[s.name] if s.to is Formula else state[s.name].items())
            for s in self.changing
        )

    def _leads_to(self, reached: State, wanted: State) -> bool:
        """Return whether both are the same as far as the wanted one says."""
        for symbol in self.changing:
            one, other = reached[symbol.name], wanted[symbol.name]
            if symbol.to is Formula:
                if one != other:
                    return False
            elif not other.items() <= one.items():
                return False
        return True


class _CompiledClause:
    def __init__(self, clause: Clause) -> None:
        self.name = clause.name
        self._test = _compiled(clause.formula, ())

    def holds(self, state: State, things: Things, fixed: Fixed) -> bool:
        try:
            return bool(self._test(state, things, fixed))
        except KeyError:  # it reads what the state leaves out
            return False


class _Assignment(NamedTuple):
    symbol: Symbol[Any]
    keys: Sequence[Compiled]
    free: Sequence[str]  # the sorts of what is free
    value: Compiled


class _CompiledAction:
    def __init__(self, action: Action) -> None:
        self.name = action.name
        self.sorts = [type(param).__name__ for param in action.params]
        self._guard = _compiled(action.guard, action.params)
        self._assignments = []
        for symbol, updates in action.updates.items():
            for pattern, free, value in updates:
                variables = [*action.params, *free]
                keys = [_compiled(place, variables) for place in pattern]
                sorts = [type(thing).__name__ for thing in free]
                self._assignments.append(
                    _Assignment(symbol, keys, sorts, _compiled(value, variables))
                )

    def apply(
        self, state: State, things: Things, fixed: Fixed, args: tuple[Any, ...]
    ) -> State | None:
        """Return the state after the step; None if its guard fails or reads what is left out."""
        try:
            if not self._guard(state, things, fixed, *args):
                return None
        except KeyError:
            return None
        after = dict(state)
        for symbol, keys, sorts, value in self._assignments:
            if after[symbol.name] is state[symbol.name]:
                after[symbol.name] = state[symbol.name].copy()
            table = after[symbol.name]
            for free in itertools.product(*(things[sort] for sort in sorts)):
                given = (state, things, fixed, *args, *free)
                key = tuple(part(*given) for part in keys)
                if symbol.to is Formula:
                    (table.add if value(*given) else table.discard)(key)
                else:
                    _assign(table, key, value, given)
        return after


def _assign(
    table: dict[Any, Any], key: tuple[Any, ...], value: Compiled, given: tuple[Any, ...]
) -> None:
    """Set a value; one that is made of what is left out is left out, too."""
    try:
        table[key] = value(*given)
    except KeyError:
        table.pop(key, None)


def _compiled(term: Term, variables: Iterable[Term]) -> Compiled:
    """Compile a term to a function of a state, the things, what is fixed, and variables."""
    names = {variable: f"v{place}" for place, variable in enumerate(variables)}
    params = "".join(f", {name}" for name in names.values())
    text = f"lambda state, things, fixed{params}: {_source(term, names)}"
    compiled: Compiled = eval(text, {"Fraction": Fraction})  # noqa: S307 - of a page alone
    return compiled


def _source(term: Term, names: Mapping[Term, str]) -> str:
    if term.op == "var":
        return names[term]
    if term.op in ("number", "truth"):
        return repr(term.data)
    if term.op in ("every", "some"):
        return _loop(term, names)
    below = [_source(arg, names) for arg in term.args]
    if term.op == "app":
        return _reading(term.data, below)
    return OPERATORS[term.op].format(*below)


def _loop(term: Term, names: Mapping[Term, str]) -> str:
    inner = dict(names)
    loops = []
    for variable in term.data:
        inner[variable] = f"v{len(inner)}"
        loops.append(f"for {inner[variable]} in things[{type(variable).__name__!r}]")
    test = "all" if term.op == "every" else "any"
    return f"{test}({_source(term.args[0], inner)} {' '.join(loops)})"


def _reading(symbol: Symbol[Any], args: list[str]) -> str:
    if symbol.fixed:
        return f"fixed[{symbol.name!r}]({', '.join(args)})"
    key = f"({''.join(f'{each}, ' for each in args)})"
    table = f"state[{symbol.name!r}]"
    return f"({key} in {table})" if symbol.to is Formula else f"{table}[{key}]"
