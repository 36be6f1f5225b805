"""Transactions: schemes that keep them apart, a store that runs them, checkers of what they did."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coterie.transactions.catalogue import Scheme
    from coterie.transactions.schemes.span import Span
    from coterie.transactions.store import Counts, Store, Transaction

__all__ = ["Counts", "Scheme", "Span", "Store", "Transaction"]

_HOMES = {"Scheme": "catalogue", "Span": "schemes.span"}


def __getattr__(name: str) -> Any:
    """Import on first use: a checker of histories needs no event loop, and a store many parts."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES.get(name, 'store')}"), name)


def __dir__() -> list[str]:
    """Name what a program may use, imported or not."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
