"""Breaking one line of a class or a function in place, so that all that use it use the broken one."""

from __future__ import annotations
import __future__

import inspect
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from types import CodeType

    import pytest

BROKEN = "<broken>"  # where the code of a mutant comes from
Target: TypeAlias = Any  # a class or a function


class Mutant(NamedTuple):
    """A rule that is broken: text that stands once in a class or function, and what it becomes."""

    target: Target
    old: str
    new: str


def break_rule(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the code of the one function that the change concerns, wherever it is imported."""
    target, old, new = mutant
    text = inspect.getsource(target)
    assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {target.__name__}"
    right, wrong = functions(target, text), functions(target, text.replace(old, new))
    changed = [name for name, code in right.items() if essence(code) != essence(wrong[name])]
    assert len(changed) == 1, f"the functions {changed} of {target.__name__} differ"
    [name] = changed
    function = vars(target)[name] if inspect.isclass(target) else target
    assert function.__code__.co_filename != BROKEN, f"{name} is broken already"
    monkeypatch.setattr(function, "__code__", wrong[name])


def functions(target: Target, text: str) -> dict[str, CodeType]:
    """Compile a class or a function; return the code of its methods, or its own, by name."""
    flags = __future__.annotations.compiler_flag
    [code] = inner(compile(text, BROKEN, "exec", flags=flags))
    return {code.co_name: code for code in (inner(code) if inspect.isclass(target) else [code])}


def inner(code: CodeType) -> list[CodeType]:
    return [part for part in code.co_consts if inspect.iscode(part)]


def essence(code: CodeType) -> tuple[object, ...]:
    """Return what a function does, wherever it stands."""
    plain = tuple(repr(part) for part in code.co_consts if not inspect.iscode(part))
    return code.co_code, code.co_names, plain, tuple(map(essence, inner(code)))
