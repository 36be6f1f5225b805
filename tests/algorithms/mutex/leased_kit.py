"""The protocol's modules, as installed or with a line broken."""

from __future__ import annotations

import importlib
import inspect
import itertools
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

PACKAGE = "coterie.algorithms.mutex.quorum.leased"
ORDER = (
    "settings configuration stored frames votes saved register succession sessions ballot claimed bid"
    " free_read participant voter carry changer process"
)
_aliases = itertools.count()


class Kit:
    """What a world builds its nodes from."""

    def __init__(self, modules: dict[str, ModuleType] | None = None) -> None:
        found = modules or {
            name: importlib.import_module(f"{PACKAGE}.{name}") for name in ORDER.split()
        }
        self.settings: Any = found["settings"]
        self.configuration: Any = found["configuration"]
        self.changer: Any = found["changer"]
        self.frames: Any = found["frames"]
        self.stored: Any = found["stored"]
        self.participant: Any = found["participant"]
        self.voter: Any = found["voter"]


def broken(kind: Callable[..., object], old: str, new: str) -> Kit:
    """Import the whole package under another name, with one piece of a class or function changed.

    A class that refers to the broken one is made again, too, so that it uses the broken one.
    """
    return broken_twice((kind, old, new))


def broken_twice(*edits: tuple[Callable[..., object], str, str]) -> Kit:
    """Break several pieces: where one rule alone would be made up for by another."""
    sources = {
        name: inspect.getsource(importlib.import_module(f"{PACKAGE}.{name}"))
        for name in ORDER.split()
    }
    for kind, old, new in edits:
        name = kind.__module__.removeprefix(f"{PACKAGE}.")
        text = inspect.getsource(kind)
        assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {kind.__name__}"
        # Of a second edit of the same class only the piece is found again.
        is_first = text in sources[name]
        before, after = (text, text.replace(old, new)) if is_first else (old, new)
        assert sources[name].count(before) == 1
        sources[name] = sources[name].replace(before, after)
    alias = f"leased_broken_{next(_aliases)}"
    sys.modules[alias] = ModuleType(alias)
    modules: dict[str, ModuleType] = {}
    for name, source in sources.items():
        module = modules[name] = ModuleType(f"{alias}.{name}")
        sys.modules[module.__name__] = module  # where msgspec looks up the types of fields
        exec(source.replace(PACKAGE, alias), module.__dict__)  # noqa: S102 - our own source
    return Kit(modules)
