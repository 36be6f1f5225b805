"""What Python reads in another way than it looks: found in the text of a page, before it proves too much."""

from __future__ import annotations

import ast
import inspect
import textwrap
from typing import TYPE_CHECKING, Any

from coterie.lab.prove.terms import PageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def text_of(rule: Callable[..., Any]) -> str:
    """Return the text of a function; empty if it was typed into an interpreter."""
    try:
        return textwrap.dedent(inspect.getsource(rule))
    except OSError:
        return ""


def look_for_slips(text: str) -> None:
    """Refuse `a >> b & c`, which Python reads as `(a >> b) & c`, without parentheses that say which.

    A clause that was meant the other way may forbid every step, and then everything is proved.
    """
    for slip in _slips(ast.parse(text), text):
        raise PageError(slip)


def look_for_slips_in_file(text: str, name: str) -> None:
    """Refuse the same in what clauses call: the functions of a file that are neither clauses nor steps."""
    for part in ast.parse(text).body:
        for slip in _slips(part, text):
            where = getattr(part, "name", f"line {part.lineno}")
            raise PageError(f"{name}, {where}: {slip}")


def _slips(tree: ast.AST, text: str) -> Iterator[str]:
    for node in ast.walk(tree):
        sign, sides = _operation(node)
        if any(_is_bare_implication(side, text) for side in sides):
            yield (
                f"put parentheses around what >> connects: a >> b {sign} c means (a >> b) {sign} c"
            )


def _operation(node: ast.AST) -> tuple[str, list[ast.expr]]:
    """Return what binds less than `>>`, and what it connects."""
    match node:
        case ast.BinOp(left=one, op=ast.BitAnd(), right=other):
            return "&", [one, other]
        case ast.BinOp(left=one, op=ast.BitOr(), right=other):
            return "|", [one, other]
        case ast.Compare(left=one, comparators=others):
            return "==", [one, *others]
        case _:
            return "", []


def _is_bare_implication(node: ast.expr, text: str) -> bool:
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.RShift)):
        return False
    lines = text.splitlines(keepends=True)
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    before = "".join(lines[: node.lineno - 1]) + _cut(lines[node.lineno - 1], node.col_offset)[0]
    after = _cut(lines[node.end_lineno - 1], node.end_col_offset)[1]
    after += "".join(lines[node.end_lineno :])
    return not (before.rstrip().endswith("(") and after.lstrip().startswith(")"))


def _cut(line: str, offset: int) -> tuple[str, str]:
    """Cut a line at an offset of `ast`, which counts bytes."""
    data = line.encode()
    return data[:offset].decode(), data[offset:].decode()
