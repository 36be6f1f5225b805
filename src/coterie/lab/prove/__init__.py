"""Proofs for every number of processes: pages, the solver, and the link of a page to the code.

What a page needs is imported from here. The modules that need the solver, z3, are `theory`, `proof`,
`bounded` and `waits`; a page and its link do without.
"""

from coterie.lab.prove.page import Page, become, each, when
from coterie.lab.prove.terms import (
    Formula,
    Int,
    Ordered,
    PageError,
    Real,
    Thing,
    choose,
    every,
    later,
    least,
    none,
    some,
)

__all__ = [
    "Formula",
    "Int",
    "Ordered",
    "Page",
    "PageError",
    "Real",
    "Thing",
    "become",
    "choose",
    "each",
    "every",
    "later",
    "least",
    "none",
    "some",
    "when",
]
