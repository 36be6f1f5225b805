"""The schemes by the names under which users choose them."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from coterie.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.transactions.schemes.scheduler import Scheduler

PACKAGE = "coterie.transactions.schemes"
MODULES = (
    "two_phase_locking",
    "timestamp_ordering",
    "thomas_write_rule",
    "multiversion",
    "conservative",
    "optimistic",
)


@dataclass(frozen=True)
class SchemeVariant:
    """One way to run a scheme."""

    name: str
    meaning: str  # in a few words
    build: Callable[[int, int], Scheduler]  # for a site of so many, numbered from 1


@dataclass(frozen=True)
class Scheme:
    """A scheme of concurrency control; each of its modules declares one as `SCHEME`."""

    name: str
    title: str  # in a few words
    source: str  # where it was published
    variants: tuple[SchemeVariant, ...]  # the first is the default
    refuses: str  # what a transaction may be refused for; empty: never
    waits: str  # what a request may wait for
    order: str  # in which serial order transactions take effect
    keeps_age: bool = False  # a further attempt keeps its place among the others
    flawed: tuple[SchemeVariant, ...] = ()  # unsound ones, for the laboratory alone

    def variant(self, name: str | None = None, *, flawed: bool = False) -> SchemeVariant:
        """Choose a variant, or the default; one that is flawed only if those are asked for."""
        known = (*self.variants, *self.flawed) if flawed else self.variants
        for variant in known:
            if name in (None, variant.name):
                return variant
        choices = ", ".join(variant.name for variant in known)
        raise UsageError(f"{self.name} has no variant {name!r}; choose one of {choices}")

    def build(self, variant: str | None = None, site: int = 1, sites: int = 1) -> Scheduler:
        """Make the scheduler of a site."""
        return self.variant(variant).build(site, sites)


def schemes() -> dict[str, Scheme]:
    """Return all schemes by name, in the order in which the survey of 1987 presents them."""
    found: list[Any] = [importlib.import_module(f"{PACKAGE}.{name}").SCHEME for name in MODULES]
    return {scheme.name: scheme for scheme in found}


def scheme(name: str) -> Scheme:
    """Return the scheme of that name; raise `UsageError` if there is none."""
    modules = {module.replace("_", "-"): module for module in MODULES}
    if name not in modules:
        raise UsageError(f"there is no scheme {name!r}; choose one of {', '.join(modules)}")
    found: Scheme = importlib.import_module(f"{PACKAGE}.{modules[name]}").SCHEME
    return found
