"""The three sources by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.errors import UsageError
from coterie.lab.sources.lectures import LECTURES
from coterie.lab.sources.paper import PAPER
from coterie.lab.sources.survey import SURVEY

if TYPE_CHECKING:
    from coterie.lab.sources.statement import Source

SOURCES = (SURVEY, PAPER, LECTURES)


def source(name: str) -> Source:
    """Return the source of that name."""
    for known in SOURCES:
        if known.name == name:
            return known
    names = ", ".join(known.name for known in SOURCES)
    raise UsageError(f"no source {name!r}: choose one of {names}")
