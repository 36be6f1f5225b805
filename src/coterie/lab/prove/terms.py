"""Terms and formulas: trees that a solver, a search and plain Python read, each in its own way.

A sort is a class: things of it are written as its instances, so that `p: Process` says the sort of a
parameter to readers and type checkers alike. `&`, `|`, `~` and `>>` (implies) make formulas; `==`
and, where things are ordered or numbers, `<` and the like compare terms.
"""

from __future__ import annotations

import inspect
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn, TypeVar

from coterie.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Self

    from coterie.lab.prove.page import Symbol

Op = Literal[
    "var",  # data: its name
    "app",  # data: the symbol
    "number",  # data: an int or a Fraction
    "truth",  # data: a bool
    "and",
    "or",
    "not",
    "implies",
    "equal",
    "less",
    "at most",
    "if",
    "plus",
    "minus",
    "every",  # data: the variables
    "some",  # data: the variables
]
SIGNS = {
    "and": "&",
    "or": "|",
    "implies": ">>",
    "equal": "==",
    "less": "<",
    "at most": "<=",
    "plus": "+",
    "minus": "-",
}


class PageError(UsageError):
    """A page that says something which has no meaning."""


class Term:
    """A tree: an operation, the terms below it, and a name or value where the operation needs one."""

    ordered: ClassVar[bool] = False
    number: ClassVar[type | None] = None  # what its values are in plain Python, if they are numbers

    def __init__(self, op: Op, args: tuple[Term, ...] = (), data: Any = None) -> None:
        """Take it as it is; the functions of this module make sure that the sorts fit."""
        self.op = op
        self.args = args
        self.data = data

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        """Refuse: a formula is for the solver, which decides it later."""
        raise PageError(
            f"{self} has no truth value here: write & | ~ >> and choose(...), not and, or, not, if,"
            " a < b < c"
        )

    def __eq__(self, other: object) -> Formula:  # type: ignore[override]
        """Say that both are the same thing."""
        return Formula("equal", _of_one_sort(self, other))

    def __ne__(self, other: object) -> Formula:  # type: ignore[override]
        """Say that they are two things."""
        return ~(self == other)

    def __repr__(self) -> str:
        """Write it as in a page."""
        return show(self)

    def symbols(self) -> Iterator[Symbol[Any]]:
        """Name the relations and functions that it reads."""
        if self.op == "app":
            yield self.data
        for term in self.args:
            yield from term.symbols()


class Formula(Term):
    """A term that is true or false."""

    def __and__(self, other: Formula | bool) -> Formula:
        """Say that both hold."""
        return Formula("and", (self, formula(other)))

    def __or__(self, other: Formula | bool) -> Formula:
        """Say that one holds, or both."""
        return Formula("or", (self, formula(other)))

    def __invert__(self) -> Formula:
        """Say that it does not hold."""
        return Formula("not", (self,))

    def __rshift__(self, other: Formula | bool) -> Formula:
        """Say that the other holds where this one does."""
        return Formula("implies", (self, formula(other)))


class Thing(Term):
    """A sort of things that are the same or not, and no more is known of them."""

    def _refuse(self, _: object) -> NoReturn:
        """Refuse to compare what has no order."""
        sort = type(self).__name__
        raise PageError(f"{self} is a {sort}, which has no order: derive {sort} from Ordered")

    __lt__ = __le__ = __gt__ = __ge__ = _refuse


class Ordered(Term):
    """A sort of things in a total order, such as process ids and times."""

    ordered = True

    def __lt__(self, other: Self | int) -> Formula:
        """Say that it comes before the other."""
        return Formula("less", _of_one_sort(self, other))

    def __le__(self, other: Self | int) -> Formula:
        """Say that it does not come after the other."""
        return Formula("at most", _of_one_sort(self, other))

    def __gt__(self, other: Self | int) -> Formula:
        """Say that it comes after the other."""
        return Formula("less", _of_one_sort(self, other)[::-1])

    def __ge__(self, other: Self | int) -> Formula:
        """Say that it does not come before the other."""
        return Formula("at most", _of_one_sort(self, other)[::-1])


class Number(Ordered):
    """A sort of numbers, which can be added."""

    def __add__(self, other: Self | int) -> Self:
        """Return the sum."""
        return type(self)("plus", _of_one_sort(self, other))

    def __sub__(self, other: Self | int) -> Self:
        """Return the difference."""
        return type(self)("minus", _of_one_sort(self, other))


class Int(Number):
    """The integers."""

    number = int


class Real(Number):
    """The real numbers: times of clocks that run at any rate."""

    number = Fraction


Sort = type[Term]
TermT = TypeVar("TermT", bound=Term)
OrderedT = TypeVar("OrderedT", bound=Ordered)


def lift(value: object, sort: type[TermT]) -> TermT:
    """Return a value of Python as a term of this sort; refuse a term of another sort."""
    if isinstance(value, sort):
        return value
    if isinstance(value, Term):
        raise PageError(f"{value} is a {_name(type(value))}, where a {_name(sort)} is needed")
    if isinstance(value, bool) and sort is Formula:
        return sort("truth", (), value)
    if isinstance(value, int) and not isinstance(value, bool) and sort.number is not None:
        return sort("number", (), sort.number(value))
    raise PageError(f"{value!r} is no {_name(sort)}")


def formula(value: object) -> Formula:
    """Return a formula, or True or False as one."""
    return lift(value, Formula)


def choose(test: Formula, yes: TermT, no: TermT | int) -> TermT:
    """Return one term where the formula holds, and the other where it does not."""
    return type(yes)("if", (formula(test), yes, lift(no, type(yes))))


def later(one: OrderedT, other: OrderedT) -> OrderedT:
    """Return the one that comes last in their order."""
    return choose(one < other, other, one)


def every(*sorts_and_body: Any) -> Formula:
    """Say that it holds for every thing of a sort: `every(Process, lambda p, q: …)`.

    With one sort, all parameters are of it; else each has its own.
    """
    return _quantified("every", *sorts_and_body)


def some(*sorts_and_body: Any) -> Formula:
    """Say that it holds for some things."""
    return _quantified("some", *sorts_and_body)


def none(*sorts_and_body: Any) -> Formula:
    """Say that there are no such things."""
    return ~_quantified("some", *sorts_and_body)


def least(
    sort: type[TermT],
    test: Callable[[TermT], Formula],
    before: Callable[[TermT, TermT], Formula],
) -> Formula:
    """Say that, if some fulfil the test, one of them comes before all others.

    It is so where finitely many do. No formula of this language says finite, so a theorem that
    needs it takes this as its hypothesis.
    """
    return some(sort, test) >> some(
        sort, lambda x: test(x) & every(sort, lambda y: test(y) >> ~before(y, x))
    )


def quantify(op: Literal["every", "some"], variables: list[Term], body: Formula) -> Formula:
    """Bind variables that the body has; without any, the body itself."""
    return Formula(op, (body,), tuple(variables)) if variables else body


def _quantified(op: Literal["every", "some"], *sorts_and_body: Any) -> Formula:
    *sorts, body = sorts_and_body
    names = list(inspect.signature(body).parameters)
    if len(sorts) == 1:
        sorts *= len(names)
    if len(sorts) != len(names):
        raise PageError(f"{len(sorts)} sorts for {len(names)} things: {', '.join(names)}")
    variables = [sort("var", (), name) for sort, name in zip(sorts, names, strict=True)]
    return quantify(op, variables, formula(body(*variables)))


def _of_one_sort(one: Term, other: object) -> tuple[Term, Term]:
    sort = type(one)
    if isinstance(other, Term) and type(other) is not sort:
        raise PageError(
            f"{one} is a {_name(sort)} and {other} a {_name(type(other))}: they cannot be compared"
        )
    return one, lift(other, sort)


def _name(sort: Sort) -> str:
    return "formula" if sort is Formula else sort.__name__


def show(term: Term) -> str:
    """Write a term as a page does."""
    below = [show(each) for each in term.args]
    match term.op:
        case "app":
            return f"{term.data.name}({', '.join(below)})" if below else str(term.data.name)
        case "every" | "some":
            names = ", ".join(str(variable.data) for variable in term.data)
            return f"({term.op} {names}: {below[0]})"
        case "not":
            return f"~{below[0]}"
        case "if":
            return f"choose({', '.join(below)})"
        case "var" | "number" | "truth":
            return str(term.data)
        case _:
            return f"({f' {SIGNS[term.op]} '.join(below)})"
