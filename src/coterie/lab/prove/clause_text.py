"""Clauses that a reader types: functions in the words of a page, and nothing else of Python.

A text may come from an address that another person has sent. So what is run is only a function whose
every node is one of those listed here: no attribute, no import, no subscript, no loop, and calls of the
words of the page alone.
"""

from __future__ import annotations

import ast
import difflib
import inspect
from typing import TYPE_CHECKING, Any

from coterie.lab.prove.page import Symbol
from coterie.lab.prove.terms import (
    Formula,
    PageError,
    Term,
    choose,
    every,
    later,
    least,
    none,
    some,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from coterie.lab.prove.page import Page

TEXT_MAX = 4_000  # characters
LANGUAGE: Mapping[str, Any] = {
    word.__name__: word for word in (choose, every, later, least, none, some, Formula)
}
PLAIN = (
    *(ast.BinOp, ast.BitAnd, ast.BitOr, ast.RShift, ast.Add, ast.Sub),
    *(ast.UnaryOp, ast.Invert, ast.Not, ast.BoolOp, ast.And, ast.Or, ast.IfExp),
    *(ast.Compare, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE),
    *(ast.Load, ast.Store, ast.arguments, ast.arg, ast.Return),
)
SENTENCE = {  # what readers try, and what to write instead
    ast.Is: "write == for is",
    ast.IsNot: "write != for is not",
    ast.In: "there is no in: call the relation, as in queued(p)",
    ast.NotIn: "there is no not in: call the relation, as in ~queued(p)",
    ast.For: "there are no loops: write every(Process, lambda q: ...)",
    ast.Subscript: "a clause reads: write queued(p), not queued[p]",
    ast.Attribute: "no dots: a clause uses the words of the page alone",
    ast.BitXor: "there is no ^: write ~(a == b)",
    ast.If: "there is no if: write a >> b, or choose(test, yes, no)",
}


def words_of(page: Page, module: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a clause of a page may name: its sorts, symbols, variables and formulas, by name."""
    sorts = {sort for symbol in page.symbols for sort in (*symbol.sorts, symbol.to)}
    known = {**LANGUAGE, **module}
    clauses = {item.name for item in (*page.axioms, *page.starts, *page.clauses, *page.theorems)}
    own = {
        name: value
        for name, value in module.items()
        if isinstance(value, Symbol | Term)
        or (_is_formula(value, known) and name not in clauses)  # clauses are to be written
    }
    symbols = {symbol.name: symbol if symbol.sorts else symbol() for symbol in page.symbols}
    return {**LANGUAGE, **{sort.__name__: sort for sort in sorts}, **symbols, **own}


def _is_sort(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, Term)


def _is_formula(value: Any, known: Mapping[str, Any]) -> bool:
    """Return whether it is a function of the page's file which says that it returns a term."""
    if not inspect.isfunction(value) or value.__module__ != known["__name__"]:
        return False
    result = value.__annotations__.get("return")
    return _is_sort(known.get(result) if isinstance(result, str) else result)


def add_clauses(page: Page, text: str, words: Mapping[str, Any]) -> None:
    """Add the clauses of a text to a page; raise a `PageError` of one line that names the clause."""
    taken = {item.name for item in (*page.axioms, *page.clauses, *page.theorems)}
    for node in _functions(text):
        if node.name in taken:
            raise PageError(f"{node.name}: there is a clause of this name; choose another one")
        taken.add(node.name)
        promised = _is_promised(node)
        node.decorator_list = []
        written = ast.get_source_segment(text, node) or ""
        try:
            _Reading(node, words).check()
            page.add(_compiled(node, words), written, promised=promised)
        except RecursionError:
            raise PageError(f"{node.name}: it is nested too deeply") from None


def _functions(text: str) -> Sequence[ast.FunctionDef]:
    if len(text) > TEXT_MAX:
        raise PageError(f"clauses have at most {TEXT_MAX:,} characters, not {len(text):,}")
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise PageError(f"line {error.lineno}: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError):
        raise PageError("the clauses cannot be read: they are nested too deeply") from None
    found = []
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef):
            raise PageError(
                f"line {node.lineno}: a clause is a function: def name(p: Process): return ..."
            )
        found.append(node)
    return found


def _is_promised(node: ast.FunctionDef) -> bool:
    """Read the decorator, which may be left out."""
    for decorator in node.decorator_list:
        name = decorator.attr if isinstance(decorator, ast.Attribute) else ""
        if name not in ("safety", "invariant"):
            raise PageError(f"{node.name}: write @page.safety, @page.invariant, or neither")
        return name == "safety"
    return False


def _compiled(node: ast.FunctionDef, words: Mapping[str, Any]) -> Callable[..., Any]:
    module = ast.Module([node], [])
    scope: dict[str, Any] = {"__builtins__": {}, **words}
    exec(compile(module, "<clause>", "exec"), scope)  # noqa: S102 - of the nodes that `_Reading` lists
    rule: Callable[..., Any] = scope[node.name]
    return rule


class _Reading:
    """Looks at each node of a clause before it is run."""

    def __init__(self, node: ast.FunctionDef, words: Mapping[str, Any]) -> None:
        self._node = node
        self._words = words

    def check(self) -> None:
        node = self._node
        names = self._parameters(node.args)
        if node.returns is not None:
            self._look(node.returns, names)
        *lines, last = node.body
        if lines and isinstance(lines[0], ast.Expr) and _is_text(lines[0].value):
            del lines[0]  # the sentence that explains it
        for line in lines:
            names |= {self._named(line, names)}
        if not isinstance(last, ast.Return) or last.value is None:
            raise self._slip("it returns nothing: end it with return and a formula")
        self._look(last.value, names)

    def _named(self, line: ast.stmt, names: frozenset[str]) -> str:
        """Read `name = formula`."""
        match line:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name not in self._words:
                self._look(value, names)
                return name
            case ast.Assign(targets=[ast.Name(id=name)]):
                raise self._slip(f"{name} is a word of the page: choose another name")
            case _:
                raise self._refused(line)

    def _parameters(self, args: ast.arguments) -> frozenset[str]:
        """Name them; look at their sorts."""
        if args.defaults or args.vararg or args.kwarg or args.kwonlyargs or args.posonlyargs:
            raise self._slip("give its things plain names, with a sort each: p: Process")
        for each in args.args:
            if each.arg in self._words:
                raise self._slip(f"{each.arg} is a word of the page: choose another name")
            if each.annotation is not None:
                self._look(each.annotation, frozenset())
        return frozenset(each.arg for each in args.args)

    def _look(self, node: ast.AST, names: frozenset[str]) -> None:
        match node:
            case ast.Name(id=name):
                if name not in names and name not in self._words:
                    raise self._slip(f"the page has no {name}{self._alike(name, names)}")
            case ast.Constant(value=value):
                if not isinstance(value, bool | int):
                    raise self._slip(f"{value!r} has no place in a clause")
            case ast.Call(func=function, args=args, keywords=keywords):
                self._look_at_call(function, names)
                if keywords or any(isinstance(each, ast.Starred) for each in args):
                    raise self._slip("name the things of a relation in their order: queued(p)")
                for each in args:
                    self._look(each, names)
            case ast.Lambda(args=given, body=body):
                self._look(body, names | self._parameters(given))
            case _ if isinstance(node, PLAIN):
                for part in ast.iter_child_nodes(node):
                    self._look(part, names)
            case _:
                raise self._refused(node)

    def _look_at_call(self, function: ast.expr, names: frozenset[str]) -> None:
        """Allow words of the page alone: so no clause calls itself, and none goes on without end."""
        if not isinstance(function, ast.Name):
            raise self._slip("only words of the page are called, as in queued(p)")
        self._look(function, names)
        if function.id in names or not callable(self._words[function.id]):
            raise self._slip(f"{function.id} is one thing, and takes none")
        if _is_sort(self._words[function.id]):
            raise self._slip(f"{function.id} is a sort: write some({function.id}, lambda x: ...)")

    def _refused(self, node: ast.AST) -> PageError:
        sentence = SENTENCE.get(type(node))
        return self._slip(sentence or f"{type(node).__name__} has no place in a clause")

    def _alike(self, name: str, names: frozenset[str]) -> str:
        close = difflib.get_close_matches(name, [*self._words, *names], 1)
        return f": is it {close[0]}?" if close else ""

    def _slip(self, text: str) -> PageError:
        return PageError(f"{self._node.name}: {text}")


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
