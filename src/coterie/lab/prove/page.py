"""A page: a protocol as relations, functions, actions, and the clauses of an invariant.

One text, three readings: `solver` hands it to a solver for every number of things, `bounded` for a
few of each sort, and `plain` runs it on values of Python, so that real processes can be held
against it. An action reads the state before it, whatever the order of its lines.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from coterie.lab.prove.slips import look_for_slips, text_of
from coterie.lab.prove.terms import Formula, PageError, Term, TermT, formula, lift, quantify, some

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from coterie.lab.prove.terms import Sort
    from coterie.lab.prove.waits import Waits

RuleT = TypeVar("RuleT", bound="Callable[..., Any]")
NO_DEADLOCK = "no_deadlock"  # the name of that theorem
POSSIBLE = "While one waits, a step is possible that no user has to ask for."


class Each:
    """Stands for every thing of a sort in an assignment: `reply[p, each] = lambda q: …`."""

    def __repr__(self) -> str:
        """Write it as in a page."""
        return "each"


each = Each()


class Update(NamedTuple):
    """One assignment: at which arguments, which of these stand for all things, and the value."""

    pattern: tuple[Term, ...]
    free: tuple[Term, ...]
    value: Term


@dataclass(eq=False)
class Action:
    """A step: it may happen where its guards hold, for some choice of its parameters."""

    name: str
    params: list[Term]
    guards: list[Formula] = field(default_factory=list)
    updates: dict[Symbol[Any], list[Update]] = field(default_factory=dict)  # later ones win
    text: str = ""  # as it stands in the file

    @property
    def guard(self) -> Formula:
        """All guards together."""
        whole = formula(True)
        for guard in self.guards:
            whole = guard if whole.op == "truth" else whole & guard
        return whole


@dataclass(frozen=True, eq=False)
class Clause:
    """A named formula without free variables, and the sentence that explains it."""

    name: str
    formula: Formula
    promised: bool = False  # what users want; the others help to prove it
    why: str = ""
    text: str = ""  # as it stands in the file

    @property
    def words(self) -> str:
        """The name as people read it."""
        return self.name.replace("_", " ")


class Deadlock(NamedTuple):
    """A theorem yet to be written: while one waits, some action other than calls is possible."""

    sort: Sort
    waiting: Callable[[Any], Formula]
    calls: tuple[str, ...]
    given: Formula
    assumption: str  # what is given, in words


_recording: list[Action] = []  # the action whose function runs now


def when(*guards: Formula) -> None:
    """Say when this action may happen."""
    _recorded("when(...)").guards.extend(formula(guard) for guard in guards)


def become(variable: TermT, value: TermT | int) -> None:
    """Give a variable its next value."""
    variable.data[()] = value


def _recorded(what: str) -> Action:
    if not _recording:
        raise PageError(f"{what} stands outside of an action")
    return _recording[-1]


class Symbol(Generic[TermT]):
    """A function from things to things; a relation is one to formulas."""

    def __init__(self, name: str, sorts: tuple[Sort, ...], to: type[TermT], *, fixed: bool) -> None:
        """Take what `Page.function` was given."""
        self.name = name
        self.sorts = sorts
        self.to = to
        self.fixed = fixed  # no action changes it

    def __call__(self, *args: object) -> TermT:
        """Return its value for these things."""
        if len(args) != len(self.sorts):
            raise PageError(f"{self.name} takes {len(self.sorts)} things, got {len(args)}")
        try:
            given = tuple(lift(arg, sort) for arg, sort in zip(args, self.sorts, strict=True))
        except PageError as error:
            raise PageError(f"{self.name}: {error}") from None
        return self.to("app", given, self)

    def __setitem__(self, args: object, value: object) -> None:
        """Change it, in an action, for one thing or for each."""
        action = _recorded(f"{self.name}[...] = ...")
        if self.fixed:
            raise PageError(f"{self.name} is fixed: no action changes it")
        places = args if isinstance(args, tuple) else (args,)
        if len(places) != len(self.sorts):
            raise PageError(f"{self.name} takes {len(self.sorts)} things, got {len(places)}")
        pattern: list[Term] = []
        free: list[Term] = []
        for place, sort in zip(places, self.sorts, strict=True):
            if isinstance(place, Each):
                free.append(sort("var", (), f"each{len(free)}"))
                pattern.append(free[-1])
            else:
                pattern.append(lift(place, sort))
        if callable(value) and not isinstance(value, Term):
            value = value(*free)
        update = Update(tuple(pattern), tuple(free), lift(value, self.to))
        action.updates.setdefault(self, []).append(update)

    def __repr__(self) -> str:
        """Write its name."""
        return self.name


class Page:
    """A protocol to be proved. Its functions are decorated below it, and their names are what users read."""

    def __init__(self, name: str, scope: str = "for every N") -> None:
        """Begin a page that says for how many, and which, it speaks."""
        self.name = name
        self.scope = scope
        self.symbols: list[Symbol[Any]] = []
        self.axioms: list[Clause] = []
        self.starts: list[Clause] = []
        self.actions: list[Action] = []
        self.clauses: list[Clause] = []
        self.flawed: dict[str, Page] = {}
        self.waits: Waits | None = None  # what shows that every wait ends, if that is shown
        self._theorems: list[Clause] = []
        self._deadlock: Deadlock | None = None

    def relation(self, name: str, *sorts: Sort, fixed: bool = False) -> Symbol[Formula]:
        """Add a relation between things."""
        return self.function(name, *sorts, to=Formula, fixed=fixed)

    def function(
        self, name: str, *sorts: Sort, to: type[TermT], fixed: bool = False
    ) -> Symbol[TermT]:
        """Add a function from things to things of one sort."""
        if any(symbol.name == name for symbol in self.symbols):
            raise PageError(f"{self.name}: two symbols are called {name}")
        symbol = Symbol(name, sorts, to, fixed=fixed)
        self.symbols.append(symbol)
        return symbol

    def variable(self, name: str, sort: type[TermT], *, fixed: bool = False) -> TermT:
        """Add one value, which `become` changes unless it is fixed."""
        return self.function(name, to=sort, fixed=fixed)()

    def axiom(self, rule: RuleT) -> RuleT:
        """Take for granted what a function returns."""
        return self._add(self.axioms, rule)

    def start(self, rule: RuleT) -> RuleT:
        """Begin in a state in which this holds."""
        return self._add(self.starts, rule)

    def safety(self, rule: RuleT) -> RuleT:
        """Promise that this holds in every state."""
        return self._add(self.clauses, rule, promised=True)

    def invariant(self, rule: RuleT) -> RuleT:
        """Add a clause that helps to prove the promises."""
        return self._add(self.clauses, rule)

    def theorem(self, rule: RuleT) -> RuleT:
        """Promise what follows from the clauses in every state, and need not be kept by itself."""
        return self._add(self._theorems, rule, promised=True)

    def no_deadlock(
        self,
        sort: type[TermT],
        waiting: Callable[[TermT], Formula],
        *,
        calls: Iterable[str],
        given: Formula | bool = True,
        assumption: str = "",
    ) -> None:
        """Promise that, while one waits, a step is possible that no user has to ask for.

        What is given is no axiom: this theorem alone rests on it.
        """
        self._deadlock = Deadlock(sort, waiting, tuple(calls), formula(given), assumption)

    def every_wait_ends(self, waits: Waits) -> None:
        """Promise that every wait ends where no possible step is left out forever."""
        self.waits = waits

    def add(self, rule: Callable[..., Any], text: str, *, promised: bool) -> None:
        """Add a clause whose text does not stand in a file."""
        self._append(self.clauses, rule, text, promised=promised)

    def action(self, rule: RuleT) -> RuleT:
        """Add a step; its function calls `when` and assigns."""
        self.actions.append(self._recorded(rule, rule.__name__))
        return rule

    def instead_of(self, replaced: Callable[..., Any]) -> Callable[[RuleT], RuleT]:
        """Put another step in the place of one of this name: so a flawed page differs in one step."""

        def decorate(rule: RuleT) -> RuleT:
            names = [action.name for action in self.actions]
            place = names.index(replaced.__name__)
            self.actions[place] = self._recorded(rule, replaced.__name__)
            return rule

        return decorate

    def flaw(self, name: str, *, without: Iterable[str] = ()) -> Page:
        """Return a copy that is known to be wrong, without these actions; change it further."""
        copy = self._copy(name)
        copy.actions = [action for action in self.actions if action.name not in set(without)]
        self.flawed[name] = copy
        return copy

    def _copy(self, change: str, omitted: Collection[str] = ()) -> Page:
        copy = Page(f"{self.name}, {change}", self.scope)
        copy.symbols, copy.actions, copy.waits = self.symbols, [*self.actions], self.waits
        copy.starts = [*self.starts]
        copy.axioms = [each for each in self.axioms if each.name not in omitted]
        copy.clauses = [each for each in self.clauses if each.name not in omitted]
        copy._theorems = [each for each in self._theorems if each.name not in omitted]
        copy._deadlock = None if NO_DEADLOCK in omitted else self._deadlock
        return copy

    @property
    def theorems(self) -> list[Clause]:
        """What follows from the clauses, the absence of deadlock included."""
        if self._deadlock is None:
            return self._theorems
        sort, waiting, calls, given, _ = self._deadlock
        possible = formula(False)
        for action in self.actions:
            if action.name not in calls:
                possible = possible | quantify("some", action.params, action.guard)
        never = (given & some(sort, waiting)) >> possible
        return [*self._theorems, Clause(NO_DEADLOCK, never, promised=True, why=POSSIBLE)]

    @property
    def assumptions(self) -> list[str]:
        """What is taken for granted, in words."""
        found = [axiom.words for axiom in self.axioms]
        if self._deadlock is not None and self._deadlock.assumption:
            found.append(f"{self._deadlock.assumption} (no deadlock alone)")
        return found

    @property
    def promises(self) -> list[Clause]:
        """What users want of it."""
        found = [clause for clause in (*self.clauses, *self.theorems) if clause.promised]
        if not found:
            raise PageError(
                f"{self.name} promises nothing: mark what users want of it by @page.safety"
            )
        return found

    @property
    def sorts(self) -> list[Sort]:
        """The sorts of things, numbers and formulas left out."""
        found = [sort for symbol in self.symbols for sort in (*symbol.sorts, symbol.to)]
        return [s for s in dict.fromkeys(found) if s is not Formula and s.number is None]

    def without(self, *names: str) -> Page:
        """Return a copy that lacks clauses, axioms or theorems, to see that the proof needs them."""
        known = [item.name for item in (*self.axioms, *self.clauses, *self.theorems)]
        for name in names:
            if name not in known:
                there = ", ".join(known)
                raise PageError(f"{self.name} has no clause or axiom {name!r}: there are {there}")
        return self._copy(f"without {', '.join(names)}", names)

    def _add(self, clauses: list[Clause], rule: RuleT, *, promised: bool = False) -> RuleT:
        self._append(clauses, rule, text_of(rule), promised=promised)
        return rule

    def _append(
        self, clauses: list[Clause], rule: Callable[..., Any], text: str, *, promised: bool
    ) -> None:
        name = rule.__name__
        try:
            look_for_slips(text)
            params = _parameters(rule)
            body = formula(rule(*params))
        except (PageError, TypeError) as error:
            raise PageError(f"{self.name}, {name}: {error}") from None
        why = inspect.getdoc(rule) or ""
        clauses.append(Clause(name, quantify("every", params, body), promised, why, text))

    def _recorded(self, rule: Callable[..., Any], name: str) -> Action:
        try:
            text = text_of(rule)
            look_for_slips(text)
            action = Action(name, _parameters(rule), text=text)
            _recording.append(action)
            try:
                rule(*action.params)
            finally:
                _recording.pop()
        except (PageError, TypeError) as error:
            raise PageError(f"{self.name}, {name}: {error}") from None
        return action


def _parameters(rule: Callable[..., Any]) -> list[Term]:
    """Make a variable of each parameter, of the sort that its annotation names."""
    known = inspect.unwrap(rule).__globals__
    found = []
    for name, parameter in inspect.signature(rule).parameters.items():
        sort = parameter.annotation
        if isinstance(sort, str):
            sort = known.get(sort)
        if not (isinstance(sort, type) and issubclass(sort, Term)):
            raise PageError(
                f"say of which sort {name} is, as in {name}: Process, a class at the top of the file"
            )
        found.append(sort("var", (), name))
    return found
