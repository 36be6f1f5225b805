"""The exhaustive world: every interleaving up to a bound, judged by named properties.

The properties that mutexes are judged by, each by itself, are in `coterie.explore.properties`.
"""

from coterie.explore.check import check, declared_channel
from coterie.explore.properties import (
    Always,
    CanAlwaysStill,
    Count,
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
from coterie.explore.timed.check import check_timed, needs_clock
from coterie.explore.verdict import Progress, Verdict

__all__ = [
    "Always",
    "CanAlwaysStill",
    "Count",
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
    "waiting",
]
