"""The exhaustive world: every interleaving up to a bound, judged by named properties.

The properties that mutexes are judged by, each by itself, are in `coterie.lab.explore.properties`.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from coterie.errors import ConfigError

if find_spec("numpy") is None:  # which is loaded by the first search that is not a small one
    raise ConfigError(
        "the explorer needs numpy, which is not there: pip install 'coterie[explore]'"
    )

from coterie.lab.explore.check import check, declared_channel, needs_clock, refuse_with_clock
from coterie.lab.explore.properties import (
    Always,
    CanAlwaysStill,
    Count,
    Eventually,
    Exercised,
    Property,
    Settles,
    Sometimes,
    Together,
    at_least,
    at_most,
    inside,
    not_waiting,
    waiting,
)
from coterie.lab.explore.verdict import Progress, Verdict

if TYPE_CHECKING:
    from coterie.lab.explore.timed.check import check_timed

__all__ = [
    "Always",
    "CanAlwaysStill",
    "Count",
    "Eventually",
    "Exercised",
    "Progress",
    "Property",
    "Settles",
    "Sometimes",
    "Together",
    "Verdict",
    "at_least",
    "at_most",
    "check",
    "check_timed",
    "declared_channel",
    "inside",
    "needs_clock",
    "not_waiting",
    "refuse_with_clock",
    "waiting",
]


def __getattr__(name: str) -> Any:
    """Import the explorer with a clock on first use: most algorithms need none."""
    if name != "check_timed":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from coterie.lab.explore.timed.check import check_timed  # noqa: PLC0415 - see above

    return check_timed


def __dir__() -> list[str]:
    """Name what a program may use, imported or not."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
