"""Breaking one line of a stamp-ordered scheme, and whether anything notices."""

from __future__ import annotations

import importlib
import inspect
from typing import TYPE_CHECKING, NamedTuple

from coterie.transactions.serializability import check
from tests.harness import Mutant, broken
from tests.transactions.stamped import HISTORIES, RESTARTED, WATCHED, ends, stormy_restarts
from tests.transactions.storms import storm

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FunctionType

    import pytest

    from coterie.transactions.schemes.timestamp_ordering.stamp_ordered import StampOrdered

PACKAGE = "coterie.transactions.schemes"
NOTICED = (AssertionError, LookupError)  # by the scheme itself or its watcher


class Case(NamedTuple):
    """A rule that is broken: text of a module that stands there once, and what it becomes."""

    module: str
    old: str
    new: str


def essence(code: CodeType) -> tuple[object, ...]:
    """What a function does, wherever it stands."""
    inner = tuple(essence(part) for part in code.co_consts if inspect.iscode(part))
    plain = tuple(repr(part) for part in code.co_consts if not inspect.iscode(part))
    return code.co_code, code.co_names, plain, inner


def break_rule(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the broken method in the place of the right one, wherever the class is used already."""
    name = f"{PACKAGE}.{case.module}"
    original, module = importlib.import_module(name), broken(name, Mutant(case.old, case.new))
    changed = 0
    for title, kind in inspect.getmembers(module, inspect.isclass):
        if kind.__module__ != module.__name__:
            continue
        right = getattr(original, title)
        methods: dict[str, FunctionType] = {
            key: value for key, value in vars(kind).items() if inspect.isfunction(value)
        }
        for key, method in methods.items():
            if essence(method.__code__) != essence(getattr(right, key).__code__):
                monkeypatch.setattr(right, key, method)
                changed += 1
    assert changed == 1, f"{changed} methods differ"


def noticed(scheme: str, seeds: int = 60) -> bool:
    """Explore small histories and run storms until something is wrong."""
    kind = WATCHED[scheme]
    try:
        return (
            any(fails(kind, seed) for seed in range(10))  # most are noticed so, and soon
            or any(explored_wrong(kind))
            or any(fails(kind, seed) for seed in range(10, seeds))
        )
    except NOTICED:
        return True


def explored_wrong(kind: type[StampOrdered]) -> Iterator[bool]:
    for first, scripts in HISTORIES.values():
        end = ends(kind(), scripts, first)
        yield bool(end.stuck or end.wrong)
    for history in RESTARTED:
        first, scripts = HISTORIES[history]
        end = ends(kind(), scripts, first, restart=True)
        yield bool(end.stuck or end.wrong)


def fails(kind: type[StampOrdered], seed: int) -> bool:
    trials = [
        storm(kind(), seed),
        storm(kind(patience=1), seed, aborts=0.1),
        stormy_restarts(kind(), seed),
    ]
    return any(bool(t.waiting()) or not check(t.history()).serializable for t in trials)
