"""For tests of programs that use coterie: locks of their own, clusters that lose nodes on demand, and clocks that are set.

With pytest nothing has to be imported: the fixtures `coterie_file`, `coterie_cluster` and `coterie_clock` are there as
soon as coterie is installed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coterie.testing.clock import WallClock
    from coterie.testing.cluster import LocalCluster

__all__ = ["LocalCluster", "WallClock"]

_HOMES = {"LocalCluster": "cluster", "WallClock": "clock"}


def __getattr__(name: str) -> Any:
    """Import on first use: pytest loads the fixtures at each start, and `coterie serve --dev` the nodes."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    """Name what a test may use, imported or not."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
