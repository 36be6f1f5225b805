"""Rare places of the code, named where they are, that a campaign has to reach.

A campaign that finds nothing shows little if it never came to the places where something could go wrong. So
these have a name, in a comment on the line before the statement: `# sometimes: a parked request is made again`.

Here such comments are found, and a call that counts is put before each of these statements: into the code objects of
the functions that have any, in this process alone. The files stay as they are, and what ships pays nothing.
"""

from __future__ import annotations

import ast
import gc
import importlib
import re
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import NamedTuple

PACKAGE = Path(__file__).parent.parent.parent  # coterie
SOMETIMES = re.compile(r"^\s*# sometimes: (.+)$")
COUNT = "__count_point__"  # what a function of the product finds its counter by, among its globals

visits: Counter[str] = Counter()  # of each point, since they were last cleared


class Point(NamedTuple):
    """A rare place."""

    name: str
    module: str
    line: int  # of its comment


@cache
def find_points() -> tuple[Point, ...]:
    """List the points of all modules of coterie, in the order of the modules."""
    return tuple(
        Point(found[1], _module_of(path), number)
        for path in sorted(PACKAGE.rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if (found := SOMETIMES.match(line))
    )


def _module_of(path: Path) -> str:
    names = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(names[:-1] if names[-1] == "__init__" else names)


@cache
def count_points() -> None:
    """Have `visits` count from now on, in this process."""
    modules = dict.fromkeys(point.module for point in find_points())
    for module in modules:
        importlib.import_module(module)
    # Decorators hide functions in many ways, and the collector knows them all, but for those that a
    # command has frozen with all that it has imported.
    frozen = gc.get_freeze_count()
    gc.unfreeze()
    functions = [each for each in gc.get_objects() if isinstance(each, FunctionType)]
    if frozen:
        gc.freeze()
    for module in modules:
        _count_points_of(module, functions)


def _count_points_of(name: str, functions: list[FunctionType]) -> None:
    module = sys.modules[name]
    assert module.__file__ is not None, "it was found by its file"
    source = Path(module.__file__).read_text(encoding="utf-8")
    points = [point for point in find_points() if point.module == name]
    codes = _codes(_compiled(source, module.__file__, points))
    changed = {_place(each): each for each in codes if _counts(each)}
    module.__dict__[COUNT] = _count
    for function in functions:
        if function.__globals__ is module.__dict__:
            replacement = changed.get(_place(function.__code__))
            if replacement is not None:
                function.__code__ = replacement


def _count(name: str) -> None:
    visits[name] += 1


def _place(code: CodeType) -> tuple[str, int]:
    return code.co_qualname, code.co_firstlineno


def _compiled(source: str, file: str, points: list[Point]) -> CodeType:
    """Compile a module with a call before the statement after each of these lines."""
    tree = ast.parse(source)
    bodies = [
        body
        for node in ast.walk(tree)
        for body in (getattr(node, part, None) for part in ("body", "orelse", "finalbody"))
        if isinstance(body, list)
    ]
    for point in points:
        places = [
            (statement.lineno, body, statement)
            for body in bodies
            for statement in body
            if statement.lineno > point.line
        ]
        _, body, statement = min(places, key=lambda place: place[0])
        call = ast.parse(f"{COUNT}({point.name!r})").body[0]
        for node in ast.walk(call):
            ast.copy_location(node, statement)
        body.insert(body.index(statement), call)
    return compile(tree, file, "exec")


def _counts(code: CodeType) -> bool:
    """Return whether a function has a point, or defines one that does."""
    return any(COUNT in each.co_names for each in _codes(code))


def _codes(code: CodeType) -> list[CodeType]:
    """List a code object and all that are defined in it."""
    inner = [each for each in code.co_consts if isinstance(each, CodeType)]
    return [code, *(found for each in inner for found in _codes(each))]
