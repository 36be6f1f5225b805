"""What a reader makes of a page of proofs: clauses left out, and clauses of their own.

The text begins with a line that names the page; below it stand clauses as a page has them:

    centralized without one_holder
    def one_is_let_in(p: Process, q: Process):
        return (holder(p) & holder(q)) >> (p == q)

`variant=NAME` takes a variant, `without NAME …` leaves out clauses, axioms and theorems, and `only NAME …`
leaves out all others, which are not shown then: a lesson asks for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from coterie.errors import UsageError
from coterie.lab.play.proofs.answer import Item, Sheet, Step
from coterie.lab.prove import library
from coterie.lab.prove.clause_text import add_clauses, words_of
from coterie.lab.prove.terms import Formula

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from coterie.lab.prove.library import Entry
    from coterie.lab.prove.page import Clause, Page, Symbol

WORDS_MAX = 100  # of the first line


class Head(NamedTuple):
    """The first line of a text."""

    name: str
    variant: str
    only: tuple[str, ...]
    without: tuple[str, ...]


class Made(NamedTuple):
    """A page with what a reader has made of it."""

    entry: Entry
    page: Page
    head: Head
    whole: Page  # with nothing left out and nothing added

    @property
    def is_changed(self) -> bool:
        """Whether it is another page than that of the library."""
        return self.page is not self.entry.page


def read_head(text: str) -> Head:
    """Read the first line; raise a `UsageError` if it says something else."""
    words = text.partition("\n")[0].replace(",", " ").split()
    if not words or len(words) > WORDS_MAX:
        raise UsageError("begin with the name of a page, such as 'centralized'")
    name, *rest = words
    variant = ""
    if rest and rest[0].startswith("variant="):
        variant = rest.pop(0).removeprefix("variant=")
    lists: dict[str, list[str]] = {"only": [], "without": []}
    into = ""
    for word in rest:
        if word in lists:
            into = word
        elif not into:
            raise UsageError(f"expected only or without, got {word[:40]!r}")
        else:
            lists[into].append(word)
    return Head(name, variant, tuple(lists["only"]), tuple(lists["without"]))


def make(text: str, files: Collection[str] = ()) -> Made:
    """Read a text; of files, those alone are imported that the user has named."""
    head = read_head(text)
    if head.name.endswith(".py") and head.name not in files:
        raise UsageError(f"start the laboratory with {head.name} to see its proof: it is a program")
    entry = library.find(head.name)
    whole = library.choose_variant(entry, head.variant or None)
    clauses = text.partition("\n")[2]
    omitted = [*_others(whole, head.only), *head.without]
    page = whole
    if omitted or clauses.strip():
        page = whole.without(*omitted)
        page.name = whole.name
        add_clauses(page, clauses, words_of(entry.page, entry.words))
    return Made(entry, page, head, whole)


def _others(page: Page, only: Collection[str]) -> Iterator[str]:
    known = [item.name for item in (*page.axioms, *page.clauses, *page.theorems)]
    for name in only:
        if name not in known:
            raise UsageError(f"{page.name} has no clause or axiom {name[:40]!r}")
    if only:
        yield from (name for name in known if name not in only)


def describe(made: Made) -> Sheet:
    """Return what the page shows before anything is proved."""
    return Sheet(
        name=made.entry.name,
        scope=made.whole.scope,
        variant=made.head.variant,
        flaws=list(made.entry.page.flawed),
        axioms=_items(made, made.whole.axioms),
        clauses=_items(made, made.whole.clauses, made.page.clauses),
        theorems=_items(made, made.whole.theorems),
        steps=[Step(action.name, action.text) for action in made.page.actions],
        symbols=[_words_of(symbol) for symbol in made.page.symbols],
    )


def _items(made: Made, of_page: Sequence[Clause], now: Sequence[Clause] = ()) -> list[Item]:
    only, without = made.head.only, made.head.without
    shown = [clause for clause in of_page if not only or clause.name in only]
    added = [clause for clause in now if clause not in of_page]
    return [
        *(_item(clause, is_left_out=clause.name in without) for clause in shown),
        *(_item(clause, is_added=True) for clause in added),
    ]


def _item(clause: Clause, *, is_left_out: bool = False, is_added: bool = False) -> Item:
    return Item(clause.name, clause.text, clause.why, clause.promised, is_left_out, is_added)


def _words_of(symbol: Symbol[Any]) -> str:
    things = ", ".join(sort.__name__ for sort in symbol.sorts)
    text = f"{symbol.name}({things})" if things else symbol.name
    result = "" if symbol.to is Formula else f": {symbol.to.__name__}"
    return f"{text}{result}{', never changes' if symbol.fixed else ''}"
