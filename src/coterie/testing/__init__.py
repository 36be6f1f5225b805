"""For tests of programs that use coterie: locks of their own, and clusters that lose nodes on demand.

With pytest nothing has to be imported: the fixtures `coterie_file` and `coterie_cluster` are there as
soon as coterie is installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coterie.testing.cluster import LocalCluster

__all__ = ["LocalCluster"]


def __getattr__(name: str) -> Any:
    """Import on first use: pytest loads the fixtures at each start, and `coterie serve --dev` the nodes."""
    if name != "LocalCluster":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from coterie.testing.cluster import LocalCluster  # noqa: PLC0415 - the reason for this function

    return LocalCluster


def __dir__() -> list[str]:
    """Name what a test may use, imported or not."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
