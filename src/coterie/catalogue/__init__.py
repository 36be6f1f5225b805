"""What algorithms there are: each with its source, its assumptions and its costs as code.

An algorithm's module ends with one `Algorithm` named `ALGORITHM`; being there is being registered.
`coterie algorithms`, `compare`, `check`, the tables of the docs and the tests all read these facts.
An algorithm of a user's own has no such module here: `load` follows `FILE.py:Class` to it.
"""

from coterie.catalogue.algorithm import (
    Algorithm,
    Cost,
    Costs,
    ElectionCosts,
    Flaw,
    MulticastCosts,
    Parameter,
    Setup,
    Variant,
    between,
    exactly,
    time_or_none,
    unknown,
)
from coterie.catalogue.lookup import (
    algorithms,
    elections,
    every_algorithm,
    find,
    is_reference,
    load,
    mutexes,
    source_of,
)

__all__ = [
    "Algorithm",
    "Cost",
    "Costs",
    "ElectionCosts",
    "Flaw",
    "MulticastCosts",
    "Parameter",
    "Setup",
    "Variant",
    "algorithms",
    "between",
    "elections",
    "every_algorithm",
    "exactly",
    "find",
    "is_reference",
    "load",
    "mutexes",
    "source_of",
    "time_or_none",
    "unknown",
]
