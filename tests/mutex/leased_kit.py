"""The protocol's modules, as installed or with a line broken."""

from __future__ import annotations

import importlib
import inspect
import itertools
import sys
from types import ModuleType
from typing import Any

PACKAGE = "coterie.mutex.quorum.leased"
ORDER = (
    "settings frames tokens events uplink downlink ballot bid choice sending sessions bidding"
    " keeping reusing participant polling voter process"
)
_aliases = itertools.count()


class Kit:
    """What a world builds its nodes from."""

    def __init__(self, modules: dict[str, ModuleType] | None = None) -> None:
        found = modules or {
            name: importlib.import_module(f"{PACKAGE}.{name}") for name in ORDER.split()
        }
        self.settings: Any = found["settings"]
        self.participant: Any = found["participant"]
        self.voter: Any = found["voter"]


def broken(module_name: str, old: str, new: str) -> Kit:
    """Import the whole package anew under another name, with one line of one module changed."""
    alias = f"leased_broken_{next(_aliases)}"
    sys.modules[alias] = ModuleType(alias)
    modules: dict[str, ModuleType] = {}
    for name in ORDER.split():
        source = inspect.getsource(importlib.import_module(f"{PACKAGE}.{name}"))
        if name == module_name:
            assert source.count(old) == 1, f"{old!r} stands {source.count(old)} times"
            source = source.replace(old, new)
        module = modules[name] = ModuleType(f"{alias}.{name}")
        sys.modules[module.__name__] = module  # where msgspec looks up the types of fields
        exec(source.replace(PACKAGE, alias), module.__dict__)  # noqa: S102 - our own source
    return Kit(modules)
